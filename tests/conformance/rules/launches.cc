// SPDX-License-Identifier: Apache-2.0
// Modules, kernels, their parameters, and launches. The library interprets every launch with the layout of its
// parameters.
#include <cstring>
#include <string_view>

#include "tests/conformance/kernels.h"
#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "modules and launches";
#define LAUNCH "Execution Control: cuLaunchKernel"
#define MODULES "Module Management: "
#define LIBRARIES "Library Management: "

constexpr std::size_t kLayoutCount = sizeof kLayout / sizeof kLayout[0];

CUlibrary load_library(Session& session) {
  const Driver& cu = session.driver();
  CUlibrary library = nullptr;
  OK(cu.cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  return library;
}

CUkernel find_kernel(Session& session, const char* name) {
  const Driver& cu = session.driver();
  CUkernel kernel = nullptr;
  OK(cu.cuLibraryGetKernel(&kernel, load_library(session), name));
  return kernel;
}

// The values that conformance_layout writes for these arguments.
struct Arguments {
  unsigned char a = 0x81;
  CUdeviceptr to = 0;
  unsigned short b = 0xfedc;
  std::uint32_t c[3] = {7, 8, 9};
  std::uint32_t d = 0xdeadbeef;

  std::vector<void*> pointers() { return {&a, &to, &b, c, &d}; }
  std::vector<std::uint32_t> written() const { return {a, b, c[0], c[1], c[2], d}; }

  // As one buffer, by the offsets in kLayout.
  std::vector<char> packed() const {
    std::vector<char> bytes(kLayoutBytes);
    const void* const from[] = {&a, &to, &b, c, &d};
    for (std::size_t i = 0; i < kLayoutCount; ++i)
      std::memcpy(bytes.data() + kLayout[i].offset, from[i], kLayout[i].bytes);
    return bytes;
  }
};

RULE(parameters_tell_offset_and_size,
     "A function's parameters lie in order, each aligned to its own size (or its elements')",
     "Execution Control: cuFuncGetParamInfo; PTX ISA: Kernel Function Parameters") {
  const CUfunction function = session.function("conformance_layout");
  for (std::size_t i = 0; i < kLayoutCount; ++i) {
    std::size_t offset = 0, bytes = 0;
    OK(cu.cuFuncGetParamInfo(function, i, &offset, &bytes));
    HOLDS(offset == kLayout[i].offset && bytes == kLayout[i].bytes, "offset and size of each");
  }
}

RULE(parameters_end, "A query of a parameter after the last is refused: that is how they are counted",
     "Execution Control: cuFuncGetParamInfo") {
  std::size_t offset = 0, bytes = 0;
  ANSWERS(cu.cuFuncGetParamInfo(session.function("conformance_layout"), kLayoutCount, &offset, &bytes),
          CUDA_ERROR_INVALID_VALUE);
  ANSWERS(cu.cuFuncGetParamInfo(session.function("conformance_nothing"), 0, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
}

RULE(parameter_size_may_be_left_out, "The pointer for a parameter's size may be null",
     "Execution Control: cuFuncGetParamInfo") {
  std::size_t offset = 0;
  OK(cu.cuFuncGetParamInfo(session.function("conformance_layout"), 3, &offset, nullptr));
  HOLDS(offset == kLayout[3].offset, "the offset is there");
}

RULE(kernel_parameters_are_the_functions, "A kernel returns the same parameters as its function",
     "Library Management: cuKernelGetParamInfo") {
  const CUkernel kernel = find_kernel(session, "conformance_layout");
  for (std::size_t i = 0; i < kLayoutCount; ++i) {
    std::size_t offset = 0, bytes = 0;
    OK(cu.cuKernelGetParamInfo(kernel, i, &offset, &bytes));
    HOLDS(offset == kLayout[i].offset && bytes == kLayout[i].bytes, "offset and size of each");
  }
  std::size_t offset = 0;
  ANSWERS(cu.cuKernelGetParamInfo(kernel, kLayoutCount, &offset, nullptr), CUDA_ERROR_INVALID_VALUE);
}

RULE(launch_passes_parameters, "A launch copies each parameter from the address in its pointer", LAUNCH) {
  Arguments arguments;
  arguments.to = session.allocate(64);
  std::vector<void*> list = arguments.pointers();
  OK(cu.cuLaunchKernel(session.function("conformance_layout"), 1, 1, 1, 1, 1, 1, 0, nullptr, list.data(), nullptr));
  HOLDS(session.read(arguments.to, 6) == arguments.written(), "the kernel got them all");
}

RULE(launch_takes_a_packed_buffer, "The same parameters in one buffer, by offset, make the same launch", LAUNCH) {
  Arguments arguments;
  arguments.to = session.allocate(64);
  std::vector<char> packed = arguments.packed();
  std::size_t bytes = packed.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  OK(cu.cuLaunchKernel(session.function("conformance_layout"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  HOLDS(session.read(arguments.to, 6) == arguments.written(), "the kernel got them all");
}

RULE(launch_takes_one_form, "A launch with parameters in both forms is refused", LAUNCH) {
  Arguments arguments;
  arguments.to = session.allocate(64);
  std::vector<char> packed = arguments.packed();
  std::vector<void*> list = arguments.pointers();
  std::size_t bytes = packed.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  ANSWERS(cu.cuLaunchKernel(session.function("conformance_layout"), 1, 1, 1, 1, 1, 1, 0, nullptr, list.data(), extra),
          CUDA_ERROR_INVALID_VALUE);
}

RULE(launch_takes_parameters_at_once, "Parameters may be changed as soon as the launch returns", LAUNCH) {
  const CUdeviceptr at = session.allocate(4096);
  const CUstream in = session.stream();
  const CUfunction add = session.function("conformance_add");
  session.prepare_busy();
  OK(cu.cuMemsetD32Async(at, 0, 1024, in));
  session.keep_busy(in);
  CUdeviceptr to = at;
  std::uint32_t words = 1024, value = 5;
  void* list[] = {&to, &words, &value};
  OK(cu.cuLaunchKernel(add, 8, 1, 1, 128, 1, 1, 0, in, list, nullptr));
  to = 0;
  words = 0;
  value = 1000;
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, 1024, 5), "the kernel ran with the values at the call");
}

RULE(launch_by_kernel_handle, "A kernel handle, cast to a function, launches", LAUNCH) {
  Arguments arguments;
  arguments.to = session.allocate(64);
  std::vector<void*> list = arguments.pointers();
  const auto function = reinterpret_cast<CUfunction>(find_kernel(session, "conformance_layout"));
  OK(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, list.data(), nullptr));
  HOLDS(session.read(arguments.to, 6) == arguments.written(), "the kernel got its parameters");
}

RULE(kernels_have_functions, "The function of a kernel launches and returns the same parameters",
     "Library Management: cuKernelGetFunction") {
  const CUdeviceptr at = session.allocate(4096);
  OK(cu.cuMemsetD32(at, 1, 1024));
  CUfunction function = nullptr;
  OK(cu.cuKernelGetFunction(&function, find_kernel(session, "conformance_add")));
  CUdeviceptr to = at;
  std::uint32_t words = 1024, value = 2;
  session.launch(function, words, nullptr, {&to, &words, &value});
  HOLDS(session.holds(at, 1024, 3), "it ran");
  std::size_t offset = 0, bytes = 0;
  OK(cu.cuFuncGetParamInfo(function, 2, &offset, &bytes));
  HOLDS(offset == 12 && bytes == 4, "its last parameter");
}

RULE(launch_with_configuration, "A launch by configuration without attributes is a plain launch",
     "Execution Control: cuLaunchKernelEx") {
  Arguments arguments;
  arguments.to = session.allocate(64);
  std::vector<void*> list = arguments.pointers();
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  OK(cu.cuLaunchKernelEx(&config, session.function("conformance_layout"), list.data(), nullptr));
  HOLDS(session.read(arguments.to, 6) == arguments.written(), "the kernel got its parameters");
}

RULE(launch_passes_its_shape, "A kernel sees the grid and the block that it was launched with", LAUNCH) {
  CUdeviceptr to = session.allocate(64);
  void* list[] = {&to};
  OK(cu.cuLaunchKernel(session.function("conformance_shape"), 2, 3, 4, 5, 6, 7, 0, nullptr, list, nullptr));
  HOLDS((session.read(to, 6) == std::vector<std::uint32_t>{2, 3, 4, 5, 6, 7}), "all six numbers");
}

RULE(launch_needs_a_grid, "A grid or block with no extent is refused", LAUNCH) {
  const CUfunction nothing = session.function("conformance_nothing");
  ANSWERS(cu.cuLaunchKernel(nothing, 0, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  ANSWERS(cu.cuLaunchKernel(nothing, 1, 1, 1, 1, 0, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

RULE(launch_keeps_to_limits, "A block with more threads than the device allows is refused", LAUNCH) {
  const CUfunction nothing = session.function("conformance_nothing");
  ANSWERS(cu.cuLaunchKernel(nothing, 1, 1, 1, 1025, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  ANSWERS(cu.cuLaunchKernel(nothing, 1, 1, 1, 64, 64, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  ANSWERS(cu.cuLaunchKernel(nothing, 1, 65536, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

RULE(shared_memory_is_asked_for,
     "More than 48 KiB of shared memory is refused until the function's attribute allows it",
     "Programming Guide: Compute Capability 7.x, Shared Memory; Execution Control: cuFuncSetAttribute") {
  const CUfunction nothing = session.function("conformance_nothing");
  const int most = session.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) - kStaticSharedBytes;
  const auto bytes = static_cast<unsigned>(most);
  if (most <= 48 << 10) throw NotSupported{"the device has no more"};
  ANSWERS(cu.cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, bytes, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
  OK(cu.cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, bytes, nullptr, nullptr, nullptr));
  session.synchronize();
  ANSWERS(cu.cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most + 1),
          CUDA_ERROR_INVALID_VALUE);
}

RULE(function_attributes,
     "A function returns its threads per block and its own shared memory; attributes that the compiler fixed cannot be "
     "set",
     "Execution Control: cuFuncGetAttribute, cuFuncSetAttribute") {
  const CUfunction nothing = session.function("conformance_nothing");
  int value = 0;
  OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, nothing));
  HOLDS(value >= 1 && value <= session.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), "within the device's");
  OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, nothing));
  HOLDS(value == kStaticSharedBytes, "the bytes that it declares");
  ANSWERS(cu.cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_NUM_REGS, 1), CUDA_ERROR_INVALID_VALUE);
}

RULE(functions_tell_their_names, "A function returns its name and its module",
     "Execution Control: cuFuncGetName, cuFuncGetModule") {
  CUmodule module = nullptr, found = nullptr;
  OK(cu.cuModuleLoadData(&module, kKernels));
  CUfunction function = nullptr;
  OK(cu.cuModuleGetFunction(&function, module, "conformance_add"));
  const char* name = nullptr;
  OK(cu.cuFuncGetName(&name, function));
  HOLDS(std::string_view(name) == "conformance_add", "its name");
  OK(cu.cuFuncGetModule(&found, function));
  HOLDS(found == module, "its module");
}

RULE(names_are_looked_up_exactly, "A function, variable or kernel that a module or library lacks is not found",
     MODULES "cuModuleGetFunction, cuModuleGetGlobal; " LIBRARIES "cuLibraryGetKernel") {
  CUmodule module = nullptr;
  OK(cu.cuModuleLoadData(&module, kKernels));
  CUfunction function = nullptr;
  CUdeviceptr at = 0;
  CUkernel kernel = nullptr;
  std::size_t bytes = 0;
  ANSWERS(cu.cuModuleGetFunction(&function, module, "conformance_ad"), CUDA_ERROR_NOT_FOUND);
  ANSWERS(cu.cuModuleGetGlobal(&at, &bytes, module, "conformance_word"), CUDA_ERROR_NOT_FOUND);
  ANSWERS(cu.cuLibraryGetKernel(&kernel, load_library(session), "conformance_ad"), CUDA_ERROR_NOT_FOUND);
}

RULE(variables_start_as_declared,
     "A module's variable has its declared size and initial contents; either pointer may be null",
     MODULES "cuModuleGetGlobal") {
  CUmodule module = nullptr;
  OK(cu.cuModuleLoadData(&module, kKernels));
  CUdeviceptr at = 0, again = 0;
  std::size_t bytes = 0;
  OK(cu.cuModuleGetGlobal(&at, &bytes, module, "conformance_words"));
  OK(cu.cuModuleGetGlobal(&again, nullptr, module, "conformance_words"));
  OK(cu.cuModuleGetGlobal(nullptr, &bytes, module, "conformance_words"));
  HOLDS(bytes == sizeof kWords && at == again, "its size and one address");
  HOLDS((session.read(at, 4) == std::vector<std::uint32_t>(kWords, kWords + 4)), "its contents");
}

RULE(modules_have_their_own_variables, "The same image loaded twice has two sets of variables",
     MODULES "cuModuleLoadData") {
  CUmodule one = nullptr, two = nullptr;
  CUdeviceptr first = 0, second = 0;
  OK(cu.cuModuleLoadData(&one, kKernels));
  OK(cu.cuModuleLoadData(&two, kKernels));
  OK(cu.cuModuleGetGlobal(&first, nullptr, one, "conformance_words"));
  OK(cu.cuModuleGetGlobal(&second, nullptr, two, "conformance_words"));
  session.write(first, {1});
  HOLDS(first != second && session.read(second, 1)[0] == kWords[0], "writing one leaves the other");
}

RULE(libraries_have_modules, "A library's kernels give the library, and its module has its variables",
     LIBRARIES "cuKernelGetLibrary, cuLibraryGetModule, cuLibraryGetGlobal") {
  const CUlibrary library = load_library(session);
  CUlibrary found = nullptr;
  CUkernel kernel = nullptr;
  OK(cu.cuLibraryGetKernel(&kernel, library, "conformance_add"));
  OK(cu.cuKernelGetLibrary(&found, kernel));
  HOLDS(found == library, "the library of the kernel");
  CUmodule module = nullptr;
  OK(cu.cuLibraryGetModule(&module, library));
  CUdeviceptr by_library = 0, by_module = 0;
  std::size_t bytes = 0;
  OK(cu.cuLibraryGetGlobal(&by_library, &bytes, library, "conformance_words"));
  OK(cu.cuModuleGetGlobal(&by_module, nullptr, module, "conformance_words"));
  HOLDS(by_library == by_module && bytes == sizeof kWords, "one variable");
}

RULE(bad_text_is_no_module, "Text that is not PTX is refused", MODULES "cuModuleLoadData",
     .open = "whether the text is called invalid PTX or an invalid image") {
  CUmodule module = nullptr;
  ANSWERS(
      cu.cuModuleLoadData(&module, ".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry broken( { nonsense"),
      CUDA_ERROR_INVALID_PTX, CUDA_ERROR_INVALID_IMAGE);
}

RULE(launch_needs_a_function, "A launch of a null function is refused", LAUNCH,
     .open = "whether the handle or the value is called invalid") {
  ANSWERS(cu.cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE,
          CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace conformance
