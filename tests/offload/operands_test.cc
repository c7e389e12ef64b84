// SPDX-License-Identifier: Apache-2.0
// The memory that an operation is assumed to access in addition to its arguments.
#include "offload/engine/too_large.h"
#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

class OperandsTest : public EngineTest {
 protected:
  void launch(const Operands& given, OperationInfo info) {
    info.follows = true;
    ASSERT_TRUE(submit(given, Access::kUnknown, info, 5).ok());
  }
  void write_tables(const std::vector<DeviceAddress>& given) {
    std::vector<MemoryAccess> accesses;
    for (const DeviceAddress at : given) accesses.push_back({at});
    engine_->written_by_kernel(accesses);
  }
};

// All graphs have the same identity. What one of them wrote to small buffers would be attributed to all others.
TEST_F(OperandsTest, TheLaunchOfAGraphIsNoKernelThatWritesTables) {
  start({.budget_bytes = 32 * kPage});
  const DeviceAddress table = allocate(256), target = allocate(kPage);
  launch({{table, 256}, {target, kPage}}, {});
  EXPECT_EQ(engine_->statistics().pointer_probes, 0u);
  EXPECT_FALSE(engine_->has_references());
  launch({{table, 256}, {target, kPage}}, {.kind = 7, .name = "kernel"});
  EXPECT_EQ(engine_->statistics().pointer_probes, 1u);
  EXPECT_TRUE(engine_->has_references());
}

// The addresses that it stores there can only come from memory outside.
TEST_F(OperandsTest, AKernelThatIsGivenATableAloneIsProbedWhereGlobalsHoldAddresses) {
  start({.budget_bytes = 32 * kPage});
  const DeviceAddress table = allocate(256), target = allocate(kPage);
  launch({{table, 256}}, {.kind = 7, .name = "kernel"});
  EXPECT_EQ(engine_->statistics().pointer_probes, 0u);
  const HeldWord global{DeviceAddress{4096}, target.value};
  engine_->hold({&global, 1});
  launch({{table, 256}}, {.kind = 7, .name = "kernel"});
  EXPECT_EQ(engine_->statistics().pointer_probes, 1u);
}

// Tables that kernels wrote may point to more than fits. They can not be read here, because tagged memory has no bytes.
TEST_F(OperandsTest, WhatDoesNotFitIsRefusedAndNotLeftOut) {
  for (const Safety safety : {Safety::kStrict, Safety::kTrusting}) {
    start({.budget_bytes = 16 * kPage, .safety = safety, .host_is_readable = false});
    const DeviceAddress first = allocate(256), second = allocate(256);
    const DeviceAddress near_by = allocate(3 * kPage), far_away = allocate(14 * kPage);
    write_tables({second, far_away});
    write_tables({first, second, near_by});
    ASSERT_TRUE(operate({{near_by, 3 * kPage}}, Access::kWrite).ok());
    ASSERT_TRUE(operate({{far_away, 14 * kPage}}, Access::kWrite).ok());
    const OperationInfo reader{.kind = 7, .name = "reader", .follows = true};
    EXPECT_TRUE(submit({{first, 256}}, Access::kUnknown, reader, 5).is_out_of_memory());
    EXPECT_EQ(engine_->statistics().unfetched_targets, 0u);
    EXPECT_EQ(engine_->statistics().out_of_memory, 1u);
    TearDown();
  }
}

// Beyond the number of entries that are remembered for one table, it may point anywhere.
TEST_F(OperandsTest, ATableThatMayLeadAnywhereNeedsAllThatIsLive) {
  start({.budget_bytes = 16 * kPage, .host_is_readable = false});
  const DeviceAddress table = allocate(256), target = allocate(kPage), other = allocate(15 * kPage);
  const OperationInfo reader{.kind = 7, .name = "reader", .follows = true};
  ASSERT_TRUE(operate({{target, kPage}}, Access::kWrite).ok());
  ASSERT_TRUE(operate({{other, 15 * kPage}}, Access::kWrite).ok());
  engine_->hold_unknown({table, 8});
  EXPECT_TRUE(submit({{table, 256}}, Access::kUnknown, reader, 5).is_out_of_memory());
  engine_->overwritten({table, 256});
  EXPECT_TRUE(submit({{table, 256}}, Access::kUnknown, reader, 5).ok());
}

