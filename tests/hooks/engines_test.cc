// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/engines.h"

#include <gtest/gtest.h>

#include <vector>

namespace thermocline {
namespace {

CUcontext context(std::uintptr_t number) { return reinterpret_cast<CUcontext>(number); }

const ActiveEngine kFirst{nullptr, context(1), 0, {0x5000, 0x1000}};
const ActiveEngine kSecond{nullptr, context(2), 1, {0x1000, 0x1000}};
const ActiveEngine kThird{nullptr, context(3), 5, {0x9000, 0x1000}};

EngineSet all_three() { return EngineSet().with(kThird).with(kFirst).with(kSecond); }

std::vector<CUdevice> devices_of(const EngineSet& set) {
  std::vector<CUdevice> devices;
  for (const ActiveEngine* one : set) devices.push_back(one->device);
  return devices;
}

TEST(EngineSet, StandsInOrderOfDevicesHoweverTheyCame) {
  EXPECT_EQ(devices_of(all_three()), (std::vector<CUdevice>{0, 1, 5}));
  EXPECT_EQ(devices_of(EngineSet().with(kFirst).with(kSecond).with(kThird)), (std::vector<CUdevice>{0, 1, 5}));
}

TEST(EngineSet, FindsTheOwnerOfAnAddressAtBothEndsOfItsRange) {
  const EngineSet set = all_three();
  EXPECT_EQ(set.owner(DeviceAddress{0x1000}), &kSecond);
  EXPECT_EQ(set.owner(DeviceAddress{0x1FFF}), &kSecond);
  EXPECT_EQ(set.owner(DeviceAddress{0x2000}), nullptr);
  EXPECT_EQ(set.owner(DeviceAddress{0x5FFF}), &kFirst);
  EXPECT_EQ(set.owner(DeviceAddress{0x9000}), &kThird);
  EXPECT_EQ(set.owner(DeviceAddress{0xFFF}), nullptr);
  EXPECT_EQ(set.bit_of_owner(DeviceAddress{0x1000}), 2u);
  EXPECT_EQ(set.bit_of_owner(DeviceAddress{0x8FFF}), 0u);
}

TEST(EngineSet, FindsByContextAndByDevice) {
  const EngineSet set = all_three();
  EXPECT_EQ(set.in(context(3)), &kThird);
  EXPECT_EQ(set.in(context(4)), nullptr);
  EXPECT_EQ(set.on(1), &kSecond);
  EXPECT_EQ(set.on(2), nullptr);
}

TEST(EngineSet, WithoutOneHasTheOthers) {
  const EngineSet set = all_three().without(kSecond);
  EXPECT_EQ(devices_of(set), (std::vector<CUdevice>{0, 5}));
  EXPECT_FALSE(set.has(&kSecond));
  EXPECT_EQ(set.owner(DeviceAddress{0x1000}), nullptr);
  EXPECT_TRUE(set.without(kFirst).without(kThird).empty());
}

TEST(EngineSet, HullOfOneIsItsRangeAndOfSeveralHoldsAll) {
  const OwnRange one = EngineSet().with(kFirst).hull();
  EXPECT_EQ(one.begin, 0x5000u);
  EXPECT_EQ(one.bytes, 0x1000u);
  const OwnRange three = all_three().hull();
  EXPECT_EQ(three.begin, 0x1000u);
  EXPECT_EQ(three.bytes, 0x9000u);
  EXPECT_FALSE(EngineSet().hull()(DeviceAddress{0}));
}

TEST(EngineSet, VisitsTheEnginesOfBitsInOrder) {
  const EngineSet set = all_three();
  std::vector<CUdevice> seen;
  set.for_each(set.bit_of(&kThird) | set.bit_of(&kFirst), [&](const ActiveEngine& one) { seen.push_back(one.device); });
  EXPECT_EQ(seen, (std::vector<CUdevice>{0, 5}));
  EXPECT_EQ(set.all(), 7u);
  EXPECT_EQ(EngineSet().all(), 0u);
}

TEST(EngineSet, HoldsAsManyAsItCan) {
  std::vector<ActiveEngine> many(EngineSet::kMost);
  EngineSet set;
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i] = {nullptr, context(i + 1), static_cast<CUdevice>(i), {(i + 1) << 32, 1}};
    set = set.with(many[i]);
  }
  EXPECT_EQ(set.all(), ~EngineBits{0});
  EXPECT_EQ(set.owner(DeviceAddress{std::uint64_t{64} << 32}), &many[63]);
}

}  // namespace
}  // namespace thermocline
