// SPDX-License-Identifier: Apache-2.0
// Source of the synchronous behavior: CUDA driver API, "API synchronization behavior".
#include "simulator/cuda/memory/transfer.h"

#include <memory>

#include "simulator/core/memory/copy_apart.h"
#include "simulator/cuda/graph/capture.h"
#include "simulator/cuda/memory/nvtx_ranges.h"

namespace simulator::cuda {
namespace {

// Nothing if the side that the caller names does not match the address.
std::optional<MemoryKind> kind_of(Machine& machine, const End& end) {
  const MemoryKind found = memory_kind_at(machine, end.at);
  switch (end.side) {
    // A device pointer may point to pinned memory.
    case Side::kDevice:
      return found == MemoryKind::kPageable ? std::nullopt : std::optional(found);
    // A host pointer may point to managed memory.
    case Side::kHost:
    case Side::kUnified:
      return found;
  }
  return std::nullopt;
}

Direction direction(MemoryKind to, MemoryKind from) {
  if (to == MemoryKind::kDevice) return from == MemoryKind::kDevice ? Direction::kOnDevice : Direction::kToDevice;
  return from == MemoryKind::kDevice ? Direction::kToHost : Direction::kOnHost;
}

// Shape::bytes() may wrap around.
bool is_empty(const Shape& shape) { return shape.width == 0 || shape.height == 0 || shape.depth == 0; }

// Whether the range begins in memory of cuMemAlloc and ends beyond it, byte by byte. A driver refuses such a copy in
// the call itself, also if it is asynchronous by name (pmodels/mpich#7819: 1504 bytes at byte 1880 of 3368, invalid
// argument). For ends of mappings, pools and managed memory no source was found: there the device faults.
bool goes_past_its_end(const State& state, Address at, const Shape& shape) {
  const auto* const found = state.allocation_at(at);
  if (found == nullptr || found->second.kind != AllocationKind::kDevice || is_empty(shape)) return false;
  Bytes slices = 0, rows = 0, reach = 0;
  const bool wraps = __builtin_mul_overflow(shape.depth - 1, shape.slice_pitch, &slices) ||
                     __builtin_mul_overflow(shape.height - 1, shape.row_pitch, &rows) ||
                     __builtin_add_overflow(slices, rows, &reach) || __builtin_add_overflow(reach, shape.width, &reach);
  return wraps || reach > found->first + found->second.bytes - at;
}

// No host has this much memory.
constexpr Bytes kMostStagedBytes = Bytes{1} << 39;

std::shared_ptr<const std::byte[]> stage(const End& from) {
  const Shape& shape = from.shape;
  const auto packed = std::make_shared_for_overwrite<std::byte[]>(static_cast<std::size_t>(shape.bytes()));
  std::byte* to = packed.get();
  for (Bytes z = 0; z < shape.depth; ++z) {
    for (Bytes y = 0; y < shape.height; ++y) {
      copy_apart(to, reinterpret_cast<const void*>(from.at + z * shape.slice_pitch + y * shape.row_pitch), shape.width);
      to += shape.width;
    }
  }
  return packed;
}

// Copies and sets that are not asynchronous by name can not be captured, and could disturb captures.
CUresult may_copy_at_once(Call& call, StreamId stream) {
  if (const CUresult result = may_disturb(call); result != CUDA_SUCCESS) return result;
  return may_wait_for_stream(call, stream);
}

// Reads without the stream's order, and writes in it.
// Inlined, its copies would be on the stack in each transfer, and programs have threads with little.
[[gnu::noinline]] CUresult transfer_ahead(Call& call, StreamId stream, const End& to, const End& from, bool waits) {
  Machine& machine = call.machine();
  const auto between = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(from.shape.bytes()));
  Shape packed = from.shape;
  packed.row_pitch = packed.width;
  packed.slice_pitch = packed.width * packed.height;
  const End host{Side::kHost, reinterpret_cast<Address>(between->data()), packed};
  Copy reads, writes;
  if (const CUresult result = make_copy(machine, host, from, &reads); result != CUDA_SUCCESS) return result;
  if (const CUresult result = make_copy(machine, to, host, &writes); result != CUDA_SUCCESS) return result;
  const OperationId read = machine.submit(stream, std::move(reads), {.after = {}, .detached = true});
  if (waits) {
    if (const CUresult result = machine.wait(read); result != CUDA_SUCCESS) return result;
  }
  machine.submit(stream, std::move(writes), {.after = {&read, 1}});
  machine.submit(stream, Internal{[between] { static_cast<void>(between); }}, {.after = {}, .uncharged = true});
  return CUDA_SUCCESS;
}

}  // namespace

Blocking blocking_of(CUmemcpySrcAccessOrder order) {
  if (order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL) return Blocking::kReadsAtOnce;
  return order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY ? Blocking::kReadsAnyTime : Blocking::kNo;
}

