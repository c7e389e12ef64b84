// SPDX-License-Identifier: Apache-2.0
// Fat binaries, kernels and variables that nvcc's host code registers before main() runs. A fat binary is passed to the
// driver at the first use of anything in it, as a library that belongs to no context.
#pragma once

#include "simulator/cudart/driver.h"

namespace simulator::cudart {

struct FatBinary;

FatBinary* register_binary(const void* wrapper);
void unregister_binary(FatBinary* binary);
// Loads the binary now, which gives its managed variables their addresses.
cudaError_t load_binary(FatBinary* binary);

void register_function(FatBinary* binary, const void* host, const char* name);
void register_variable(FatBinary* binary, const void* host, const char* name);
void register_managed(FatBinary* binary, void** host, const char* name);

// For all of these the thread must be ready(). `function` is a host stub, or a kernel from find_kernel or a library.
cudaError_t find_kernel(const void* function, CUkernel* kernel);
// The function of the current context, which the attribute calls require.
cudaError_t find_function(const void* function, CUfunction* found);
// The host stub of a function, or the function itself if the program has registered none.
void* host_function(CUfunction function);
cudaError_t find_variable(const void* host, CUdeviceptr* begin, size_t* bytes);
void remember_kernel(CUkernel kernel);

}  // namespace simulator::cudart
