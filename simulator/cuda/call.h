// SPDX-License-Identifier: Apache-2.0
// One call of the driver API, from its first line to its return: holds the machine's lock, and makes the checks that
// nearly every call needs.
//
//   CUresult cuXxx(...) {
//     Call call;
//     if (!call) return call.result();
//     ...
#pragma once

#include "simulator/cuda/state.h"

#include <optional>

namespace simulator::cuda {

enum class Needs { kNothing, kDriver, kSoundDriver, kContext };

class Call {
 public:
  // kDriver: cuInit must have been called. kSoundDriver: also, no fault may have happened. kContext: also, a live
  // context must be current. Host functions run with the lock held, so every call in them is refused. `name`: the
  // driver function, for the fault plan; helpers that several functions share take it from their callers.
  explicit Call(Needs needs = Needs::kContext, const char* name = __builtin_FUNCTION());
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  explicit operator bool() const { return result_ == CUDA_SUCCESS; }
  CUresult result() const { return result_; }
  Machine& machine() { return **entry_; }
  State& state() { return cuda::state(); }
  CUcontext context() const { return context_; }        // with kContext; the primary one under a green context
  CUcontext current() const { return current_; }        // with kContext; may be a green one
  DeviceId device() const { return context_->device; }  // with kContext
  bool has_device(int ordinal) { return ordinal >= 0 && ordinal < machine().devices(); }

  // The machine's stream for a handle. Stream 0 is the legacy stream of the current context's device here
  // (per_thread.cc has replaced it where it means another one).
  CUresult find(CUstream handle, StreamId* out);
  // Synchronizes with the legacy stream; for a stream that find() has found.
  bool is_blocking(CUstream handle) const;

 private:
  CUresult check(Needs needs);

  std::optional<Machine::Entry> entry_;
  CUcontext context_ = nullptr, current_ = nullptr;
  CUresult result_ = CUDA_SUCCESS;
};

// CUDA_SUCCESS, or the error of the calling thread's current context.
CUresult current_context(CUcontext* out);

CUresult find_stream(Machine& machine, CUcontext context, CUstream handle, StreamId* out);

}  // namespace simulator::cuda
