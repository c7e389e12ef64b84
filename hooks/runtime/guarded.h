// SPDX-License-Identifier: Apache-2.0
// Everything that hooks do with the engine runs in guarded(): no exception reaches the program.
#pragma once

#include <new>
#include <type_traits>

#include "hooks/interpose/cuda_api.h"

namespace thermocline {

// A reference to a callable, valid for the duration of a call.
template <class... Arguments>
class CallOf {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, CallOf>)
      CallOf(F&& function)  // NOLINT: implicit on purpose, as std::function is
      : object_(const_cast<void*>(static_cast<const void*>(&function))),
        invoke_([](void* object, Arguments... arguments) {
          return (*static_cast<std::remove_reference_t<F>*>(object))(arguments...);
        }) {}
  CUresult operator()(Arguments... arguments) const { return invoke_(object_, arguments...); }

 private:
  void* object_;
  CUresult (*invoke_)(void*, Arguments...);
};
using Call = CallOf<>;
using CallIn = CallOf<CUstream>;
using CallFrom = CallOf<const void*>;

// Runs `body`, which uses the engine. An exception becomes an error of the call. The thread cannot be cancelled
// meanwhile.
CUresult guarded(Call body);
// guarded() for calls in which the engine catches its own exceptions (allocate, free).
CUresult guarded_lightly(Call body);

// guarded() with an inlined `body`, for a caller that makes sure that the thread cannot be cancelled and that reports
// are passed on.
template <class Body>
CUresult without_exceptions(Body body);
// For a catch block: the error that the exception becomes. Exceptions that are not the library's are thrown on.
CUresult error_of_exception();

// Logs once that host memory is exhausted.
CUresult host_memory_is_exhausted();
template <class Body>
CUresult without_exceptions(Body body) {
  try {
    return body();
  } catch (...) {
    return error_of_exception();
  }
}

// For a body that neither uses the engine nor waits, such as reading parameters.
template <class Body>
CUresult with_host_memory(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return host_memory_is_exhausted();
  }
}

}  // namespace thermocline
