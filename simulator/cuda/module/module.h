// SPDX-License-Identifier: Apache-2.0
// Loading: from an image to functions, and to variables with device memory.
#pragma once

#include <span>

#include "simulator/cuda/call.h"

namespace simulator::cuda {

// Reads the argument of cuModuleLoadData and similar calls; the reason of a failure is printed on stderr.
CUresult read_program_image(const void* data, Image* out);
CUresult read_image_file(const char* path, Image* out);

// `first`: the same library's module on another device, whose managed variables are shared.
CUresult load_module(Call& call, Image image, CUmodule* out, CUmodule first = nullptr);
// The library's module on the device of the current context.
CUresult module_of(Call& call, CUlibrary library, CUmodule* out);
// Waits for pending work, which may use the module.
void unload_module(Call& call, CUmodule module);
// If functions are loaded lazily: allocates device memory for its code, the first time. At the latest at the first
// launch; also when an attribute is set or its occupancy is queried.
CUresult load_function(Call& call, CUfunction function);
// Unloads the modules that were loaded into the context; those of a library live as long as the library.
void unload_modules_of(Call& call, CUcontext context);

// The function of a handle, which may be a kernel's: then on the device of the current context. nullptr if it is
// neither.
CUfunction find_function(Call& call, const void* handle);

}  // namespace simulator::cuda
