// SPDX-License-Identifier: Apache-2.0
// Defines functions that exist in two variants: as named, and with a suffix (_ptds, _ptsz) for which stream 0 is the
// calling thread's own. Both bodies are the same, except for the name of the driver's function and the meaning of
// stream 0. In the macro's arguments `kFunction` and `stream_of` stand for these.
#pragma once

#include "hooks/submit/submit.h"

#define THERMOCLINE_HOOK_PAIR(name, suffix, parameters, ...)             \
  extern "C" CUresult CUDAAPI name parameters {                          \
    using namespace thermocline; /* NOLINT: the scope of one function */ \
    constexpr Function kFunction = Function::name;                       \
    [[maybe_unused]] constexpr auto* stream_of = &legacy;                \
    __VA_ARGS__                                                          \
  }                                                                      \
  extern "C" CUresult CUDAAPI name##suffix parameters {                  \
    using namespace thermocline; /* NOLINT: the scope of one function */ \
    constexpr Function kFunction = Function::name##suffix;               \
    [[maybe_unused]] constexpr auto* stream_of = &per_thread;            \
    __VA_ARGS__                                                          \
  }
