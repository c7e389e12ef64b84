// SPDX-License-Identifier: Apache-2.0
// The runtime's errors by number, and each thread's last error.
#pragma once

#include <cuda_runtime_api.h>

namespace simulator::cudart {

bool is_known(cudaError_t error);
const char* error_name(cudaError_t error);
const char* error_sentence(cudaError_t error);

// Stores a failure as the calling thread's last error and returns it. cudaErrorNotReady is a result and not an error
// (CUDA programming guide, "Error checking").
cudaError_t record(cudaError_t error);
cudaError_t peek_last_error();
cudaError_t take_last_error();

}  // namespace simulator::cudart
