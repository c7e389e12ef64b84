// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz_cuda/device.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "simulator/control.h"
#include "tests/fuzz_cuda/kernels.h"

namespace model {

void check_cuda(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "random_program: seed %llu, operation %llu: %s: %s\n",
               static_cast<unsigned long long>(current_seed), static_cast<unsigned long long>(current_step), call,
               name != nullptr ? name : "unknown error");
  std::_Exit(result == CUDA_ERROR_OUT_OF_MEMORY ? kRefused : 2);
}

bool driver_has(const char* function) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult answer{};
  return cuGetProcAddress(function, &found, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, &answer) == CUDA_SUCCESS &&
         found != nullptr;
}

Device::Device() {
  CHECK_CUDA(cuInit(0));
  CHECK_CUDA(cuDeviceGet(&device, 0));
  CHECK_CUDA(cuDevicePrimaryCtxRetain(&context, device));
  CHECK_CUDA(cuCtxSetCurrent(context));
  CHECK_CUDA(cuModuleLoadData(&module, kImage));
  CHECK_CUDA(cuLibraryLoadData(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
  for (const char* name : {"model_combine", "model_combine_described", "model_combine_packed", "model_combine_by_table",
                           "model_combine_by_chain", "model_combine_by_root", "model_write_table",
                           "model_change_every_word", "model_decide", "model_count_down"}) {
    Function& function = functions[name];
    CUkernel kernel = nullptr;
    CHECK_CUDA(cuModuleGetFunction(&function.of_module, module, name));
    CHECK_CUDA(cuLibraryGetKernel(&kernel, library, name));
    function.of_library = reinterpret_cast<CUfunction>(kernel);
  }
  std::size_t bytes = 0;
  CHECK_CUDA(cuModuleGetGlobal(&roots, &bytes, module, "model_roots"));
  if (bytes != kRoots * sizeof(std::uint64_t)) check_cuda(CUDA_ERROR_INVALID_VALUE, "size of model_roots");
  model::roots = reinterpret_cast<std::uint64_t*>(roots);
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  CHECK_CUDA(cuMemPoolCreate(&pool, &properties));
}

Device::~Device() {
  CHECK_CUDA(cuCtxSynchronize());
  CHECK_CUDA(cuMemPoolDestroy(pool));
  CHECK_CUDA(cuLibraryUnload(library));
  CHECK_CUDA(cuModuleUnload(module));
  CHECK_CUDA(cuDevicePrimaryCtxRelease(device));
}

std::uint64_t Device::simulated_ns() {
  using Control = const SimulatedDeviceControl* (*)();
  static const auto control = reinterpret_cast<Control>(dlsym(RTLD_DEFAULT, "simulated_device_control"));
  return control != nullptr ? static_cast<std::uint64_t>(control()->device_now_ns()) : 0;
}

}  // namespace model
