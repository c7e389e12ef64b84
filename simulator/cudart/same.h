// SPDX-License-Identifier: Apache-2.0
// Functions that the driver has under another name, with the same parameters or with ones of the same layout.
#pragma once

#include "simulator/cudart/session.h"

#define CUDART_SAME(name, entry, parameters, ...)                                   \
  extern "C" cudaError_t name parameters {                                          \
    return ::simulator::cudart::api([&](const ::simulator::cudart::Driver& table) { \
      return CUDART_CALL(table, entry __VA_OPT__(, ) __VA_ARGS__);                  \
    });                                                                             \
  }
