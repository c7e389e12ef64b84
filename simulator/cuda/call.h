// SPDX-License-Identifier: Apache-2.0
// One call of the driver API, from its first line to its return: the machine's lock, and what nearly every call checks
// first.
//
//   CUresult cuXxx(...) {
//     Call call;
//     if (!call) return call.result();
//     ...
#pragma once

#include "simulator/cuda/state.h"

#include <optional>

namespace simulator::cuda {

enum class Needs { kNothing, kDriver, kContext };

class Call {
 public:
  // kDriver: cuInit has been called. kContext: a live context is current, too, and no fault has happened.
  // Inside a host function every call is refused, for the lock is held there.
  // `name` is the function's own: a plan of faults may have something to say about it. Helpers that several functions
  // share take it from their callers.
  explicit Call(Needs needs = Needs::kContext, const char* name = __builtin_FUNCTION());
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  explicit operator bool() const { return result_ == CUDA_SUCCESS; }
  CUresult result() const { return result_; }
  Machine& machine() { return **entry_; }
  State& state() { return cuda::state(); }
  CUcontext context() const { return context_; }        // with kContext; under a green context the primary one
  CUcontext current() const { return current_; }        // with kContext; which may be a green one
  DeviceId device() const { return context_->device; }  // the same
  bool has_device(int ordinal) { return ordinal >= 0 && ordinal < machine().devices(); }

  // The machine's stream behind a handle: stream 0 is the legacy stream of the current context's device here
  // (per_thread.cc has replaced it where it is not).
  CUresult find(CUstream handle, StreamId* out);
  // Ordered with the legacy stream; of a stream that find() has found.
  bool is_blocking(CUstream handle) const;

 private:
  CUresult check(Needs needs);

  std::optional<Machine::Entry> entry_;
  CUcontext context_ = nullptr, current_ = nullptr;
  CUresult result_ = CUDA_SUCCESS;
};

// CUDA_SUCCESS, or what is wrong with the calling thread's newest context.
CUresult current_context(CUcontext* out);

CUresult find_stream(Machine& machine, CUcontext context, CUstream handle, StreamId* out);

}  // namespace simulator::cuda
