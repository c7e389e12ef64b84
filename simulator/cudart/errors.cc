// SPDX-License-Identifier: Apache-2.0
#include "simulator/cudart/errors.h"

namespace simulator::cudart {
namespace {

struct Entry {
  cudaError_t error;
  const char* name;
  const char* sentence;
};

constexpr Entry kErrors[] = {
#define CUDART_ERROR(name, sentence) {name, #name, sentence},
#include "simulator/cudart/errors.def"
#undef CUDART_ERROR
};

const Entry* find(cudaError_t error) {
  for (const Entry& entry : kErrors) {
    if (entry.error == error) return &entry;
  }
  return nullptr;
}

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

bool is_known(cudaError_t error) { return error == cudaSuccess || find(error) != nullptr; }

const char* error_name(cudaError_t error) {
  const Entry* entry = find(error);
  return entry == nullptr ? "unrecognized error code" : entry->name;
}

const char* error_sentence(cudaError_t error) {
  const Entry* entry = find(error);
  return entry == nullptr ? "unrecognized error code" : entry->sentence;
}

cudaError_t record(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

cudaError_t peek_last_error() { return last_error; }

cudaError_t take_last_error() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

}  // namespace simulator::cudart
