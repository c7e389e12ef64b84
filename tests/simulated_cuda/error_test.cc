// SPDX-License-Identifier: Apache-2.0
// Names and descriptions of errors, compared with cuda.h, and refused calls.
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "tests/simulated_cuda/device_fixture.h"

namespace {

class ErrorTest : public DeviceTest {};

TEST_F(ErrorTest, EveryErrorOfTheHeaderHasItsNameAndASentence) {
  std::ifstream file(CUDA_INCLUDE_FOLDER "/cuda.h");
  const std::string header((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t begin = header.find("typedef enum cudaError_enum"), end = header.find("} CUresult;", begin);
  ASSERT_NE(end, std::string::npos);
  const std::string body = header.substr(begin, end - begin);
  const std::regex pattern(R"((CUDA_[A-Z0-9_]+)\s*=\s*(\d+))");
  int count = 0;
  for (std::sregex_iterator match(body.begin(), body.end(), pattern), last; match != last; ++match, ++count) {
    const char *name = nullptr, *sentence = nullptr;
    const auto error = static_cast<CUresult>(std::stoi((*match)[2]));
    ASSERT_OK(cuGetErrorName(error, &name)) << (*match)[1];
    EXPECT_EQ(name, (*match)[1]);
    EXPECT_OK(cuGetErrorString(error, &sentence));
    EXPECT_STRNE(sentence, "");
  }
  EXPECT_GT(count, 90);
}

TEST_F(ErrorTest, ANumberThatIsNoErrorHasNoName) {
  const char* name = "untouched";
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(1000), &name), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(name, nullptr);
  EXPECT_EQ(cuGetErrorString(CUDA_SUCCESS, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ErrorTest, AFunctionThatIsNotThereNamesItselfOnce) {
  CUmipmappedArray mipmaps = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuMipmappedArrayCreate(&mipmaps, &descriptor, 1), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMipmappedArrayCreate(&mipmaps, &descriptor, 1), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "simulated device: cuMipmappedArrayCreate is not supported\n");
}

TEST_F(ErrorTest, UndocumentedTablesAreNotFound) {
  const void* table = &table;
  const CUuuid id{};
  EXPECT_EQ(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(table, nullptr);
}

}  // namespace
