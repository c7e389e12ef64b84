// SPDX-License-Identifier: Apache-2.0
// Errors and versions, which work without a device, and the profiler's switch.
#include "simulator/cudart/session.h"

using namespace simulator::cudart;

extern "C" {

cudaError_t cudaGetLastError() { return take_last_error(); }

cudaError_t cudaPeekAtLastError() { return peek_last_error(); }

const char* cudaGetErrorName(cudaError_t error) { return error_name(error); }

const char* cudaGetErrorString(cudaError_t error) { return error_sentence(error); }

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return record(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

// 0 if there is no driver, as CUDA documents.
cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return record(cudaErrorInvalidValue);
  *version = 0;
  if (load_driver() == cudaErrorInsufficientDriver) return cudaSuccess;
  return record(CUDART_CALL(driver(), cuDriverGetVersion, version));
}

cudaError_t cudaProfilerStart() {
  return api([](const Driver& table) { return CUDART_CALL(table, cuProfilerStart); });
}

cudaError_t cudaProfilerStop() {
  return api([](const Driver& table) { return CUDART_CALL(table, cuProfilerStop); });
}

}  // extern "C"
