// SPDX-License-Identifier: Apache-2.0
#include "hooks/entry/external_memory.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

constexpr DeviceAddress kAt{0x4000'0000};

TEST(ExternalMemory, UnmappedMemoryComesBackWhenItsHandleIsReleased) {
  ExternalMemory memory;
  memory.created(7, 100);
  EXPECT_EQ(memory.held_bytes(), 100u);
  EXPECT_EQ(memory.released(7), 100u);
  EXPECT_EQ(memory.held_bytes(), 0u);
  memory.validate();
}

TEST(ExternalMemory, MappedMemoryOutlivesItsHandle) {
  ExternalMemory memory;
  memory.created(7, 100);
  memory.mapped(kAt, 100, 7);
  EXPECT_EQ(memory.released(7), 0u);
  memory.validate();
  EXPECT_EQ(memory.held_bytes(), 100u);
  EXPECT_EQ(memory.unmapped(kAt, 100), 100u);
  EXPECT_EQ(memory.held_bytes(), 0u);
}

TEST(ExternalMemory, HandleOutlivesItsMappings) {
  ExternalMemory memory;
  memory.created(7, 100);
  memory.mapped(kAt, 100, 7);
  memory.mapped(kAt + 100, 100, 7);
  EXPECT_EQ(memory.unmapped(kAt, 200), 0u);
  EXPECT_EQ(memory.released(7), 100u);
}

TEST(ExternalMemory, HandleThatComesAgainNamesNewMemory) {
  ExternalMemory memory;
  memory.created(7, 100);
  memory.mapped(kAt, 100, 7);
  EXPECT_EQ(memory.released(7), 0u);
  memory.created(7, 50);
  EXPECT_EQ(memory.held_bytes(), 150u);
  EXPECT_EQ(memory.released(7), 50u);
  EXPECT_EQ(memory.unmapped(kAt, 100), 100u);
  memory.validate();
}

TEST(ExternalMemory, RetainedHandleIsReleasedTwice) {
  ExternalMemory memory;
  memory.created(7, 100);
  memory.retained(7);
  EXPECT_EQ(memory.released(7), 0u);
  EXPECT_EQ(memory.released(7), 100u);
}

TEST(ExternalMemory, OneUnmapEndsSeveralMappings) {
  ExternalMemory memory;
  memory.created(1, 10);
  memory.created(2, 20);
  memory.mapped(kAt, 10, 1);
  memory.mapped(kAt + 10, 20, 2);
  EXPECT_EQ(memory.released(1) + memory.released(2), 0u);
  EXPECT_EQ(memory.unmapped(kAt, 30), 30u);
}

TEST(ExternalMemory, HandlesThatWereNotCreatedHereCountNothing) {
  ExternalMemory memory;
  memory.mapped(kAt, 100, 9);
  memory.retained(9);
  EXPECT_EQ(memory.released(9), 0u);
  EXPECT_EQ(memory.unmapped(kAt, 100), 0u);
  memory.validate();
}

}  // namespace
}  // namespace thermocline
