// SPDX-License-Identifier: Apache-2.0
#include "hooks/operands/parameters.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace thermocline {
namespace {

constexpr std::uint64_t kBegin = 0x7000'0000'0000;
constexpr std::uint64_t kBytes = 0x1'0000'0000;

constexpr OwnRange owns{kBegin, kBytes};

std::vector<std::uint64_t> words(const AccessList& accesses) {
  std::vector<std::uint64_t> found;
  for (const MemoryAccess& access : accesses.all()) found.push_back(access.address.value);
  return found;
}

template <class T>
std::vector<std::uint64_t> scan(const T& parameter) {
  AccessList accesses;
  scan_parameter(&parameter, sizeof parameter, owns, &accesses);
  return words(accesses);
}

TEST(Parameters, PointerIsAnAccess) { EXPECT_EQ(scan(kBegin + 4096), std::vector{kBegin + 4096}); }

TEST(Parameters, WordOutsideTheRangeIsNone) {
  EXPECT_TRUE(scan(kBegin - 1).empty());
  EXPECT_TRUE(scan(kBegin + kBytes).empty());
  EXPECT_TRUE(scan(std::uint64_t{0}).empty());
}

TEST(Parameters, ParametersShorterThanAWordHoldNone) {
  EXPECT_TRUE(scan(static_cast<std::uint32_t>(kBegin)).empty());
  EXPECT_TRUE(scan(char{0x70}).empty());
}

TEST(Parameters, PointersOfAPackedStructureAreFoundAtAnyOffset) {
  struct __attribute__((packed)) Packed {
    char first = 1;
    std::uint64_t a = kBegin + 512;
    char second = 2;
    std::uint16_t third = 3;
    std::uint64_t b = kBegin + 1024;
    char last = 4;
  };
  EXPECT_EQ(scan(Packed{}), (std::vector{kBegin + 512, kBegin + 1024}));
}

TEST(Parameters, LastWordOfAStructureIsFoundAndNothingBehindIt) {
  unsigned char bytes[32] = {};
  const std::uint64_t address = kBegin + 77;
  std::memcpy(bytes + 16, &address, sizeof address);
  AccessList accesses;
  scan_parameter(bytes, 24, owns, &accesses);
  EXPECT_EQ(words(accesses), std::vector{address});
  AccessList shorter;
  scan_parameter(bytes, 23, owns, &shorter);
  EXPECT_TRUE(shorter.empty());
}

TEST(Parameters, WordsDoNotSpanParameters) {
  // Two halves of an address are adjacent in the block, but belong to two parameters.
  unsigned char block[16] = {};
  const std::uint64_t address = kBegin + 0x1234;
  std::memcpy(block + 4, &address, sizeof address);
  const ParameterLayout two = {{0, 8}, {8, 8}};
  AccessList apart;
  scan_block(two, block, sizeof block, owns, &apart);
  EXPECT_TRUE(apart.empty());
  const ParameterLayout one = {{0, 16}};
  AccessList together;
  scan_block(one, block, sizeof block, owns, &together);
  EXPECT_EQ(words(together), std::vector{address});
}

TEST(Parameters, ScansEachOfKernelParams) {
  std::uint64_t a = kBegin;
  int count = 7;
  std::uint64_t b = kBegin + kBytes - 1;
  void* parameters[] = {&a, &count, &b};
  const ParameterLayout layout = {{0, 8}, {8, 4}, {16, 8}};
  AccessList accesses;
  EXPECT_TRUE(scan_arguments(&layout, {parameters, nullptr}, owns, &accesses));
  EXPECT_EQ(words(accesses), (std::vector{a, b}));
}

TEST(Parameters, KernelParamsWithoutALayoutCanNotBeRead) {
  std::uint64_t a = kBegin;
  void* parameters[] = {&a};
  AccessList accesses;
  EXPECT_FALSE(scan_arguments(nullptr, {parameters, nullptr}, owns, &accesses));
}

TEST(Parameters, ExtraIsReadWithAndWithoutALayout) {
  std::uint64_t block[] = {kBegin + 8, 5, kBegin + 16};
  std::size_t bytes = sizeof block;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  const ParameterLayout layout = {{0, 8}, {8, 8}, {16, 8}};
  const ParameterLayout* const layouts[] = {&layout, nullptr};
  for (const ParameterLayout* known : layouts) {
    AccessList accesses;
    EXPECT_TRUE(scan_arguments(known, {nullptr, extra}, owns, &accesses));
    EXPECT_EQ(words(accesses), (std::vector{kBegin + 8, kBegin + 16}));
  }
}

// nvcc's launches pass an array of parameters even to kernels without any; nothing in it is read.
TEST(Parameters, AKernelWithoutParametersNamesNothing) {
  std::uint64_t block[] = {kBegin + 8};
  void* parameters[] = {block};
  std::size_t bytes = sizeof block;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  const ParameterLayout empty;
  AccessList accesses;
  EXPECT_TRUE(scan_arguments(&empty, {parameters, nullptr}, owns, &accesses));
  EXPECT_TRUE(accesses.empty());
  EXPECT_FALSE(scan_arguments(nullptr, {parameters, nullptr}, owns, &accesses));
  EXPECT_TRUE(scan_arguments(&empty, {nullptr, extra}, owns, &accesses));
  EXPECT_EQ(words(accesses), std::vector{kBegin + 8});
}

TEST(Parameters, BlockThatIsShorterThanTheLayoutIsNotReadPastItsEnd) {
  std::uint64_t block[] = {kBegin + 8, kBegin + 16};
  const ParameterLayout layout = {{0, 8}, {8, 8}, {16, 4096}};
  AccessList accesses;
  scan_block(layout, block, 12, owns, &accesses);
  EXPECT_EQ(words(accesses), std::vector{kBegin + 8});
}

TEST(AccessList, NamesAWordOnceInARow) {
  AccessList accesses;
  accesses.word(8).word(8).word(16).word(8);
  EXPECT_EQ(words(accesses), (std::vector<std::uint64_t>{8, 16, 8}));
  // A range at the same address is not the word.
  accesses.clear();
  accesses.word(8).read(DeviceAddress{8}, 1).word(8).found_word(8).word(8);
  EXPECT_EQ(accesses.all().size(), 5u);
  accesses.filter([](DeviceAddress) { return false; });
  accesses.word(8);
  EXPECT_EQ(words(accesses), (std::vector<std::uint64_t>{8}));
  AccessList other;
  other.word(24);
  accesses.join(other).word(24).word(8);
  EXPECT_EQ(words(accesses), (std::vector<std::uint64_t>{8, 24, 24, 8}));
}

TEST(Parameters, NoArgumentsAccessNothing) {
  AccessList accesses;
  EXPECT_TRUE(scan_arguments(nullptr, {}, owns, &accesses));
  EXPECT_TRUE(accesses.empty());
}

// Long parameters are filtered sixteen words at a time. Whatever their contents, and wherever the range is, the result
// must be the same as that of examining every word.
TEST(ScanParameters, FindsWhatALookAtEveryWordFinds) {
  std::mt19937_64 random(1);
  const OwnRange ranges[] = {owns,
                             {0x7FFF'FFF0'0000, 0x20'0000},     // crosses into another 2^47
                             {0xFFFF'FFFF'0000, 0x2'0000},      // crosses a multiple of 2^48
                             {0x1'0000'0000, 0x100'0000'0000},  // its third bytes include zero
                             {0, 0x1000},
                             {0x7000'0000'0000, 0}};
  for (const OwnRange range : ranges) {
    for (std::size_t bytes = 0; bytes < 420; ++bytes) {
      std::vector<unsigned char> parameter(bytes);
      for (unsigned char& byte : parameter) byte = static_cast<unsigned char>(random() % 4 == 0 ? random() : 0);
      for (int i = 0; i < 3 && bytes >= 8; ++i) {
        const std::uint64_t word = range.begin + (range.bytes == 0 ? 0 : random() % range.bytes);
        std::memcpy(&parameter[random() % (bytes - 7)], &word, sizeof word);
      }
      AccessList expected, found;
      for (std::size_t offset = 0; offset + 8 <= bytes; ++offset) {
        std::uint64_t word;
        std::memcpy(&word, &parameter[offset], sizeof word);
        if (range(DeviceAddress{word})) expected.word(word);
      }
      scan_parameter(parameter.data(), bytes, range, &found);
      ASSERT_EQ(words(found), words(expected)) << bytes;
      found.clear();
      scan_parameter_narrow(parameter.data(), bytes, range, &found);
      ASSERT_EQ(words(found), words(expected)) << bytes;
    }
  }
}

}  // namespace
}  // namespace thermocline
