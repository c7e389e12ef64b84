// SPDX-License-Identifier: Apache-2.0
// Libraries: modules that belong to no context, and their kernels. A library has one module per device, which is loaded
// when it is first needed there.
#include "simulator/cuda/module/module.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

CUresult load(Call& call, Image image, CUlibrary* out) {
  CUmodule module = nullptr;
  if (const CUresult result = load_module(call, image, &module); result != CUDA_SUCCESS) return result;
  const CUlibrary library = call.state().libraries.add({module, {}, std::move(image), {}});
  for (const auto& [name, function] : module->functions)
    library->kernels.emplace(name, call.state().kernels.add({library, function}));
  *out = library;
  return CUDA_SUCCESS;
}

CUresult get_variable(CUdeviceptr* address, std::size_t* bytes, CUlibrary library, const char* name, bool managed,
                      const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().libraries.has(library)) return CUDA_ERROR_INVALID_HANDLE;
  CUmodule module = nullptr;
  if (const CUresult result = module_of(call, library, &module); result != CUDA_SUCCESS) return result;
  const auto found = module->variables.find(name);
  if (found == module->variables.end() || (managed && !found->second.managed)) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = found->second.address;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API CUresult cuLibraryLoadData(CUlibrary* out, const void* data, CUjit_option*, void**, unsigned,
                                         CUlibraryOption*, void**, unsigned) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Image image;
  const CUresult result = read_program_image(data, &image);
  return result != CUDA_SUCCESS ? result : load(call, std::move(image), out);
}

SIMULATED_API CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option*, void**, unsigned,
                                             CUlibraryOption*, void**, unsigned) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Image image;
  const CUresult result = read_image_file(path, &image);
  return result != CUDA_SUCCESS ? result : load(call, std::move(image), out);
}

SIMULATED_API CUresult cuLibraryUnload(CUlibrary library) {
  Call call;
  if (!call) return call.result();
  if (!call.state().libraries.has(library)) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [name, kernel] : library->kernels) call.state().kernels.remove(kernel);
  for (const auto& [device, module] : library->others) unload_module(call, module);
  unload_module(call, library->module);
  call.state().libraries.remove(library);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuLibraryGetModule(CUmodule* out, CUlibrary library) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().libraries.has(library)) return CUDA_ERROR_INVALID_HANDLE;
  return module_of(call, library, out);
}

SIMULATED_API CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().libraries.has(library)) return CUDA_ERROR_INVALID_HANDLE;
  const auto found = library->kernels.find(name);
  if (found == library->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  *out = found->second;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
  Call call;
  if (!call) return call.result();
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().libraries.has(library)) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(library->kernels.size());
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned most, CUlibrary library) {
  Call call;
  if (!call) return call.result();
  if (kernels == nullptr || most == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().libraries.has(library)) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [name, kernel] : library->kernels) {
    if (most-- == 0) break;
    *kernels++ = kernel;
  }
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary library,
                                          const char* name) {
  return get_variable(address, bytes, library, name, false);
}

SIMULATED_API CUresult cuLibraryGetManaged(CUdeviceptr* address, std::size_t* bytes, CUlibrary library,
                                           const char* name) {
  return get_variable(address, bytes, library, name, true);
}

SIMULATED_API CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().kernels.has(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  *out = find_function(call, kernel);
  return *out == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

SIMULATED_API CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel kernel) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().kernels.has(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  *out = kernel->library;
  return CUDA_SUCCESS;
}