CUresult make_copy(Machine& machine, const End& to, const End& from, Copy* out) {
  const std::optional<MemoryKind> target = kind_of(machine, to);
  const std::optional<MemoryKind> source = kind_of(machine, from);
  if (!target || !source || to.at == 0 || from.at == 0) return CUDA_ERROR_INVALID_VALUE;
  *out = {direction(*target, *source), to.at, from.at, to.shape, from.shape, {}, to.as, from.as};
  return CUDA_SUCCESS;
}

CUresult device_of(Call& call, CUcontext context, std::optional<DeviceId>* out) {
  if (context == nullptr) return CUDA_SUCCESS;
  if (!call.state().contexts.has(context)) return CUDA_ERROR_INVALID_CONTEXT;
  *out = context->device;
  return CUDA_SUCCESS;
}

CUresult make_set(Machine& machine, Address to, const Shape& shape, std::uint64_t value, std::uint32_t element,
                  Set* out) {
  if (to % element != 0 || shape.row_pitch % element != 0) return CUDA_ERROR_INVALID_VALUE;
  if (to == 0 || memory_kind_at(machine, to) == MemoryKind::kPageable) return CUDA_ERROR_INVALID_VALUE;
  *out = {to, shape, value, element};
  return CUDA_SUCCESS;
}

CUresult transfer(Call& call, const End& to, const End& from, CUstream stream, Blocking blocking) {
  Machine& machine = call.machine();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (goes_past_its_end(call.state(), to.at, to.shape) || goes_past_its_end(call.state(), from.at, from.shape))
    return CUDA_ERROR_INVALID_VALUE;
  const bool reads_ahead = blocking == Blocking::kReadsAtOnce || blocking == Blocking::kReadsAnyTime;
  if (reads_ahead && !machine.tagged() && memory_kind_at(machine, from.at) == MemoryKind::kDevice &&
      to.shape.bytes() != 0 && captured(call.state(), id) == nullptr) {
    return transfer_ahead(call, id, to, from, blocking == Blocking::kReadsAtOnce);
  }
  if (reads_ahead) blocking = blocking == Blocking::kReadsAtOnce ? Blocking::kYes : Blocking::kNo;
  if (blocking == Blocking::kYes) {
    if (const CUresult result = may_copy_at_once(call, id); result != CUDA_SUCCESS) return result;
  }
  if (is_empty(to.shape)) return CUDA_SUCCESS;
  Copy copy;
  if (const CUresult result = make_copy(machine, to, from, &copy); result != CUDA_SUCCESS) return result;
  if (captured(call.state(), id) != nullptr) return submit(call, id, std::move(copy));
  copy.reads_without_order = reads_without_order();
  const bool to_pageable = memory_kind_at(machine, to.at) == MemoryKind::kPageable;
  const bool from_pageable = memory_kind_at(machine, from.at) == MemoryKind::kPageable && !to_pageable;
  const bool on_device = copy.direction == Direction::kOnDevice, on_host = copy.direction == Direction::kOnHost;
  if (from_pageable) {
    if (blocking == Blocking::kYes) {
      if (const CUresult result = machine.wait_stream(id); result != CUDA_SUCCESS) return result;
    }
    // In tagged mode host memory has tags too, which the machine looks up by address.
    if (from.shape.bytes() > kMostStagedBytes) return CUDA_ERROR_INVALID_VALUE;
    if (!machine.tagged()) copy.staged = stage(from);
  }
  OperationId operation = 0;
  if (const CUresult result = submit(call, id, std::move(copy), nullptr, &operation); result != CUDA_SUCCESS)
    return result;
  const bool waits = to_pageable || (blocking == Blocking::kYes && !on_device && (on_host || !from_pageable)) ||
                     (from_pageable && machine.tagged());
  return waits ? machine.wait(operation) : CUDA_SUCCESS;
}

CUresult fill(Call& call, Address to, const Shape& shape, std::uint64_t value, std::uint32_t element, CUstream stream,
              Blocking blocking) {
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (blocking == Blocking::kYes) {
    if (const CUresult result = may_copy_at_once(call, id); result != CUDA_SUCCESS) return result;
  }
  if (to % element != 0 || shape.row_pitch % element != 0) return CUDA_ERROR_INVALID_VALUE;
  if (is_empty(shape)) return CUDA_SUCCESS;
  if (goes_past_its_end(call.state(), to, shape)) return CUDA_ERROR_INVALID_VALUE;
  Set set;
  if (const CUresult result = make_set(call.machine(), to, shape, value, element, &set); result != CUDA_SUCCESS)
    return result;
  OperationId operation = 0;
  if (const CUresult result = submit(call, id, set, nullptr, &operation); result != CUDA_SUCCESS) return result;
  const bool waits = blocking == Blocking::kYes && memory_kind_at(call.machine(), to) == MemoryKind::kPinned;
  return waits ? call.machine().wait(operation) : CUDA_SUCCESS;
}

}  // namespace simulator::cuda