// Stored pointers that are known point to more than fits. What is left out is accessed through its host copy; if that
// is impossible, the operation is refused.
TEST_F(OperandsTest, UnderAFullHostFallbackWhatIsKnownNeedNotFit) {
  for (const HostFallback fallback : {HostFallback::kOff, HostFallback::kFull}) {
    start({.budget_bytes = 16 * kPage, .host_fallback = fallback, .host_is_readable = false});
    const DeviceAddress table = allocate(256), first = allocate(9 * kPage), second = allocate(9 * kPage);
    for (const DeviceAddress at : {second, first}) ASSERT_TRUE(operate({{at, 9 * kPage}}, Access::kWrite).ok());
    const HeldWord words[] = {{table, first.value}, {table + 8, second.value}};
    engine_->hold(words);
    const Status status = submit({{table, 256}}, Access::kUnknown, {.kind = 7, .name = "reader", .follows = true}, 5);
    EXPECT_EQ(status.ok(), fallback == HostFallback::kFull);
    if (status.ok()) {
      EXPECT_TRUE(engine_->find(first)->resident);
      EXPECT_FALSE(engine_->find(second)->resident);
    }
    TearDown();
  }
}

// Freed while a blocked stream was using it, and released when the stream has continued: at once, and not when the next
// operation already has it among its operands.
TEST_F(OperandsTest, WhatIsLetGoIsNoOperand) {
  start({.budget_bytes = 16 * kPage});
  const DeviceAddress table = allocate(256), target = allocate(kPage);
  const HeldWord words[] = {{table, target.value}};
  engine_->hold(words);
  ASSERT_TRUE(submit({{target, kPage}}, Access::kWrite, {.kind = 7, .may_block = true}, 5).ok());
  ASSERT_TRUE(engine_->free(target, kStream).ok());
  EXPECT_FALSE(engine_->find(target).has_value());
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  launch({{table, 256}}, {.kind = 8, .name = "reader"});
  EXPECT_EQ(engine_->statistics().live_bytes, 256u);
}

// The hooks wait for others to give memory back, which does not help where the operation alone needs too much.
TEST_F(OperandsTest, AnOperationThatIsRefusedIsTooLargeOnlyIfItAloneNeedsMoreThanTheBudget) {
  start({.budget_bytes = 8 * kPage});
  std::vector<DeviceAddress> all;
  for (int i = 0; i < 5; ++i) all.push_back(allocate(2 * kPage));
  static_cast<void>(take_was_too_large());
  const auto use = [&](int buffers) {
    Operands given;
    for (int i = 0; i < buffers; ++i) given.emplace_back(all[static_cast<std::size_t>(i)], 2 * kPage);
    return operate(given);
  };
  ASSERT_TRUE(use(4).ok());
  EXPECT_FALSE(take_was_too_large());
  ASSERT_TRUE(use(5).is_out_of_memory());
  EXPECT_TRUE(take_was_too_large());
  EXPECT_FALSE(take_was_too_large()) << "it is said once";
  // Others hold the rest, and could release it.
  ASSERT_TRUE(engine_->pin(all[4], "a test").ok());
  ASSERT_TRUE(use(4).is_out_of_memory());
  EXPECT_FALSE(take_was_too_large());
  engine_->unpin(all[4], engine_->find(all[4])->number);
  ASSERT_TRUE(engine_->add_external(2 * kPage).ok());
  ASSERT_TRUE(use(4).is_out_of_memory());
  EXPECT_FALSE(take_was_too_large());
  engine_->remove_external(2 * kPage);
  DeviceAddress address;
  EXPECT_FALSE(engine_->allocate(9 * kPage, std::nullopt, &address).ok());
  EXPECT_FALSE(take_was_too_large()) << "it is no operation";
}

// Buffers that share no page under some budget share none in an audit.
class AuditedEngine : public EngineTest {};
TEST_F(AuditedEngine, HasTheSmallestPagesWhateverIsSet) {
  for (const Bytes setting : {Bytes{0}, 16 * kMiB}) {
    start({.policy = kNoPolicy, .page_bytes = setting, .audit = true}, 64 * kGiB);
    allocate(3 * kMiB);
    EXPECT_EQ(engine_->statistics().block_bytes, 4 * kMiB);
    allocate(1000);
    EXPECT_EQ(engine_->statistics().block_bytes, 6 * kMiB);
    TearDown();
  }
}

}  // namespace
}  // namespace thermocline
