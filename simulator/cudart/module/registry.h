// SPDX-License-Identifier: Apache-2.0
// Fat binaries, kernels and variables that nvcc's host code registers before main() runs. A fat binary is given to the
// driver at the first use of anything in it, as a library that belongs to no context.
#pragma once

#include "simulator/cudart/driver.h"

namespace simulator::cudart {

struct FatBinary;

FatBinary* register_binary(const void* wrapper);
void unregister_binary(FatBinary* binary);
// Loads now, and so gives the binary's managed variables their addresses.
cudaError_t load_binary(FatBinary* binary);

void register_function(FatBinary* binary, const void* host, const char* name);
void register_variable(FatBinary* binary, const void* host, const char* name);
void register_managed(FatBinary* binary, void** host, const char* name);

// All of these need a thread that is ready(). `function` is a host stub, or a kernel that find_kernel or a library gave
// out.
cudaError_t find_kernel(const void* function, CUkernel* kernel);
// As a function of the current context, which the attribute calls want.
cudaError_t find_function(const void* function, CUfunction* found);
// The host stub of a function, or the function itself where the program registered none.
void* host_function(CUfunction function);
cudaError_t find_variable(const void* host, CUdeviceptr* begin, size_t* bytes);
void remember_kernel(CUkernel kernel);

}  // namespace simulator::cudart
