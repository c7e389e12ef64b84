// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/module/module.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "simulator/cuda/memory/pool_cache.h"
#include "simulator/cuda/module/ptx.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

CUresult answer(const ImageResult& result) {
  if (result.ok()) return CUDA_SUCCESS;
  std::fprintf(stderr, "simulated device: %s\n", result.reason.c_str());
  switch (result.error) {
    case ImageError::kNoBinary:
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case ImageError::kBadText:
      return CUDA_ERROR_INVALID_PTX;
    default:
      return CUDA_ERROR_INVALID_IMAGE;
  }
}

// Device memory with the variable's initial contents, which are there when the call returns.
CUresult place_variable(Call& call, const ImageVariable& variable, CUmod_st::Variable* out) {
  Machine& machine = call.machine();
  const Bytes bytes = std::max<Bytes>(variable.bytes, 1);
  if (const CUresult result =
          with_room(call, [&] { return machine.allocate(bytes, variable.managed, &out->address, call.device()); });
      result != CUDA_SUCCESS)
    return result;
  out->bytes = variable.bytes;
  out->managed = variable.managed;
  if (const CUresult result = machine.register_buffer(out->address, bytes, variable.managed ? Fresh::kNo : Fresh::kYes);
      result != CUDA_SUCCESS) {
    machine.free(out->address);
    return result;
  }
  return CUDA_SUCCESS;
}

std::vector<std::byte> first_contents(const Image& image, const ImageVariable& variable, const CUmod_st& module) {
  std::vector<std::byte> bytes = variable.contents;
  if (!variable.addresses.empty()) bytes.resize(static_cast<std::size_t>(variable.bytes));
  for (const ImageAddress& word : variable.addresses) {
    const auto target = module.variables.find(word.variable);
    const Address value = target != module.variables.end() ? target->second.address + static_cast<Address>(word.addend)
                                                           : function_pointer(image, word.variable);
    std::memcpy(bytes.data() + word.offset, &value, sizeof value);
  }
  return bytes;
}

