// SPDX-License-Identifier: Apache-2.0
// Parameters of graph nodes in the driver's form. The thread must be ready().
#pragma once

#include "simulator/cudart/driver.h"

namespace simulator::cudart {

cudaError_t to_driver(const cudaKernelNodeParams& params, CUDA_KERNEL_NODE_PARAMS* out);
cudaKernelNodeParams from_driver(const CUDA_KERNEL_NODE_PARAMS& params);

// Copies of one row: of plain memory, into a variable, out of a variable.
cudaError_t copy_into_variable(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
                               CUDA_MEMCPY3D* out);
cudaError_t copy_from_variable(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                               CUDA_MEMCPY3D* out);

// Nodes of any kind; results that the driver writes into its parameters are copied back with `take_results`.
cudaError_t to_driver(const Driver& table, const cudaGraphNodeParams& params, CUgraphNodeParams* out);
void take_results(const CUgraphNodeParams& given, cudaGraphNodeParams* params);

// The context in which nodes of the calling thread run.
cudaError_t context_of_nodes(CUcontext* context);

}  // namespace simulator::cudart
