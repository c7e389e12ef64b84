// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/api.h"

namespace {

struct Named {
  const char* name;
  const char* sentence;
};

// Both members are null for a number that is no error.
Named find(CUresult error) {
  switch (error) {
#define SIMULATED_ERROR(name, sentence) \
  case name:                            \
    return {#name, sentence};
#include "simulator/cuda/errors.def"
#undef SIMULATED_ERROR
  }
  return {nullptr, nullptr};
}

CUresult answer(const char* text, const char** out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = text;
  return text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API CUresult cuGetErrorName(CUresult error, const char** out) { return answer(find(error).name, out); }

SIMULATED_API CUresult cuGetErrorString(CUresult error, const char** out) { return answer(find(error).sentence, out); }
