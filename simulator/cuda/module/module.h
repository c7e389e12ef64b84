// SPDX-License-Identifier: Apache-2.0
// Loading: from an image to functions and variables with device memory behind them.
#pragma once

#include <span>

#include "simulator/cuda/call.h"

namespace simulator::cuda {

// What cuModuleLoadData and its kin are given; the reason of a refusal goes to stderr.
CUresult read_program_image(const void* data, Image* out);
CUresult read_image_file(const char* path, Image* out);

// `first`: of the same library on another device, whose managed variables it shares.
CUresult load_module(Call& call, Image image, CUmodule* out, CUmodule first = nullptr);
// The library's module on the device of the current context.
CUresult module_of(Call& call, CUlibrary library, CUmodule* out);
// Waits for pending work, which may use what goes.
void unload_module(Call& call, CUmodule module);
// Where functions are loaded lazily: gives its code device memory, the first time. At the latest when it is launched;
// also where it is given an attribute or asked for its occupancy.
CUresult load_function(Call& call, CUfunction function);
// Those that were loaded into the context; a library's live as long as the library.
void unload_modules_of(Call& call, CUcontext context);

// The function behind a handle, which may be a kernel's: then on the device of the current context. nullptr where it is
// neither.
CUfunction find_function(Call& call, const void* handle);

}  // namespace simulator::cuda
