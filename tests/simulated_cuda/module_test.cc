// SPDX-License-Identifier: Apache-2.0
// Modules, libraries, functions, variables.
#include <cstring>
#include <fstream>
#include <string>

#include "tests/simulated_cuda/device_fixture.h"
#include "tests/simulated_cuda/ptx.h"

namespace {

class ModuleTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    ASSERT_OK(cuModuleLoadData(&module_, kPtx));
  }

  CUfunction function(const char* name) {
    CUfunction found = nullptr;
    EXPECT_OK(cuModuleGetFunction(&found, module_, name));
    return found;
  }

  CUmodule module_ = nullptr;
};

TEST_F(ModuleTest, PtxIsLinkedAndLoaded) {
  char log[256] = "before", info[16] = "before";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                            CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_WALL_TIME};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log), info, reinterpret_cast<void*>(sizeof info), nullptr};
  CUlinkState link = nullptr;
  ASSERT_OK(cuLinkCreate(5, options, values, &link));
  EXPECT_STREQ(log, "");
  EXPECT_STREQ(info, "");
  std::string uses =
      ".version 9.0\n.target sm_75\n.address_size 64\n.extern .global .u32 kept;\n.global .u32 own = 3;\n"
      ".visible .entry reads(.param .u64 p) { ret; }\n";
  std::string defines =
      ".version 9.0\n.target sm_75\n.address_size 64\n.visible .global .u32 kept = 7;\n.global .u32 own;\n";
  std::string wrong = ".version 9.0\n.visible .entry k(.param";
  EXPECT_EQ(cuLinkAddData(link, CU_JIT_INPUT_PTX, wrong.data(), wrong.size(), "wrong", 0, nullptr, nullptr),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(std::string(log).find("input 'wrong': PTX, line 2"), std::string::npos) << log;
  EXPECT_EQ(cuLinkAddData(link, CU_JIT_INPUT_CUBIN, uses.data(), uses.size(), "code", 0, nullptr, nullptr),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(cuLinkAddFile(link, CU_JIT_INPUT_PTX, "/nowhere/at.ptx", 0, nullptr, nullptr), CUDA_ERROR_FILE_NOT_FOUND);
  void* linked = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(cuLinkComplete(link, &linked, &bytes), CUDA_ERROR_INVALID_VALUE);  // no input yet
  ASSERT_OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, uses.data(), uses.size() + 1, "uses", 0, nullptr, nullptr));
  ASSERT_OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, defines.data(), defines.size(), nullptr, 0, nullptr, nullptr));
  ASSERT_OK(cuLinkComplete(link, &linked, &bytes));
  EXPECT_EQ(bytes, std::strlen(static_cast<const char*>(linked)) + 1);
  EXPECT_EQ(cuLinkAddData(link, CU_JIT_INPUT_PTX, uses.data(), uses.size(), "late", 0, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, linked));
  ASSERT_OK(cuLinkDestroy(link));
  EXPECT_EQ(cuLinkDestroy(link), CUDA_ERROR_INVALID_HANDLE);
  CUfunction found = nullptr;
  EXPECT_OK(cuModuleGetFunction(&found, module, "reads"));
  CUdeviceptr at = 0;
  std::size_t size = 0;
  ASSERT_OK(cuModuleGetGlobal(&at, &size, module, "kept"));
  unsigned value = 0;
  ASSERT_OK(cuMemcpyDtoH(&value, at, sizeof value));
  EXPECT_EQ(value, 7u);
  ASSERT_OK(cuModuleUnload(module));
}

TEST_F(ModuleTest, FunctionsAreFoundByName) {
  CUfunction found = nullptr;
  const char* name = nullptr;
  unsigned count = 0;
  EXPECT_OK(cuFuncGetName(&name, function("_Z5scalePffi")));
  EXPECT_STREQ(name, "_Z5scalePffi");
  EXPECT_EQ(cuModuleGetFunction(&found, module_, "scale"), CUDA_ERROR_NOT_FOUND);
  EXPECT_OK(cuModuleGetFunctionCount(&count, module_));
  EXPECT_EQ(count, 4u);
  std::vector<CUfunction> all(count);
  EXPECT_OK(cuModuleEnumerateFunctions(all.data(), count, module_));
  for (CUfunction each : all) EXPECT_OK(cuFuncGetName(&name, each));
}

