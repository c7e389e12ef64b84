// SPDX-License-Identifier: Apache-2.0
// Queries about pointers.
#include "simulator/cuda/memory/memory_kinds.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

// Everything known about the memory that contains an address.
struct PointedMemory {
  MemoryKind kind = MemoryKind::kPageable;
  const std::pair<const Address, Allocation>* allocation = nullptr;
  Address begin = 0;
  Bytes bytes = 0;
  // The range in which memory could be mapped around the address: a mapping's reservation, else the same as the memory.
  Address range_begin = 0;
  Bytes range_bytes = 0;
  bool is_managed = false;
};

PointedMemory find(Call& call, Address at) {
  PointedMemory known;
  known.allocation = call.state().allocation_at(at);
  if (known.allocation != nullptr) {
    known.kind = MemoryKind::kDevice;
    known.begin = known.allocation->first;
    known.bytes = known.allocation->second.bytes;
    known.is_managed = known.allocation->second.kind == AllocationKind::kManaged;
    return known;
  }
  call.state().modules.for_each([&](const CUmod_st& module) {
    for (const auto& [name, variable] : module.variables) {
      if (at < variable.address || at - variable.address >= variable.bytes) continue;
      known.kind = MemoryKind::kDevice;
      known.begin = variable.address;
      known.bytes = variable.bytes;
      known.is_managed = variable.managed;
    }
  });
  if (known.kind == MemoryKind::kDevice) return known;
  Machine& machine = call.machine();
  if (machine.mapping_at(at, &known.begin, &known.bytes)) {
    known.kind = MemoryKind::kDevice;
    machine.reservation_at(at, &known.range_begin, &known.range_bytes);
  } else if (machine.pinned_at(reinterpret_cast<const void*>(at), &known.begin, &known.bytes)) {
    known.kind = MemoryKind::kPinned;
  }
  return known;
}

PointedMemory look_up(Call& call, Address at) {
  PointedMemory known = find(call, at);
  if (known.range_bytes == 0) {
    known.range_begin = known.begin;
    known.range_bytes = known.bytes;
  }
  return known;
}

template <typename T>
CUresult answer(void* out, T value) {
  *static_cast<T*>(out) = value;
  return CUDA_SUCCESS;
}

bool is_legacy_ipc_capable(const PointedMemory& known) {
  return known.allocation != nullptr && known.allocation->second.kind == AllocationKind::kDevice;
}

// The handle types for which the memory was created.
unsigned long long handle_types(Call& call, Address at) {
  const auto& created = call.state().physical;
  const auto found = created.find(call.machine().physical_at(at).value_or(0));
  return found == created.end() ? 0 : static_cast<unsigned long long>(found->second.requestedHandleTypes);
}

CUresult get_memory(Call& call, void* out, CUpointer_attribute attribute, Address at, const PointedMemory& known) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return answer(out, known.allocation != nullptr ? known.allocation->second.context : call.context());
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return answer<unsigned>(out, known.kind == MemoryKind::kDevice ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return answer<CUdeviceptr>(out, at);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (known.kind == MemoryKind::kDevice && !known.is_managed) return CUDA_ERROR_INVALID_VALUE;
      return answer(out, reinterpret_cast<void*>(at));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return answer<unsigned>(out, known.allocation != nullptr && known.allocation->second.sync_memops ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return answer<unsigned long long>(out, known.allocation != nullptr ? known.allocation->second.id : known.begin);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return answer<unsigned>(out, known.is_managed ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return answer<int>(out, call.machine().owner_at(known.begin).value_or(call.device()));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return answer<int>(out, is_legacy_ipc_capable(known) ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return answer<CUdeviceptr>(out, known.range_begin);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return answer<std::size_t>(out, known.range_bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return answer<bool>(out, true);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return answer<unsigned long long>(out, handle_types(call, at));
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return answer<bool>(out, false);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return answer<unsigned>(out, static_cast<unsigned>(call.machine().access_at(at, call.device())));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return answer(out, known.allocation != nullptr ? known.allocation->second.pool : nullptr);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return answer<std::size_t>(out, known.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return answer<CUdeviceptr>(out, known.begin);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return answer<unsigned long long>(out, call.machine().physical_at(at).value_or(0));
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return answer<bool>(out, false);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// The results of cuPointerGetAttributes for a pointer to unknown memory.
void answer_nothing(void* out, CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      *static_cast<bool*>(out) = false;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(out) = -2;
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<unsigned*>(out) = 0;
      break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      break;
    default:
      *static_cast<unsigned long long*>(out) = 0;
      break;
  }
}

}  // namespace

SIMULATED_API CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr at) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const PointedMemory known = look_up(call, at);
  if (attribute == CU_POINTER_ATTRIBUTE_MAPPED) return answer<bool>(out, known.kind != MemoryKind::kPageable);
  if (known.kind == MemoryKind::kPageable) return CUDA_ERROR_INVALID_VALUE;
  return get_memory(call, out, attribute, at, known);
}

SIMULATED_API CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** out,
                                              CUdeviceptr at) {
  Call call;
  if (!call) return call.result();
  if (count == 0 || attributes == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const PointedMemory known = look_up(call, at);
  for (unsigned i = 0; i < count; ++i) {
    if (out[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    answer_nothing(out[i], attributes[i]);
    if (known.kind != MemoryKind::kPageable) get_memory(call, out[i], attributes[i], at, known);
  }
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr at) {
  Call call;
  if (!call) return call.result();
  const auto* allocation = call.state().allocation_at(at);
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || allocation == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  call.state().allocations[allocation->first].sync_memops = *static_cast<const unsigned*>(value) != 0;
  return CUDA_SUCCESS;
}
