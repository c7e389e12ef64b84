// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/to_host.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "hooks/pointers/uploads.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/ends.h"

namespace thermocline {
namespace {

// A copy from pinned memory of the library, of rows in layers; a single range is one row.
struct CopyOnHost {
  Placed to, from;
};

void CUDA_CB copy_on_host(void* data) {
  const std::unique_ptr<CopyOnHost> copy(static_cast<CopyOnHost*>(data));
  const Box& box = copy->from.box;
  for (Region row{}; row.first_layer < box.layers; advance(box, &row)) {
    std::memcpy(reinterpret_cast<void*>(begin_of(copy->to, row)),          // NOLINT: addresses of the driver's
                reinterpret_cast<const void*>(begin_of(copy->from, row)),  // interface
                box.width);
  }
}

CUresult submit_rows(StreamHandle stream, const CopyOnHost& copy) {
  const Box& to = copy.to.box;
  const Box& from = copy.from.box;
  CUDA_MEMCPY3D rows{};
  rows.srcMemoryType = CU_MEMORYTYPE_HOST;
  rows.srcHost = reinterpret_cast<const void*>(copy.from.at);  // NOLINT: an address of the driver's interface
  const bool is_host = is_pageable(copy.to.at) || is_pinned(copy.to.at);
  rows.dstMemoryType = is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
  rows.dstHost = reinterpret_cast<void*>(copy.to.at);  // NOLINT: as above
  rows.dstDevice = copy.to.at;
  rows.srcPitch = std::max(from.pitch, from.width);
  rows.dstPitch = std::max(to.pitch, to.width);
  rows.srcHeight = std::max(from.layer_rows, from.rows);
  rows.dstHeight = std::max(to.layer_rows, to.rows);
  rows.WidthInBytes = from.width;
  rows.Height = from.rows;
  rows.Depth = from.layers;
  return real<Function::cuMemcpy3DAsync_v2>(&rows, to_cu(stream));
}

CUresult submit_in_stream(StreamHandle stream, const CopyOnHost& copy) {
  const Box& box = copy.from.box;
  if (box.rows != 1 || box.layers != 1) return submit_rows(stream, copy);
  return real<Function::cuMemcpyAsync>(copy.to.at, copy.from.at, box.width, to_cu(stream));
}

// CUDA driver API, "API synchronization behavior": a copy from host memory to host memory is synchronous, even if it is
// asynchronous by name. But a copy to pinned memory that the program requested in a stream must not wait: the stream
// may be waiting for what the program's thread does next.
CUresult submit_on_host(StreamHandle stream, Host host, const CopyOnHost& copy) {
  if (host == Host::kGoesOn && is_pinned(copy.to.at)) {
    auto data = std::make_unique<CopyOnHost>(copy);
    const CUresult result = real<Function::cuLaunchHostFunc>(to_cu(stream), copy_on_host, data.get());
    if (result == CUDA_SUCCESS) static_cast<void>(data.release());
    if (result != CUDA_ERROR_NOT_SUPPORTED) return result;
  }
  return submit_in_stream(stream, copy);
}

std::size_t run_from(CUdeviceptr from, std::size_t bytes) {
  const HeldEngines engines;
  if (engines.none() || Runtime::get().broken()) return bytes;
  const ActiveEngine* const owner = engines->owner(DeviceAddress{from});
  return owner == nullptr ? bytes : owner->engine->host_copy_run({DeviceAddress{from}, bytes});
}

bool may_differ_by_place(CUresult result) {
  return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED;
}

// Copies a region that is entirely evicted or entirely resident. If it cannot be copied on the host, it is fetched.
CUresult copy_region(StreamHandle stream, Host host, const Placed& to, const Placed& from, const Region& region,
                     const OperationInfo& info, RunOfRows run) {
  const Placed target = part_of(to, region);
  const Placed source = part_of(from, region);
  bool refused = false;
  const auto copy_there = [&](const void* copy) {
    const Placed on_host{reinterpret_cast<CUdeviceptr>(copy), source.box};
    const CUresult result = submit_on_host(stream, host, {.to = target, .from = on_host});
    refused = may_differ_by_place(result);
    return result;
  };
  const CallFrom from_host = copy_there;
  AccessList reads;
  reads.read(source.at, span_of(source.box));
  const CUresult result = in_parts(stream, reads, target, source, [&](const Region& part) {
    const bool whole = part.bytes == 0 && part.rows == source.box.rows && part.layers == source.box.layers;
    return whole ? run(region, info, &from_host) : run(within(region, part), info, nullptr);
  });
  return refused ? run(region, info, nullptr) : result;
}

}  // namespace

bool is_ordinary(const Box& box) {
  const bool rows_lie_apart = box.rows == 1 || box.pitch >= box.width;
  return rows_lie_apart && (box.layers == 1 || box.layer_rows >= box.rows);
}

CUresult copy_from_host_copy(StreamHandle stream, const Placed& to, const void* host_copy, const Box& shape) {
  return submit_in_stream(stream, {.to = to, .from = {reinterpret_cast<CUdeviceptr>(host_copy), shape}});
}

CUresult copy_from_host_copy(StreamHandle stream, CUdeviceptr to, const void* host_copy, std::size_t bytes) {
  const Box row{.width = bytes};
  return copy_from_host_copy(stream, {to, row}, host_copy, row);
}

bool is_copy_to_host(CUdeviceptr to, CUdeviceptr from) {
  const EngineSet* const engines = engines_now();
  return engines != nullptr && engines->owner(DeviceAddress{from}) != nullptr &&
         engines->owner(DeviceAddress{to}) == nullptr;
}

bool is_copy_to_host(const ShapedCopy& shape) {
  return span_of(shape.to.box) != 0 && span_of(shape.from.box) != 0 && is_ordinary(shape.to.box) &&
         is_ordinary(shape.from.box) && is_copy_to_host(shape.to.at, shape.from.at);
}

bool is_on_host(CUdeviceptr from, std::size_t bytes) {
  const HeldEngines engines;
  if (engines.none() || Runtime::get().broken()) return false;
  const ActiveEngine* const owner = engines->owner(DeviceAddress{from});
  return owner != nullptr && owner->engine->is_on_host({DeviceAddress{from}, bytes});
}

CUresult copy_to_host(StreamHandle stream, Host host, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                      OperationInfo info, RunOfCopy run) {
  const CUresult refused = refuse_past_an_end(stream, AccessList().read(from, bytes));
  if (refused != CUDA_SUCCESS) return refused;
  for (std::size_t done = 0; done < bytes; info.again = true) {
    std::size_t now = bytes - done;
    const CUresult asked = guarded([&] {
      now = run_from(from + done, bytes - done);
      return CUDA_SUCCESS;
    });
    if (asked != CUDA_SUCCESS) return asked;
    const CUresult result = run(done, now, info, [&](const void* copy) {
      const Box row{.width = now};
      return submit_on_host(stream, host, {.to = {to + done, row}, .from = {reinterpret_cast<CUdeviceptr>(copy), row}});
    });
    if (result != CUDA_SUCCESS) return result;
    done += now;
  }
  return CUDA_SUCCESS;
}

CUresult copy_to_host(StreamHandle stream, Host host, const Placed& to, const Placed& from, OperationInfo info,
                      RunOfRows run) {
  const CUresult refused = refuse_past_an_end(stream, AccessList().read(from.at, span_of(from.box)));
  if (refused != CUDA_SUCCESS) return refused;
  const CUdeviceptr end = from.at + span_of(from.box);
  for (Region region{}; region.first_layer < from.box.layers; info.again = true) {
    const CUdeviceptr at = begin_of(from, region);
    std::size_t room = end - at;
    const CUresult asked = guarded([&] {
      room = run_from(at, room);
      return CUDA_SUCCESS;
    });
    if (asked != CUDA_SUCCESS) return asked;
    extend_within(from.box, room, &region);
    const CUresult result = copy_region(stream, host, to, from, region, info, run);
    if (result != CUDA_SUCCESS) return result;
    advance(from.box, &region);
  }
  return CUDA_SUCCESS;
}

}  // namespace thermocline
