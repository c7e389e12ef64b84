// SPDX-License-Identifier: Apache-2.0
// Fault plans: their effect on calls, which plans are rejected, and that without one nothing changes.
#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/simulated_cuda/device_fixture.h"

namespace {

class FaultTest : public DeviceTest {
 protected:
  // Restarts the device with the plan.
  void plan(const char* text) {
    control().reset();
    ASSERT_EQ(control().configure("faults", text), nullptr) << text;
    ASSERT_OK(cuInit(0));
    ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_OK(cuCtxSetCurrent(context_));
  }
  void TearDown() override {
    control().reset();
    ASSERT_EQ(control().configure("faults", "seed 0"), nullptr);
  }

  static std::string complaint(const char* text) {
    control().reset();
    const char* const wrong = control().configure("faults", text);
    return wrong == nullptr ? "" : wrong;
  }

  static std::vector<CUresult> allocations(int count) {
    std::vector<CUresult> results;
    for (int i = 0; i < count; ++i) {
      CUdeviceptr at = 0;
      results.push_back(cuMemAlloc(&at, 4096));
    }
    return results;
  }

  static constexpr CUresult kOk = CUDA_SUCCESS, kFull = CUDA_ERROR_OUT_OF_MEMORY;
};

TEST_F(FaultTest, TheNthCallFailsAndChangesNothing) {
  plan("fail cuMemAlloc call 2 OUT_OF_MEMORY");
  CUdeviceptr first = 0, second = 77;
  EXPECT_OK(cuMemAlloc(&first, 4096));
  EXPECT_EQ(cuMemAlloc(&second, 4096), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(second, 77u);
  EXPECT_OK(cuMemAlloc(&second, 4096));
  EXPECT_EQ(statistics().faults, 1u);
}

TEST_F(FaultTest, CopiesOfRowsFailUnderTheirOwnNames) {
  plan("fail cuMemcpy2D call 1 INVALID_VALUE; fail cuMemcpy3D call 1 INVALID_VALUE");
  const CUDA_MEMCPY2D rows{};
  const CUDA_MEMCPY3D layers{};
  EXPECT_EQ(cuMemcpy2D(&rows), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemcpy2D(&rows));
  EXPECT_EQ(cuMemcpy3D(&layers), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemcpy3D(&layers));
}

TEST_F(FaultTest, GraphsForLaunchesFromTheDeviceAreAcceptedIfThePlanSaysSo) {
  constexpr unsigned long long kForDevice = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  plan("seed 0");
  ASSERT_OK(cuGraphCreate(&graph, 0));
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, kForDevice), CUDA_ERROR_NOT_SUPPORTED);
  plan("accept device-launches");
  ASSERT_OK(cuGraphCreate(&graph, 0));
  ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph, kForDevice));
  EXPECT_OK(cuGraphExecDestroy(exec));
}