CUresult write_variables(Call& call, const Image& image, const CUmod_st& module) {
  OperationId last = 0;
  for (const ImageVariable& variable : image.variables) {
    const auto bytes = std::make_shared<const std::vector<std::byte>>(first_contents(image, variable, module));
    if (bytes->empty() || module.variables.find(variable.name)->second.is_borrowed) continue;
    const Shape shape{.width = bytes->size(), .row_pitch = bytes->size(), .slice_pitch = bytes->size()};
    const std::shared_ptr<const std::byte[]> staged(bytes, bytes->data());
    const Address to = module.variables.find(variable.name)->second.address;
    Machine::Order order;
    order.detached = true;
    last = call.machine().submit(Machine::legacy_stream(module.device),
                                 Copy{Direction::kToDevice, to, 0, shape, shape, staged}, order);
    if (const CUresult result = call.machine().wait(last); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

bool is_of_a_library(Call& call, const CUmod_st* module) {
  bool found = false;
  call.state().libraries.for_each([&](const CUlib_st& library) {
    found = found || library.module == module;
    for (const auto& [device, other] : library.others) found = found || other == module;
  });
  return found;
}

std::shared_ptr<const std::vector<CountedByte>> counted_bytes(const ImageKernel& kernel) {
  std::vector<CountedByte> counted;
  counted.reserve(kernel.reads.size());
  for (const ParameterByte byte : kernel.reads) {
    counted.push_back(byte == ParameterByte::kRead      ? CountedByte::kYes
                      : byte == ParameterByte::kUnknown ? CountedByte::kInAnAddress
                                                        : CountedByte::kNo);
  }
  counted.resize(kernel.parameter_bytes, CountedByte::kNo);
  return std::make_shared<const std::vector<CountedByte>>(std::move(counted));
}

void drop(Call& call, CUmodule module) {
  for (const auto& [name, variable] : module->variables) {
    if (variable.is_borrowed) continue;
    call.machine().unregister_buffer(variable.address);
    call.machine().free(variable.address);
  }
  for (const auto& [name, function] : module->functions) {
    if (function->code != 0) call.machine().free(function->code);
    call.state().functions.remove(function);
  }
  call.state().modules.remove(module);
}

}  // namespace

namespace simulator::cuda {

CUresult read_program_image(const void* data, Image* out) { return answer(read_image(data, out)); }

CUresult read_image_file(const char* path, Image* out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return answer(read_image(std::as_bytes(std::span(bytes)), out));
}

CUresult load_module(Call& call, Image image, CUmodule* out, CUmodule first) {
  const auto capability = static_cast<std::uint32_t>(call.machine().profile().compute_capability.value);
  if (image.is_ptx) place_parameters(capability, &image);  // a driver compiles it for its device
  CUmod_st object;
  object.device = call.device();
  object.context = call.context();
  object.id = call.state().next_id++;
  object.text = image.text;
  const CUmodule module = call.state().modules.add(std::move(object));
  for (const ImageVariable& variable : image.variables) {
    CUmod_st::Variable placed;
    if (first != nullptr && variable.managed) {
      placed = first->variables.at(variable.name);
      placed.is_borrowed = true;
      module->variables.emplace(variable.name, placed);
      continue;
    }
    const CUresult result = place_variable(call, variable, &placed);
    if (result != CUDA_SUCCESS) {
      drop(call, module);
      return result;
    }
    module->variables.emplace(variable.name, placed);
  }
  if (const CUresult result = write_variables(call, image, *module); result != CUDA_SUCCESS) {
    drop(call, module);
    return result;
  }
  for (ImageKernel& kernel : image.kernels) {
    CUfunc_st function;
    function.module = module;
    function.kernel = std::move(kernel);
    function.counted = counted_bytes(function.kernel);
    const std::uint32_t own = function.kernel.architecture;
    function.architecture = own != 0 ? own : image.architecture;
    function.is_ptx = image.is_ptx;
    const CUfunction handle = call.state().functions.add(std::move(function));
    module->functions.emplace(handle->kernel.name, handle);
  }
  *out = module;
  return CUDA_SUCCESS;
}

void unload_module(Call& call, CUmodule module) {
  call.machine().wait_all();
  drop(call, module);
}

CUresult load_function(Call& call, CUfunction function) {
  const Bytes bytes = call.machine().lazy_loading();
  if (bytes == 0 || function->code != 0) return CUDA_SUCCESS;
  return with_room(call, [&] { return call.machine().allocate(bytes, false, &function->code, call.device()); });
}

// A library outlives contexts; for the next context its module is loaded again, with new variables.
void restore_variables_of(Call& call, CUcontext context) {
  const auto restore = [&](const CUlib_st& library, const CUmod_st* module) {
    if (module == nullptr || module->context != context) return;
    Machine::Order order;
    order.detached = true;
    for (const auto& [name, variable] : module->variables) {
      if (variable.is_borrowed || variable.bytes == 0) continue;
      const Shape shape{.width = variable.bytes, .row_pitch = variable.bytes, .slice_pitch = variable.bytes};
      const OperationId set = call.machine().submit(Machine::legacy_stream(module->device),
                                                    Set{.to = variable.address, .shape = shape}, order);
      static_cast<void>(call.machine().wait(set));
    }
    static_cast<void>(write_variables(call, library.image, *module));
  };
  call.state().libraries.for_each([&](const CUlib_st& library) {
    restore(library, library.module);
    for (const auto& [device, other] : library.others) restore(library, other);
  });
}

void unload_modules_of(Call& call, CUcontext context) {
  std::vector<CUmodule> ending;
  call.state().modules.for_each([&](CUmod_st& module) {
    if (module.context == context && !is_of_a_library(call, &module)) ending.push_back(&module);
  });
  // By number instead of address, so that handles are reused in the same order in every run.
  std::sort(ending.begin(), ending.end(), [](CUmodule a, CUmodule b) { return a->id < b->id; });
  for (const CUmodule module : ending) drop(call, module);
  restore_variables_of(call, context);
}

CUresult module_of(Call& call, CUlibrary library, CUmodule* out) {
  const bool is_first = library->module->device == call.device();
  CUmodule& found = is_first ? library->module : library->others[call.device()];
  CUresult result = CUDA_SUCCESS;
  if (found == nullptr) result = load_module(call, library->image, &found, library->module);
  *out = found;
  return result;
}

CUfunction find_function(Call& call, const void* handle) {
  State& state = call.state();
  const auto function = const_cast<CUfunction>(static_cast<const CUfunc_st*>(handle));
  if (state.functions.has(function)) return function;
  const auto kernel = const_cast<CUkernel>(static_cast<const CUkern_st*>(handle));
  if (!state.kernels.has(kernel)) return nullptr;
  if (kernel->function->module->device == call.device()) return kernel->function;
  CUmodule module = nullptr;
  if (module_of(call, kernel->library, &module) != CUDA_SUCCESS) return nullptr;
  return module->functions.at(kernel->function->kernel.name);
}

}  // namespace simulator::cuda

SIMULATED_API CUresult cuModuleLoadData(CUmodule* out, const void* data) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Image image;
  const CUresult result = read_program_image(data, &image);
  return result != CUDA_SUCCESS ? result : load_module(call, std::move(image), out);
}

// The options are for a compiler, which does not exist here.
SIMULATED_API CUresult cuModuleLoadDataEx(CUmodule* out, const void* data, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(out, data);
}

SIMULATED_API CUresult cuModuleLoadFatBinary(CUmodule* out, const void* data) { return cuModuleLoadData(out, data); }

SIMULATED_API CUresult cuModuleLoad(CUmodule* out, const char* path) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Image image;
  const CUresult result = read_image_file(path, &image);
  return result != CUDA_SUCCESS ? result : load_module(call, std::move(image), out);
}

SIMULATED_API CUresult cuModuleUnload(CUmodule module) {
  Call call;
  if (!call) return call.result();
  if (!call.state().modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
  // A library's module lives as long as the library.
  if (is_of_a_library(call, module)) return CUDA_ERROR_NOT_PERMITTED;
  unload_module(call, module);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
  const auto found = module->functions.find(name);
  if (found == module->functions.end()) return CUDA_ERROR_NOT_FOUND;
  *out = found->second;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, CUmodule module,
                                            const char* name) {
  Call call;
  if (!call) return call.result();
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
  const auto found = module->variables.find(name);
  if (found == module->variables.end()) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = found->second.address;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  Call call;
  if (!call) return call.result();
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(module->functions.size());
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned most, CUmodule module) {
  Call call;
  if (!call) return call.result();
  if (functions == nullptr || most == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [name, function] : module->functions) {
    if (most-- == 0) break;
    *functions++ = function;
  }
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Call call(Needs::kDriver);
  if (!call) return call.result();
  *mode = call.machine().lazy_loading() == 0 ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}
