// SPDX-License-Identifier: Apache-2.0
// Arrays whose indices begin at 1 are passed by the address of the element before the first, as kernels' parameters and in
// tables.
#include <vector>

#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

using OneBasedTest = EngineTest;

TEST_F(OneBasedTest, APointerToTheElementBeforeABufferAccessesIt) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(5 * kPage), b = allocate(4 * kPage);
  const auto is_accessed_by = [&](DeviceAddress word) {
    EXPECT_TRUE(operate({{b, 4 * kPage}}).ok());
    EXPECT_FALSE(engine_->find(a)->resident);
    const MemoryAccess access{word};
    Operation operation = engine_->begin(kStream, {&access, 1}, {.kind = 7});
    EXPECT_TRUE(operation.status().ok());
    operation.commit();
    return engine_->find(a)->resident;
  };
  EXPECT_TRUE(is_accessed_by(a));
  for (const Bytes before : {4, 8, 16, 512}) EXPECT_TRUE(is_accessed_by(DeviceAddress{a.value - before})) << before;
  EXPECT_FALSE(is_accessed_by(DeviceAddress{a.value - kPage / 2}));
}

// Neither the buffer before it comes along, nor, for what is in a buffer, the one behind.
TEST_F(OneBasedTest, APointerToTheElementBeforeABufferAccessesNoOther) {
  start({.budget_bytes = 8 * kPage});
  const DeviceAddress a = allocate(5 * kPage - 600), b = allocate(5 * kPage - 8), c = allocate(5 * kPage);
  const auto accessed_by = [&](DeviceAddress word) {
    const MemoryAccess access{word};
    Operation operation = engine_->begin(kStream, {&access, 1}, {.kind = 7});
    EXPECT_TRUE(operation.status().ok());
    operation.commit();
    return std::vector{engine_->find(a)->resident, engine_->find(b)->resident, engine_->find(c)->resident};
  };
  EXPECT_EQ(accessed_by(DeviceAddress{b.value - 4}), (std::vector{false, true, false}));
  EXPECT_EQ(accessed_by(a + 5 * kPage - 601), (std::vector{true, false, false}));
  EXPECT_EQ(accessed_by(b + 5 * kPage - 9), (std::vector{false, true, false}));
  EXPECT_EQ(accessed_by(b + 5 * kPage - 8), (std::vector{false, true, false}));
  EXPECT_EQ(engine_->meant_by({DeviceAddress{b.value - 4}}).at(0).address, b);
}

TEST_F(OneBasedTest, AStoredPointerToTheElementBeforeABufferIsFollowed) {
  start({.budget_bytes = 8 * kPage, .policy = kReactivePolicy});
  const DeviceAddress table = allocate(256), a = allocate(4 * kPage), b = allocate(5 * kPage);
  ASSERT_TRUE(operate({{a, 4 * kPage}, {table, 256}}, Access::kWrite).ok());
  const HeldWord held{table, a.value - 4};
  engine_->hold({&held, 1});
  ASSERT_TRUE(operate({{b, 5 * kPage}}).ok());
  ASSERT_FALSE(engine_->find(a)->resident);
  const MemoryAccess access{DeviceAddress{table.value - 8}};
  Operation operation = engine_->begin(kStream, {&access, 1}, {.kind = 7, .follows = true});
  EXPECT_TRUE(operation.status().ok());
  operation.commit();
  EXPECT_TRUE(engine_->find(a)->resident);
}

}  // namespace
}  // namespace thermocline