TEST_F(FaultTest, FromACallOnAndEveryNthCallFail) {
  plan("fail cuMemAlloc from 3 CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(allocations(5), (std::vector{kOk, kOk, kFull, kFull, kFull}));
  plan("fail cuMemAlloc every 2 OUT_OF_MEMORY");
  EXPECT_EQ(allocations(5), (std::vector{kOk, kFull, kOk, kFull, kOk}));
}

TEST_F(FaultTest, ChanceFailsTheSameCallsOfTheSameSeed) {
  plan("fail cuMemAlloc chance 30% OUT_OF_MEMORY; seed 5");
  const auto first = allocations(60);
  plan("fail cuMemAlloc chance 30% OUT_OF_MEMORY; seed 5");
  EXPECT_EQ(allocations(60), first);
  const auto failed = std::count(first.begin(), first.end(), kFull);
  EXPECT_GT(failed, 5);
  EXPECT_LT(failed, 40);
  plan("fail cuMemAlloc chance 30% OUT_OF_MEMORY; seed 6");
  EXPECT_NE(allocations(60), first);
}

TEST_F(FaultTest, EveryFormOfAFunctionCounts) {
  plan(
      "fail cuMemcpyHtoD call 2 INVALID_VALUE; fail cuMemsetD32 call 1 INVALID_CONTEXT; fail cuStreamCreate call 1 "
      "OUT_OF_MEMORY");
  const CUdeviceptr at = allocate(64);
  const int value = 1;
  EXPECT_OK(cuMemcpyHtoD(at, &value, 4));
  EXPECT_EQ(cuMemcpyHtoD(at, &value, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemcpyHtoD(at, &value, 4));
  EXPECT_EQ(cuMemsetD32(at, 1, 4), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_OK(cuMemsetD32Async(at, 1, 4, nullptr));
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_OK(cuStreamCreate(&stream, 0));
}

TEST_F(FaultTest, MemoryRunsOutForAllThatAllocate) {
  plan("out-of-memory from 2");
  CUdeviceptr at = 0;
  EXPECT_OK(cuMemAlloc(&at, 4096));
  EXPECT_EQ(cuMemAllocAsync(&at, 4096, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
  void* host = nullptr;
  EXPECT_EQ(cuMemAllocHost(&host, 4096), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(FaultTest, CapabilitiesCanBeMissing) {
  plan("without virtual-memory; without memory-pools; without cuFuncGetParamInfo");
  CUdeviceptr at = 0;
  int value = 1;
  EXPECT_EQ(cuMemAddressReserve(&at, kPage, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  EXPECT_EQ(value, 0);
  EXPECT_EQ(cuMemAllocAsync(&at, 4096, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
  EXPECT_EQ(value, 0);
  void* function = &value;
  CUdriverProcAddressQueryResult status{};
  EXPECT_OK(cuGetProcAddress("cuFuncGetParamInfo", &function, 13000, 0, &status));
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  std::size_t offset = 0, bytes = 0;
  EXPECT_EQ(cuFuncGetParamInfo(nullptr, 0, &offset, &bytes), CUDA_ERROR_NOT_FOUND);
}

TEST_F(FaultTest, MemoryOfTheHostCanBeUnmappable) {
  plan("without host-mappings");
  for (const CUdevice_attribute attribute : {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                             CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED}) {
    int value = 1;
    EXPECT_OK(cuDeviceGetAttribute(&value, attribute, 0));
    EXPECT_EQ(value, 0);
  }
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, kPage, &properties, 0), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(FaultTest, AnOlderDriverHasNoNewerForms) {
  plan("driver-version 12.0");
  int version = 0;
  EXPECT_OK(cuDriverGetVersion(&version));
  EXPECT_EQ(version, 12000);
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  EXPECT_EQ(cuGetProcAddress("cuFuncGetParamInfo", &function, 12040, 0, &status), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuGetProcAddress("cuFuncGetParamInfo", &function, 12000, 0, &status));
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

TEST_F(FaultTest, AddressesAndHandlesCanBeCoarserAndFewer) {
  plan("granularity 32MiB; address-bits 30");
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  std::size_t granularity = 0;
  EXPECT_OK(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT_EQ(granularity, std::size_t{32} << 20);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, kPage, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemCreate(&handle, granularity, &properties, 0));
  CUdeviceptr at = 0;
  EXPECT_EQ(cuMemAddressReserve(&at, std::size_t{2} << 30, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_OK(cuMemAddressReserve(&at, std::size_t{1} << 30, 0, 0, 0));
  CUdeviceptr more = 0;
  EXPECT_EQ(cuMemAddressReserve(&more, granularity, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_OK(cuMemAddressFree(at, std::size_t{1} << 30));
  EXPECT_OK(cuMemAddressReserve(&more, granularity, 0, 0, 0));
}

TEST_F(FaultTest, LinksSlowDownAndKernelsJitter) {
  const auto elapsed = [this](const char* text, bool copies) {
    plan(text);
    CUstream stream = make_stream();
    const CUdeviceptr at = allocate(1 << 20);
    void* host = nullptr;
    EXPECT_OK(cuMemAllocHost(&host, 1 << 20));
    for (int i = 0; i < 10; ++i) {
      if (copies) {
        EXPECT_OK(cuMemcpyHtoDAsync(at, host, 1 << 20, stream));
      } else {
        busy(stream, 1000);
      }
    }
    EXPECT_OK(cuStreamSynchronize(stream));
    const SimulatedStatistics now = statistics();
    return copies ? now.h2d_busy_ns : now.compute_busy_ns;
  };
  EXPECT_NEAR(static_cast<double>(elapsed("link 0.25", true)), 4.0 * static_cast<double>(elapsed("link 1", true)), 100);
  const auto steady = elapsed("seed 1", false), jittered = elapsed("jitter 50%; seed 1", false);
  EXPECT_NE(jittered, steady);
  EXPECT_EQ(elapsed("jitter 50%; seed 1", false), jittered);
  EXPECT_NE(elapsed("jitter 50%; seed 2", false), jittered);
  EXPECT_GT(jittered, steady / 2);
  EXPECT_LT(jittered, steady * 3 / 2);
}

TEST_F(FaultTest, MappingMayCostTheHostMoreOrNothing) {
  const auto cost = [this](const char* text) {
    plan(text);
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;
    EXPECT_OK(cuMemCreate(&handle, kPage, &properties, 0));
    EXPECT_OK(cuMemAddressReserve(&at, kPage, 0, 0, 0));
    const auto before = statistics().host_ns;
    EXPECT_OK(cuMemMap(at, kPage, 0, handle, 0));
    EXPECT_OK(cuMemSetAccess(at, kPage, &access, 1));
    EXPECT_OK(cuMemUnmap(at, kPage));
    return statistics().host_ns - before;
  };
  const auto usual = cost("mapping 1");
  EXPECT_GT(usual, 0);
  EXPECT_EQ(cost("mapping 3"), 3 * usual);
  EXPECT_EQ(cost("mapping 0"), 0);
}

TEST_F(FaultTest, ARandomPlanIsTheSameForTheSameSeed) {
  const auto outcome = [this](const char* text) {
    control().reset();
    EXPECT_EQ(control().configure("faults", text), nullptr);
    std::vector<CUresult> results{cuInit(0), cuDevicePrimaryCtxRetain(&context_, 0), cuCtxSetCurrent(context_)};
    for (int i = 0; i < 40; ++i) {
      CUdeviceptr at = 0;
      CUstream stream = nullptr;
      results.push_back(cuMemAlloc(&at, 4096));
      results.push_back(cuStreamCreate(&stream, 0));
      results.push_back(cuMemsetD8Async(at, 1, 4096, stream));
      results.push_back(cuStreamQuery(stream));
      results.push_back(cuMemFree(at));
    }
    return results;
  };
  EXPECT_EQ(outcome("random 400 1"), outcome("random 400 1"));
  EXPECT_NE(outcome("random 400 1"), outcome("random 400 2"));
}

TEST_F(FaultTest, ANewerVariantIsFoundByThoseWhoAskForItsVersion) {
  plan("newer cuMemAlloc");
  const auto find = [](const char* name, int version) {
    void* found = nullptr;
    EXPECT_OK(cuGetProcAddress(name, &found, version, 0, nullptr));
    return found;
  };
  int version = 0;
  EXPECT_OK(cuDriverGetVersion(&version));
  EXPECT_EQ(version, 14000);
  EXPECT_NE(find("cuMemAlloc", 14000), find("cuMemAlloc", 13000));
  EXPECT_NE(find("cuMemAlloc", 14000), nullptr);
  EXPECT_EQ(find("cuMemFree", 14000), find("cuMemFree", 13000));
  plan("seed 0");
  void* found = nullptr;
  EXPECT_EQ(cuGetProcAddress("cuMemAlloc", &found, 14000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FaultTest, APlanMayBeAFile) {
  const std::string path = testing::TempDir() + "/plan_of_faults";
  std::ofstream(path) << "# the second allocation\n\nfail cuMemAlloc call 2 OUT_OF_MEMORY  # fails\n";
  plan(path.c_str());
  EXPECT_EQ(allocations(3), (std::vector{kOk, kFull, kOk}));
  const std::string bad = path + "_with_a_mistake";
  std::ofstream(bad) << "seed 1\nfail cuMemAlloc call two OUT_OF_MEMORY\n";
  EXPECT_EQ(complaint(bad.c_str()), bad + ":2: 'two' is no number of calls");
}

TEST_F(FaultTest, ABadPlanIsOneClearLine) {
  EXPECT_EQ(complaint("/nowhere/plan"), "the plan of faults /nowhere/plan can not be read");
  EXPECT_EQ(
      complaint("brake 1"),
      "plan of faults, line 1: unknown statement 'brake'; known are fail, out-of-memory, random, without, accept, "
      "elsewhere, newer, driver-version, granularity, address-bits, link, mapping, jitter, seed");
  EXPECT_EQ(complaint("fail cuMemCraete call 1 OUT_OF_MEMORY"),
            "plan of faults, line 1: the simulated driver has no function cuMemCraete that may fail");
  EXPECT_EQ(complaint("link 1;\nfail cuMemAllocAsync call 1 ILLEGAL_ADDRESS"),
            "plan of faults, line 2: cuMemAllocAsync never answers ILLEGAL_ADDRESS; it may answer INVALID_VALUE, "
            "NOT_INITIALIZED, INVALID_CONTEXT, NOT_SUPPORTED, OUT_OF_MEMORY");
  EXPECT_EQ(complaint("fail cuMemAlloc soon 1 OUT_OF_MEMORY"),
            "plan of faults, line 1: expected call, from, every or chance, not 'soon'");
  EXPECT_EQ(complaint("jitter much"), "plan of faults, line 1: 'much' is no percentage, such as 20%");
  EXPECT_EQ(complaint("granularity 3MiB"), "plan of faults, line 1: '3MiB' is no power of two of at least 2MiB");
  EXPECT_EQ(complaint("driver-version 14.0"), "plan of faults, line 1: '14.0' is no driver version from 11.0 to 13.0");
  EXPECT_EQ(complaint("link 1 2"), "plan of faults, line 1: expected link FACTOR");
  for (const char* bad :
       {"link 0", "link nan", "accept wheels", "mapping -1", "address-bits 12", "without wheels", "random 0 1",
        "seed x", "fail cuMemAlloc call 0 OUT_OF_MEMORY", "fail cuMemAlloc chance 101% OUT_OF_MEMORY"}) {
    EXPECT_NE(complaint(bad), "") << bad;
  }
}

TEST_F(FaultTest, EveryEntryOfTheCatalogueCanBePlannedAndNamesErrorsOfTheHeader) {
  std::ifstream header(std::string(CUDA_INCLUDE_FOLDER) + "/cuda.h");
  const std::string text(std::istreambuf_iterator<char>(header), {});
  std::ifstream catalogue(FAULT_CATALOGUE);
  int entries = 0;
  for (std::string line; std::getline(catalogue, line);) {
    if (!line.starts_with("SIMULATED_MAY_FAIL(")) continue;
    ++entries;
    const std::string function = line.substr(19, line.find(',') - 19);
    // A few functions the header declares under the name of an older one, which it defines to be this one.
    const bool is_defined = text.find(" " + function + "\n") != std::string::npos;
    EXPECT_TRUE(is_defined || text.find("CUDAAPI " + function + "(") != std::string::npos) << function;
    std::string errors = line.substr(line.find('"') + 1);
    errors.resize(errors.find('"'));
    std::istringstream words(errors);
    for (std::string error; words >> error;) {
      EXPECT_NE(text.find("CUDA_ERROR_" + error + " "), std::string::npos) << error;
      EXPECT_EQ(complaint(("fail " + function + " call 1 " + error).c_str()), "");
    }
  }
  EXPECT_GT(entries, 150);
}

}  // namespace
