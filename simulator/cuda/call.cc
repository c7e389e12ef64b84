// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/call.h"

namespace simulator::cuda {

Call::Call(Needs needs, const char* name) {
  if (Machine::in_host_function()) {
    result_ = CUDA_ERROR_NOT_PERMITTED;
    return;
  }
  entry_.emplace(Machine::enter());
  result_ = check(needs);
  if (result_ == CUDA_SUCCESS && machine().initialized()) result_ = machine().fault(name);
}

CUresult Call::check(Needs needs) {
  if (needs == Needs::kNothing) return CUDA_SUCCESS;
  if (!machine().initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult fault = machine().error();
  if (needs == Needs::kDriver) return fault == CUDA_ERROR_NOT_INITIALIZED ? fault : CUDA_SUCCESS;  // a forked child
  if (fault != CUDA_SUCCESS || needs == Needs::kSoundDriver) return fault;
  const CUresult result = current_context(&current_);
  context_ = result == CUDA_SUCCESS && current_->green_of != nullptr ? current_->green_of : current_;
  return result;
}

CUresult Call::find(CUstream handle, StreamId* out) { return find_stream(machine(), context_, handle, out); }

bool Call::is_blocking(CUstream handle) const {
  return handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD ||
         (handle->flags & CU_STREAM_NON_BLOCKING) == 0;
}

CUresult current_context(CUcontext* out) {
  const ThreadContexts& contexts = thread_contexts();
  *out = contexts.depth == 0 ? nullptr : contexts.stack[contexts.depth - 1];
  if (*out == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return state().contexts.has(*out) && (*out)->is_active ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult find_stream(Machine& machine, CUcontext context, CUstream handle, StreamId* out) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    *out = Machine::legacy_stream(context->device);
    return CUDA_SUCCESS;
  }
  if (handle == CU_STREAM_PER_THREAD) {
    const auto [found, is_new] = state().thread_streams.try_emplace({thread_number(), context}, StreamId{0});
    if (is_new) found->second = machine.create_stream(false, context->device);
    *out = found->second;
    return CUDA_SUCCESS;
  }
  if (!state().streams.has(handle)) return CUDA_ERROR_INVALID_HANDLE;
  if (!state().contexts.has(handle->context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *out = handle->id;
  return CUDA_SUCCESS;
}

}  // namespace simulator::cuda
