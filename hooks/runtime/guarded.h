// SPDX-License-Identifier: Apache-2.0
// What hooks do with the engine is done within guarded(): nothing that it throws reaches the program.
#pragma once

#include <type_traits>

#include "hooks/interpose/cuda_api.h"

namespace thermocline {

// Refers to a callable for the time of a call.
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

// Runs `body`, which works with the engine. What it throws becomes an error of the call; nothing of ours reaches the
// program. The thread is not cancelled meanwhile.
CUresult guarded(Call body);
// The same where the engine sees to that itself (allocate, free).
CUresult guarded_lightly(Call body);

}  // namespace thermocline
