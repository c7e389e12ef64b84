// SPDX-License-Identifier: Apache-2.0
// What the runtime exports, compared with the headers of CUDA: a new version of them can not add a function or an error
// unseen.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

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
  // Textures and surfaces by reference left CUDA with version 12; the header still declares them, NVIDIA's library does
  // not export them either.
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

TEST(RuntimeExports, AFunctionThatIsNotCarriedRefusesByNameAndOnce) {
  testing::internal::CaptureStderr();
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  EXPECT_EQ(cudaMallocArray(&array, &format, 16, 16), cudaErrorNotSupported);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorNotSupported);
  EXPECT_EQ(cudaMallocArray(&array, &format, 16, 16), cudaErrorNotSupported);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("cudaMallocArray"), std::string::npos) << said;
  EXPECT_EQ(said.find("cudaMallocArray"), said.rfind("cudaMallocArray")) << "it is named more than once";
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
