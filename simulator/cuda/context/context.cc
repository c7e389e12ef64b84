// SPDX-License-Identifier: Apache-2.0
// Contexts, and each thread's stack of them.
#include "simulator/cuda/context/context.h"
#include "simulator/cuda/context/ipc.h"
#include "simulator/cuda/context/peer.h"
#include "simulator/cuda/graph/capture.h"
#include "simulator/cuda/memory/array.h"
#include "simulator/cuda/memory/memory_kinds.h"
#include "simulator/cuda/memory/pool_cache.h"
#include "simulator/cuda/module/module.h"

#include <utility>
#include <vector>

using namespace simulator;
using namespace simulator::cuda;

namespace {

constexpr unsigned kKnownFlags = CU_CTX_FLAGS_MASK;

CUresult push(CUcontext context) {
  ThreadContexts& contexts = thread_contexts();
  if (contexts.depth == ThreadContexts::kMost) return CUDA_ERROR_INVALID_VALUE;
  contexts.stack[contexts.depth++] = context;
  return CUDA_SUCCESS;
}

CUresult create(CUcontext* out, unsigned version, unsigned flags, CUdevice device,
                const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kDriver, caller);
  if (!call) return call.result();
  if (!call.has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUcontext context = call.state().contexts.add(new_context(flags, version, static_cast<DeviceId>(device)));
  if (const CUresult result = push(context); result != CUDA_SUCCESS) {
    call.state().contexts.remove(context);
    return result;
  }
  *out = context;
  return CUDA_SUCCESS;
}

// nullptr means the current one. Returns whether it is alive.
CUresult resolve(Call& call, CUcontext* context) {
  if (!call) return call.result();
  if (*context == nullptr) return current_context(context);
  return call.state().contexts.has(*context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

template <class Object>
std::vector<Object*> of_context(Registry<Object>& all, CUcontext context) {
  std::vector<Object*> found;
  all.for_each([&](Object& object) {
    if (object.context == context) found.push_back(&object);
  });
  return found;
}

CUresult synchronize(Call& call, CUcontext context) {
  if (const CUresult result = may_wait_for_context(call); result != CUDA_SUCCESS) return result;
  call.machine().charge(Cost::kStreamCall);
  const CUresult result = call.machine().wait_device(context->device);
  trim_pools_to_thresholds(call);
  return result;
}

std::size_t default_limit(CUlimit limit) {
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      return 1024;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      return 1 << 20;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      return 8 << 20;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
      return 2;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
      return 2048;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
      return 64;
    default:
      return 0;
  }
}

}  // namespace

namespace simulator::cuda {

CUctx_st new_context(unsigned flags, unsigned version, DeviceId device) {
  CUctx_st context;
  context.device = device;
  context.flags = flags;
  context.version = version;
  context.id = state().next_id++;
  return context;
}

std::size_t context_limit(const CUctx_st& context, CUlimit limit) {
  const auto found = context.limits.find(limit);
  return found != context.limits.end() ? found->second : default_limit(limit);
}

void end_contents_of(Call& call, CUcontext context) {
  call.machine().wait_device(context->device);
  forget_peer(call, context);
  close_all_of(call, context);
  destroy_arrays_of(call, context);
  if (context->heap != 0) call.machine().free(std::exchange(context->heap, 0));
  release_all_of(call, context);
  unload_modules_of(call, context);
  State& all = call.state();
  for (const CUstream stream : of_context(all.streams, context)) destroy(call, stream);
  for (const CUevent event : of_context(all.events, context)) destroy(call, event);
}

}  // namespace simulator::cuda

SIMULATED_API CUresult cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
  return create(out, 3020, flags, device);
}

SIMULATED_API CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* parameters, int count, unsigned flags,
                                      CUdevice device) {
  if (count != 0 || parameters != nullptr) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(out, 11040, flags, device);
}

SIMULATED_API CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* parameters, unsigned flags, CUdevice device) {
  if (parameters != nullptr && (parameters->numExecAffinityParams != 0 || parameters->cigParams != nullptr))
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(out, 12050, flags, device);
}

SIMULATED_API CUresult cuCtxDestroy_v2(CUcontext context) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!call.state().contexts.has(context) || context->is_primary || context->green_of != nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  end_contents_of(call, context);
  ThreadContexts& contexts = thread_contexts();
  if (contexts.depth > 0 && contexts.stack[contexts.depth - 1] == context) --contexts.depth;
  call.state().contexts.remove(context);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxPushCurrent_v2(CUcontext context) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (context != nullptr && !call.state().contexts.has(context)) return CUDA_ERROR_INVALID_CONTEXT;
  return context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : push(context);
}

SIMULATED_API CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  ThreadContexts& contexts = thread_contexts();
  if (contexts.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --contexts.depth;
  if (context != nullptr) *context = contexts.stack[contexts.depth];
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxSetCurrent(CUcontext context) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (context != nullptr && !call.state().contexts.has(context)) return CUDA_ERROR_INVALID_CONTEXT;
  ThreadContexts& contexts = thread_contexts();
  if (contexts.depth > 0) --contexts.depth;
  return context == nullptr ? CUDA_SUCCESS : push(context);
}

// Host functions run in a thread of the driver, in which no context is current. The documentation forbids every call
// there and defines no results; this call, which only looks at the thread, answers truthfully.
SIMULATED_API CUresult cuCtxGetCurrent(CUcontext* context) {
  if (Machine::in_host_function()) {
    if (context != nullptr) *context = nullptr;
    return context == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ThreadContexts& contexts = thread_contexts();
  *context = contexts.depth == 0 ? nullptr : contexts.stack[contexts.depth - 1];
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  Call call(Needs::kDriver);
  if (const CUresult result = resolve(call, &context); result != CUDA_SUCCESS) return result;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxGetDevice(CUdevice* device) { return cuCtxGetDevice_v2(device, nullptr); }

SIMULATED_API CUresult cuCtxGetFlags(unsigned* flags) {
  Call call;
  if (!call) return call.result();
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = call.context()->flags;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxSetFlags(unsigned flags) {
  Call call;
  if (!call) return call.result();
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  call.context()->flags = flags;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  Call call(Needs::kDriver);
  if (const CUresult result = resolve(call, &context); result != CUDA_SUCCESS) return result;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = context->id;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxGetApiVersion(CUcontext context, unsigned* version) {
  Call call(Needs::kDriver);
  if (const CUresult result = resolve(call, &context); result != CUDA_SUCCESS) return result;
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = context->version;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxSynchronize() {
  Call call;
  return call ? synchronize(call, call.context()) : call.result();
}

SIMULATED_API CUresult cuCtxSynchronize_v2(CUcontext context) {
  Call call(Needs::kDriver);
  if (const CUresult result = resolve(call, &context); result != CUDA_SUCCESS) return result;
  return synchronize(call, context);
}

SIMULATED_API CUresult cuCtxGetLimit(std::size_t* value, CUlimit limit) {
  Call call;
  if (!call) return call.result();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = context_limit(*call.context(), limit);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxSetLimit(CUlimit limit, std::size_t value) {
  Call call;
  if (!call) return call.result();
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  call.context()->limits[limit] = value;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  Call call;
  if (!call) return call.result();
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = call.context()->cache_config;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  Call call;
  if (!call) return call.result();
  call.context()->cache_config = config;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  Call call;
  if (!call) return call.result();
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = call.context()->shared_config;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  Call call;
  if (!call) return call.result();
  call.context()->shared_config = config;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  Call call;
  if (!call) return call.result();
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxResetPersistingL2Cache() { return Call().result(); }