TEST_F(ModuleTest, ParametersLieAsThePtxDeclaresThem) {
  const CUfunction packed = function("packed");
  const std::size_t expected[][2] = {{0, 1}, {1, 9}, {16, 8}};
  for (std::size_t i = 0; i < 3; ++i) {
    std::size_t offset = 0, bytes = 0;
    EXPECT_OK(cuFuncGetParamInfo(packed, i, &offset, &bytes));
    EXPECT_EQ(offset, expected[i][0]);
    EXPECT_EQ(bytes, expected[i][1]);
  }
  std::size_t offset = 0;
  EXPECT_EQ(cuFuncGetParamInfo(packed, 3, &offset, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ModuleTest, AttributesAreTheImagesOrWhatTheProgramSet) {
  int value = 0;
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function("nothing")));
  EXPECT_EQ(value, 128);
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function("nothing")));
  EXPECT_EQ(value, 256);
  EXPECT_OK(cuFuncSetAttribute(function("mystery"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function("mystery")));
  EXPECT_EQ(value, 100000);
  EXPECT_EQ(cuFuncSetAttribute(function("mystery"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetAttribute(function("mystery"), CU_FUNC_ATTRIBUTE_NUM_REGS, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ModuleTest, VariablesHaveTheirFirstContents) {
  CUdeviceptr counter = 0, where = 0, table = 0;
  std::size_t bytes = 0;
  ASSERT_OK(cuModuleGetGlobal(&counter, &bytes, module_, "counter"));
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(read<unsigned>(counter, 1)[0], 7u);
  ASSERT_OK(cuModuleGetGlobal(&where, &bytes, module_, "where"));
  EXPECT_EQ(read<CUdeviceptr>(where, 1)[0], counter + 2);
  ASSERT_OK(cuModuleGetGlobal(&table, &bytes, module_, "table"));
  EXPECT_EQ(bytes, 16u);
  EXPECT_EQ(read<unsigned>(table, 4), (std::vector<unsigned>{1, 2, 0, 0}));
  EXPECT_EQ(cuModuleGetGlobal(&table, &bytes, module_, "nobody"), CUDA_ERROR_NOT_FOUND);
}

TEST_F(ModuleTest, AnUnloadedModuleIsGone) {
  const CUfunction gone = function("nothing");
  EXPECT_OK(cuModuleUnload(module_));
  CUfunction found = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&found, module_, "nothing"), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLaunchKernel(gone, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuModuleUnload(module_), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleTest, AKernelOfALibraryStandsForItsFunction) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUfunction behind = nullptr;
  CUmodule module = nullptr;
  unsigned count = 0;
  const char* name = nullptr;
  ASSERT_OK(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  ASSERT_OK(cuLibraryGetKernel(&kernel, library, "nothing"));
  EXPECT_OK(cuKernelGetFunction(&behind, kernel));
  EXPECT_OK(cuKernelGetName(&name, kernel));
  EXPECT_STREQ(name, "nothing");
  EXPECT_OK(cuLibraryGetKernelCount(&count, library));
  EXPECT_EQ(count, 4u);
  EXPECT_OK(cuLaunchKernel(behind, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT_OK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  int value = 0;
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, reinterpret_cast<CUfunction>(kernel)));
  EXPECT_EQ(value, 256);
  EXPECT_OK(cuLibraryGetModule(&module, library));
  EXPECT_EQ(cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
  EXPECT_OK(cuLibraryUnload(library));
  EXPECT_EQ(cuKernelGetFunction(&behind, kernel), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleTest, ImagesComeFromFiles) {
  const std::string path = testing::TempDir() + "simulated_cuda_module.ptx";
  std::ofstream(path) << kPtx;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  EXPECT_OK(cuModuleLoad(&module, path.c_str()));
  EXPECT_OK(cuLibraryLoadFromFile(&library, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  EXPECT_EQ(cuModuleLoad(&module, (path + ".missing").c_str()), CUDA_ERROR_FILE_NOT_FOUND);
}

TEST_F(ModuleTest, WhatIsNoImageIsRefused) {
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module, "hello, this is no image"), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cuModuleLoadData(&module, ""), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cuModuleLoadData(&module, ".version 9.0\n.visible .entry broken("), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ModuleTest, OccupancyFollowsTheBlock) {
  int blocks = 0, grid = 0, block = 0;
  EXPECT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function("mystery"), 1024, 0));
  EXPECT_EQ(blocks, 2);
  EXPECT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function("nothing"), 256, 0));
  EXPECT_EQ(blocks, 0) << "its launch bounds are smaller";
  EXPECT_OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function("mystery"), nullptr, 0, 0));
  EXPECT_EQ(block, 1024);
  EXPECT_EQ(grid, 2 * 108);
}

}  // namespace
