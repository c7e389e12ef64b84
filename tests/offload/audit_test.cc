// SPDX-License-Identifier: Apache-2.0
#include "offload/engine/audit.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "allocator/heap.h"
#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = FakeDriver::kPage;

class AuditTest : public testing::Test {
 protected:
  void SetUp() override {
    HeapOptions options;
    options.page_bytes = kPage;
    options.limit = 16 * kPage;
    ASSERT_TRUE(Heap::create(driver, clock, options, &heap).ok());
    for (BlockState& state : states) {
      Buffer* buffer = nullptr;
      ASSERT_TRUE(heap->allocate(2 * kPage, StreamIndex{}, &buffer).ok());
      ASSERT_TRUE(heap->map(buffer->block(), Wait::kNo).ok());
      state.block = &buffer->block();
      audit.allocated(buffer->block());
    }
  }
  bool is_open(const BlockState& state) const {
    const bool first = fake.accessible(state.block->begin());
    EXPECT_EQ(first, fake.accessible(state.block->begin() + kPage)) << "a block is open or shut as a whole";
    return first;
  }

  FakeDriver fake;
  Driver driver{fake.table()};
  StreamClock clock{driver};
  std::unique_ptr<Heap> heap;
  Audit audit{driver, 0};
  BlockState states[2];
};

TEST_F(AuditTest, ABlockIsOpenWhileWhatAccessesItRuns) {
  EXPECT_FALSE(is_open(states[0]));
  std::vector<BlockState*> operands = {&states[0]};
  ASSERT_TRUE(audit.begin(operands).ok());
  EXPECT_TRUE(is_open(states[0]));
  EXPECT_FALSE(is_open(states[1]));
  audit.end(StreamHandle{}, operands, {.name = "kernel", .follows = true});
  EXPECT_FALSE(is_open(states[0]));
  EXPECT_EQ(audit.statistics().launches, 1u);
  EXPECT_EQ(audit_text(audit.statistics()).find("audit: safe"), 0u);
}

TEST_F(AuditTest, WhatMayNotLeaveStaysOpen) {
  states[1].pins = 1;
  audit.pinned(*states[1].block);
  std::vector<BlockState*> operands = {&states[0], &states[1]};
  ASSERT_TRUE(audit.begin(operands).ok());
  audit.end(StreamHandle{}, operands, {});
  EXPECT_FALSE(is_open(states[0]));
  EXPECT_TRUE(is_open(states[1]));
}

TEST_F(AuditTest, ABlockThatCanNotBeShutWasNotLookedAt) {
  std::vector<BlockState*> operands = {&states[0]};
  ASSERT_TRUE(audit.begin(operands).ok());
  fake.fail("cuMemSetAccess", 1, CUDA_ERROR_NOT_SUPPORTED);
  audit.end(StreamHandle{}, operands, {.follows = true});
  EXPECT_EQ(audit.statistics().left_open, 1u);
  EXPECT_EQ(audit_text(audit.statistics()).find("safe"), std::string::npos);
}

TEST_F(AuditTest, TheFirstFaultIsNamedAndLaterOnesSayNothing) {
  std::vector<BlockState*> operands = {&states[0]};
  for (const char* name : {"good", "bad", "after"}) {
    ASSERT_TRUE(audit.begin(operands).ok());
    if (std::string(name) != "good") fake.fail("cuStreamSynchronize", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    audit.end(StreamHandle{}, operands, {.name = name, .follows = true});
  }
  const std::string text = audit_text(audit.statistics());
  EXPECT_EQ(text.find("audit: not safe: 'bad' (operation 2)"), 0u) << text;
}

TEST_F(AuditTest, WithoutKernelsThereIsNothingToSay) {
  std::vector<BlockState*> operands = {&states[0]};
  ASSERT_TRUE(audit.begin(operands).ok());
  audit.end(StreamHandle{}, operands, {});
  EXPECT_EQ(audit_text(audit.statistics()).find("audit: nothing to say"), 0u);
  audit.unknown();
  EXPECT_EQ(audit_text(audit.statistics()).find("safe"), std::string::npos);
}

}  // namespace
}  // namespace thermocline
