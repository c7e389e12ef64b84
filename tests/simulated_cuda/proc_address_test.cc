// SPDX-License-Identifier: Apache-2.0
// Entry points: what is exported and what cuGetProcAddress chooses, compared with the headers.
#include <dlfcn.h>
#include <elf.h>

#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/simulated_cuda/device_fixture.h"

// Overrides the library's function of that name, as an export of a preloaded library would.
extern "C" __attribute__((visibility("default"))) CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext,
                                                                        std::size_t) {
  return CUDA_ERROR_UNKNOWN;
}

namespace {

std::string read_header(const char* name) {
  std::ifstream file(std::string(CUDA_INCLUDE_FOLDER "/") + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class ProcAddressTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    library_ = dlopen(SIMULATED_CUDA, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }

  void* exported(const std::string& symbol) { return dlsym(library_, symbol.c_str()); }

  static void* ask(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_LEGACY_STREAM) {
    void* found = nullptr;
    EXPECT_OK(cuGetProcAddress(name, &found, version, flags, nullptr));
    return found;
  }

  void* library_ = nullptr;
};

TEST_F(ProcAddressTest, EveryFunctionThatTheHeaderDeclaresIsExported) {
  if (CUDA_VERSION != 13000) GTEST_SKIP() << "the list of entry points is that of CUDA 13.0";
  const std::string header = read_header("cuda.h");
  std::set<std::string> names;
  const std::regex declared(R"(CUresult\s+CUDAAPI\s+(cu[A-Z]\w*)\s*\()");
  for (std::sregex_iterator match(header.begin(), header.end(), declared), last; match != last; ++match)
    names.insert((*match)[1]);
  const std::regex renamed(R"(#\s*define\s+cu[A-Z]\w*\s+(cu[A-Z]\w*)\s*\n)");
  for (std::sregex_iterator match(header.begin(), header.end(), renamed), last; match != last; ++match)
    names.insert((*match)[1]);
  const std::regex per_thread(R"(#\s*define\s+cu[A-Z]\w*\s+__CUDA_API_(PTDS|PTSZ)\((cu[A-Z]\w*)\))");
  for (std::sregex_iterator match(header.begin(), header.end(), per_thread), last; match != last; ++match) {
    names.insert((*match)[2]);
    names.insert((*match)[2].str() + ((*match)[1] == "PTDS" ? "_ptds" : "_ptsz"));
  }
  EXPECT_GT(names.size(), 600u);
  for (const std::string& name : names) EXPECT_NE(exported(name), nullptr) << name;
}

// cudaTypedefs.h lists every form of a function with the version that introduced it.
TEST_F(ProcAddressTest, EveryFormThatTheHeaderNamesIsFoundFromItsVersionOn) {
  if (CUDA_VERSION != 13000) GTEST_SKIP() << "the list of entry points is that of CUDA 13.0";
  const std::string header = read_header("cudaTypedefs.h");
  std::map<std::string, std::set<int>> versions, own_versions;
  const std::regex pattern(R"(PFN_(cu[A-Z]\w*?)_v(\d+)(_ptsz|_ptds)?\)\()");
  for (std::sregex_iterator match(header.begin(), header.end(), pattern), last; match != last; ++match) {
    ((*match)[3].matched ? own_versions : versions)[(*match)[1]].insert(std::stoi((*match)[2]));
  }
  EXPECT_GT(versions.size(), 400u);
  for (const auto& [name, known] : versions) {
    EXPECT_EQ(ask(name.c_str(), *known.begin() - 1), nullptr) << name;
    std::set<void*> forms;
    for (const int version : known) forms.insert(ask(name.c_str(), version));
    EXPECT_EQ(forms.size(), known.size()) << name << ": each version has a form of its own";
    EXPECT_EQ(forms.count(nullptr), 0u) << name;
  }
  for (const auto& [name, known] : own_versions) {
    for (const int version : known) {
      const void* own = ask(name.c_str(), version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
      EXPECT_NE(own, nullptr) << name;
      EXPECT_NE(own, ask(name.c_str(), version)) << name;
    }
  }
}

TEST_F(ProcAddressTest, TheVersionChoosesTheForm) {
  EXPECT_EQ(ask("cuMemAlloc", 13000), exported("cuMemAlloc_v2"));
  EXPECT_EQ(ask("cuMemAlloc", 3020), exported("cuMemAlloc_v2"));
  EXPECT_EQ(ask("cuMemAlloc", 3010), exported("cuMemAlloc"));
  EXPECT_EQ(ask("cuCtxCreate", 11040), exported("cuCtxCreate_v3"));
  EXPECT_EQ(ask("cuCtxCreate", 12050), exported("cuCtxCreate_v4"));
  EXPECT_EQ(ask("cuGetProcAddress", 11030), exported("cuGetProcAddress"));
  EXPECT_EQ(ask("cuGetProcAddress", 12000), exported("cuGetProcAddress_v2"));
  EXPECT_EQ(ask("cuGraphInstantiate", 12000), exported("cuGraphInstantiateWithFlags"));
  EXPECT_EQ(ask("cuMemcpyHtoDAsync", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            exported("cuMemcpyHtoDAsync_v2_ptsz"));
  EXPECT_EQ(ask("cuMemcpyHtoD", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            exported("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(ask("cuMemAlloc", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM), exported("cuMemAlloc_v2"));
}

TEST_F(ProcAddressTest, NobodyGetsBetweenTheLibraryAndItsOwnFunctions) {
  EXPECT_EQ(cuMemcpyPeer(0, nullptr, 0, nullptr, 0), CUDA_ERROR_UNKNOWN) << "the program meets the one in front";
  void* own = ask("cuMemcpyPeer", 13000);
  EXPECT_EQ(own, exported("cuMemcpyPeer"));
  EXPECT_NE(own, reinterpret_cast<void*>(&cuMemcpyPeer));
}

// The dynamic symbol table, as the loader sees it.
TEST_F(ProcAddressTest, NothingButTheDriverTheControlTableAndNvtxIsExported) {
  std::ifstream file(SIMULATED_CUDA, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes.data() + header->e_shoff);
  const std::set<std::string> others = {"simulated_device_control", "InitializeInjectionNvtx2",
                                        "InitializeInjectionNvtxExtension"};
  int count = 0;
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_DYNSYM) continue;
    const char* names = bytes.data() + sections[sections[i].sh_link].sh_offset;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(bytes.data() + sections[i].sh_offset);
    for (std::size_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s) {
      if (symbols[s].st_shndx == SHN_UNDEF) continue;
      const std::string name = names + symbols[s].st_name;
      const bool is_driver =
          name.size() > 2 && name.starts_with("cu") && std::isupper(static_cast<unsigned char>(name[2])) != 0;
      EXPECT_TRUE(is_driver || others.count(name) == 1) << name;
      ++count;
    }
  }
  EXPECT_GT(count, 600);
}

TEST_F(ProcAddressTest, WhatIsNotThereIsSaid) {
  void* found = &found;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_OK(cuGetProcAddress("cuNobody", &found, 13000, 0, &status));
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_OK(cuGetProcAddress("cuMemAllocAsync", &found, 11000, 0, &status));
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_OK(cuGetProcAddress("cuMemAllocAsync", &found, 11020, 0, &status));
  EXPECT_NE(found, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  EXPECT_EQ(cuGetProcAddress("cuInit", &found, 13010, 0, nullptr), CUDA_ERROR_INVALID_VALUE) << "newer than the driver";
  EXPECT_EQ(cuGetProcAddress("cuInit", &found, 13000, 64, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGetProcAddress(nullptr, &found, 13000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  const auto first_form =
      reinterpret_cast<CUresult (*)(const char*, void**, int, cuuint64_t)>(exported("cuGetProcAddress"));
  EXPECT_EQ(first_form("cuNobody", &found, 13000, 0), CUDA_ERROR_NOT_FOUND);
  EXPECT_OK(first_form("cuInit", &found, 13000, 0));
  EXPECT_EQ(found, exported("cuInit"));
}

TEST_F(ProcAddressTest, TheFormForEachThreadUsesTheThreadsStream) {
  const auto query = reinterpret_cast<CUresult (*)(CUstream, unsigned long long*)>(exported("cuStreamGetId_ptsz"));
  unsigned long long own = 0, expected = 0, legacy = 0;
  EXPECT_OK(query(nullptr, &own));
  EXPECT_OK(cuStreamGetId(CU_STREAM_PER_THREAD, &expected));
  EXPECT_OK(query(CU_STREAM_LEGACY, &legacy));
  EXPECT_EQ(own, expected);
  EXPECT_NE(own, legacy);
}

TEST_F(ProcAddressTest, AFirstFormWithTheSameParametersIsAsGoodAsTheNewest) {
  const auto destroy = reinterpret_cast<CUresult (*)(CUstream)>(exported("cuStreamDestroy"));
  CUstream stream = make_stream();
  EXPECT_OK(destroy(stream));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ProcAddressTest, TheDriverIsOfCuda13) {
  int version = 0;
  EXPECT_OK(cuDriverGetVersion(&version));
  EXPECT_EQ(version, 13000);
}

}  // namespace
