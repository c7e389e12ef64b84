// SPDX-License-Identifier: Apache-2.0
#include "hooks/operands/tensor_maps.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

namespace thermocline {
namespace {

using Bytes128 = std::array<unsigned char, TensorMaps::kBytes>;

// Maps that differ in one word, at any position.
Bytes128 map_number(std::uint64_t number, std::size_t place = 3) {
  Bytes128 map;
  map.fill(0x5A);
  std::memcpy(map.data() + 8 * place, &number, sizeof number);
  return map;
}

bool nothing_lives(DeviceAddress) { return false; }

std::vector<std::pair<std::size_t, std::uint64_t>> all_in(const TensorMaps& maps, const std::vector<unsigned char>& in,
                                                          std::uint64_t to, std::size_t unit) {
  std::vector<std::pair<std::size_t, std::uint64_t>> found;
  maps.search(in.data(), in.size(), to, unit,
              [&](std::size_t offset, DeviceAddress at) { found.emplace_back(offset, at.value); });
  return found;
}

TEST(TensorMapTable, KnowsAgainWhatItWasShown) {
  TensorMaps maps;
  EXPECT_TRUE(maps.empty());
  for (std::size_t place = 0; place < 16; ++place) {
    const Bytes128 map = map_number(77, place);
    EXPECT_FALSE(maps.find(map.data()).has_value()) << place;
    EXPECT_TRUE(maps.remember(map.data(), DeviceAddress{4096 * place}, nothing_lives));
    ASSERT_TRUE(maps.find(map.data()).has_value());
    EXPECT_EQ(maps.find(map.data())->value, 4096 * place);
  }
  EXPECT_FALSE(maps.empty());
  EXPECT_EQ(maps.size(), 16u);
  EXPECT_TRUE(maps.remember(map_number(77, 5).data(), DeviceAddress{1}, nothing_lives));
  EXPECT_EQ(maps.find(map_number(77, 5).data())->value, 1u) << "the same bytes anew";
  EXPECT_EQ(maps.size(), 16u);
}

TEST(TensorMapTable, FindsMapsWhereTheyMayStand) {
  TensorMaps maps;
  maps.remember(map_number(1).data(), DeviceAddress{0x1000}, nothing_lives);
  maps.remember(map_number(2).data(), DeviceAddress{0x2000}, nothing_lives);
  std::vector<unsigned char> block(1024, 0);
  std::memcpy(block.data() + 32, map_number(1).data(), 128);
  std::memcpy(block.data() + 1024 - 128, map_number(2).data(), 128);
  using Found = std::vector<std::pair<std::size_t, std::uint64_t>>;
  EXPECT_EQ(all_in(maps, block, 0, 64), (Found{{896, 0x2000}}));
  EXPECT_EQ(all_in(maps, block, 0, 16), (Found{{32, 0x1000}, {896, 0x2000}}));
  EXPECT_EQ(all_in(maps, block, 32, 64), (Found{{32, 0x1000}})) << "it is the destination that is aligned";
  block.pop_back();
  EXPECT_EQ(all_in(maps, block, 0, 64), Found{}) << "the last byte is missing";
}

TEST(TensorMapTable, ScansArgumentsOfEveryKind) {
  TensorMaps maps;
  maps.remember(map_number(1).data(), DeviceAddress{0x1000}, nothing_lives);
  maps.remember(map_number(2).data(), DeviceAddress{0x2000}, nothing_lives);
  const ParameterLayout layout = {{0, 8}, {64, 128}, {192, 256}};
  alignas(16) unsigned char block[448] = {};
  std::memcpy(block + 64, map_number(1).data(), 128);
  std::memcpy(block + 192 + 80, map_number(2).data(), 128);
  const auto addresses = [&](const ParameterLayout* known, KernelArguments arguments) {
    AccessList accesses;
    scan_tensor_maps(maps, known, arguments, &accesses);
    std::vector<std::uint64_t> all;
    for (const MemoryAccess& access : accesses.all()) all.push_back(access.address.value);
    return all;
  };
  using All = std::vector<std::uint64_t>;
  void* parameters[] = {block, block + 64, block + 192};
  EXPECT_EQ(addresses(&layout, {parameters, nullptr}), (All{0x1000, 0x2000}));
  std::size_t bytes = sizeof block;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  EXPECT_EQ(addresses(&layout, {nullptr, extra}), (All{0x1000, 0x2000}));
  EXPECT_EQ(addresses(nullptr, {nullptr, extra}), (All{0x1000, 0x2000}));
  bytes = 300;  // in the middle of the second
  EXPECT_EQ(addresses(&layout, {nullptr, extra}), (All{0x1000}));
}

TEST(TensorMapTable, LetsGoWhatNamesNothingAliveAndThenRefuses) {
  TensorMaps maps;
  const auto lives = [](DeviceAddress at) { return at.value % 2 == 0; };
  std::uint64_t number = 0;
  for (; number < TensorMaps::kMost; ++number) {
    ASSERT_TRUE(maps.remember(map_number(number).data(), DeviceAddress{number}, lives));
  }
  // Half of them are removed.
  EXPECT_TRUE(maps.remember(map_number(number).data(), DeviceAddress{number}, lives));
  EXPECT_EQ(maps.size(), TensorMaps::kMost / 2 + 1);
  EXPECT_FALSE(maps.find(map_number(1).data()).has_value());
  EXPECT_TRUE(maps.find(map_number(2).data()).has_value());
  while (maps.size() < TensorMaps::kMost) {
    number += 2;
    ASSERT_TRUE(maps.remember(map_number(number).data(), DeviceAddress{number}, lives));
  }
  number += 2;
  EXPECT_FALSE(maps.remember(map_number(number).data(), DeviceAddress{number}, lives));
  EXPECT_TRUE(maps.remember(map_number(2).data(), DeviceAddress{2}, lives)) << "what is known needs no room";
  EXPECT_EQ(maps.size(), TensorMaps::kMost);
}

}  // namespace
}  // namespace thermocline
