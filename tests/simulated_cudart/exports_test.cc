// SPDX-License-Identifier: Apache-2.0
// The runtime's exports, compared with CUDA's headers: a new version of these can not add a function or an error
// unnoticed.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::string read_header(const char* name) {
  std::ifstream file(std::string(CUDA_INCLUDE_FOLDER "/") + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string without_comments(const std::string& text) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = text.find("/*", at);
    out += text.substr(at, begin - at);
    if (begin == std::string::npos) break;
    const std::size_t end = text.find("*/", begin);
    if (end == std::string::npos) break;
    at = end + 2;
  }
  return out;
}

std::set<std::string> find_all(const std::string& text, const char* pattern) {
  std::set<std::string> found;
  const std::regex expression(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it) found.insert((*it)[1]);
  return found;
}

bool is_exported(const std::string& name) {
  static void* const library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  return library != nullptr && dlvsym(library, name.c_str(), "libcudart.so.13") != nullptr;
}

TEST(RuntimeExports, EveryFunctionOfTheHeaderIsThereUnderTheVersionThatProgramsAskFor) {
  const auto names = find_all(without_comments(read_header("cuda_runtime_api.h")), R"(CUDARTAPI\s+(cuda\w+)\s*\()");
  ASSERT_GT(names.size(), 250u) << "the header was not understood";
  for (const std::string& name : names) EXPECT_TRUE(is_exported(name)) << name;
}

TEST(RuntimeExports, EveryPerThreadVariantOfTheHeaderIsThere) {
  const std::string header = without_comments(read_header("cuda_runtime_api.h"));
  const auto synchronous = find_all(header, R"(#define\s+\w+\s+__CUDART_API_PTDS\((cuda\w+)\))");
  const auto asynchronous = find_all(header, R"(#define\s+\w+\s+__CUDART_API_PTSZ\((cuda\w+)\))");
  ASSERT_GT(synchronous.size(), 5u);
  ASSERT_GT(asynchronous.size(), 30u);
  for (const std::string& name : synchronous) EXPECT_TRUE(is_exported(name + "_ptds")) << name;
  for (const std::string& name : asynchronous) EXPECT_TRUE(is_exported(name + "_ptsz")) << name;
}

TEST(RuntimeExports, WhatNvccGeneratesCallsToIsThere) {
  const std::string headers = read_header("crt/host_runtime.h") + read_header("crt/device_functions.h");
  // Texture and surface references were removed from CUDA in version 12; the header still declares their functions, but
  // NVIDIA's library does not export them either.
  std::set<std::string> names = find_all(without_comments(headers), R"(CUDARTAPI\s+(__cuda\w+)\s*\()");
  names.erase("__cudaRegisterTexture");
  names.erase("__cudaRegisterSurface");
  ASSERT_GE(names.size(), 10u);
  for (const std::string& name : names) EXPECT_TRUE(is_exported(name)) << name;
}

TEST(RuntimeExports, EveryErrorHasItsName) {
  const std::string header = without_comments(read_header("driver_types.h"));
  const std::size_t begin = header.find("enum __device_builtin__ cudaError");
  ASSERT_NE(begin, std::string::npos);
  const std::string body = header.substr(begin, header.find("};", begin) - begin);
  const std::regex expression(R"((cuda\w+)\s*=\s*(\d+))");
  std::size_t count = 0;
  for (std::sregex_iterator it(body.begin(), body.end(), expression), end; it != end; ++it, ++count) {
    const auto error = static_cast<cudaError_t>(std::stoi((*it)[2]));
    EXPECT_EQ(cudaGetErrorName(error), (*it)[1].str());
    EXPECT_STRNE(cudaGetErrorString(error), "unrecognized error code") << (*it)[1];
  }
  EXPECT_GT(count, 100u);
}

struct Missing {
  std::string name;
  std::string reason;
};

const std::vector<Missing> kMissing = {
#define CUDART_NOT_CARRIED(name, reason) {#name, reason},
#include "simulator/cudart/not_carried.def"
#undef CUDART_NOT_CARRIED
};

// The functions that an ELF file defines for others.
std::set<std::string> exports_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::set<std::string> names;
  if (data.size() < sizeof(Elf64_Ehdr)) return names;
  const auto at = [&](std::uint64_t offset, auto* out) { std::memcpy(out, data.data() + offset, sizeof *out); };
  Elf64_Ehdr header;
  at(0, &header);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    at(header.e_shoff + std::uint64_t{i} * sizeof section, &section);
    if (section.sh_type != SHT_DYNSYM) continue;
    Elf64_Shdr strings;
    at(header.e_shoff + std::uint64_t{section.sh_link} * sizeof strings, &strings);
    for (std::uint64_t k = 0; k < section.sh_size; k += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      at(section.sh_offset + k, &symbol);
      if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
        names.insert(data.data() + strings.sh_offset + symbol.st_name);
    }
  }
  return names;
}

TEST(RuntimeExports, WhatNvidiasLibraryExportsIsThere) {
  auto names = exports_of(CUDA_INCLUDE_FOLDER "/../lib64/libcudart.so.13");
  if (names.empty()) names = exports_of(CUDA_INCLUDE_FOLDER "/../lib/libcudart.so.13");
  if (names.empty()) GTEST_SKIP() << "the toolkit's own runtime is not installed";
  ASSERT_GT(names.size(), 400u);
  for (const std::string& name : names) EXPECT_TRUE(is_exported(name)) << name;
  for (const Missing& missing : kMissing) EXPECT_TRUE(names.contains(missing.name)) << missing.name;
}

TEST(RuntimeExports, WhatIsNotCarriedIsRefusedAndNamedWithItsReason) {
  void* const library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  for (const Missing& missing : kMissing) {
    auto* const function = reinterpret_cast<cudaError_t (*)()>(dlsym(library, missing.name.c_str()));
    ASSERT_NE(function, nullptr) << missing.name;
    testing::internal::CaptureStderr();
    EXPECT_EQ(function(), cudaErrorNotSupported) << missing.name;
    EXPECT_EQ(function(), cudaErrorNotSupported) << missing.name;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said, "cudart: " + missing.name + " is not carried by the simulated runtime (" + missing.reason +
                        "); it returns cudaErrorNotSupported\n");
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorNotSupported);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
  }
}

TEST(RuntimeExports, WhatIsNotCarriedStandsInTheManual) {
  std::ifstream file(REPOSITORY_FOLDER "/docs/simulated_device.md");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t begin = text.find("| why | functions |");
  ASSERT_NE(begin, std::string::npos);
  text = text.substr(begin, text.find("\n\n", begin) - begin);
  std::set<std::string> listed;
  for (const Missing& missing : kMissing) {
    listed.insert(missing.name);
    EXPECT_NE(text.find("| " + missing.reason + " |"), std::string::npos) << missing.reason;
  }
  EXPECT_EQ(find_all(text, "`(\\w+)`"), listed);
}

}  // namespace
