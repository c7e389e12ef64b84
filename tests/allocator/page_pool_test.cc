// SPDX-License-Identifier: Apache-2.0
#include "allocator/page_pool.h"

#include <gtest/gtest.h>

#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = FakeDriver::kPage;

class PagePoolTest : public testing::Test {
 protected:
  FakeDriver fake;
  Driver driver{fake.table()};
  std::vector<PageHandle> pages;

  void TearDown() override {
    EXPECT_EQ(fake.pages(), 0u) << "every page is destroyed";
    for (const std::string& error : fake.errors()) ADD_FAILURE() << error;
  }
};

TEST_F(PagePoolTest, CreatesUpToTheLimitAndNoFurther) {
  PagePool pool(driver, 0, kPage, 4 * kPage + kPage / 2);
  EXPECT_EQ(pool.creatable_pages(), 4u);
  EXPECT_TRUE(pool.take(3, &pages).ok());
  EXPECT_TRUE(pool.take(2, &pages).is_out_of_memory());
  EXPECT_EQ(pages.size(), 3u) << "all or none";
  EXPECT_EQ(fake.pages(), 3u);
  EXPECT_TRUE(pool.take(1, &pages).ok());
  EXPECT_EQ(pool.created_bytes(), 4 * kPage);
  for (const PageHandle page : pages) pool.give(page);
}

TEST_F(PagePoolTest, HandsOutAgainWhatWasGivenBack) {
  PagePool pool(driver, 0, kPage, 4 * kPage);
  ASSERT_TRUE(pool.take(4, &pages).ok());
  for (const PageHandle page : pages) pool.give(page);
  pages.clear();
  ASSERT_TRUE(pool.take(4, &pages).ok());
  EXPECT_EQ(fake.calls("cuMemCreate"), 4u);
  for (const PageHandle page : pages) pool.give(page);
}

TEST_F(PagePoolTest, KnowsWhichPagesItHolds) {
  PagePool pool(driver, 0, kPage, 6 * kPage);
  ASSERT_TRUE(pool.take(4, &pages).ok());
  const std::vector<PageHandle> all = pages;
  const auto held = [&] {
    std::string text;
    for (const PageHandle page : all) text += pool.holds(page) ? '1' : '0';
    return text;
  };
  EXPECT_EQ(held(), "0000");
  for (const PageHandle page : all) pool.give(page);
  EXPECT_EQ(held(), "1111");
  pool.take(all[1]);
  EXPECT_EQ(held(), "1011");
  pages.clear();
  ASSERT_TRUE(pool.take(1, &pages).ok());
  EXPECT_EQ(held(), "1010") << "the newest";
  ASSERT_TRUE(pool.trim(3 * kPage).ok());
  EXPECT_EQ(held(), "0010") << "the oldest is destroyed";
  ASSERT_TRUE(pool.create(1).ok());
  EXPECT_TRUE(pool.holds(pool.free_list().back())) << "one that was made since";
  pool.give(all[1]);
  pool.give(pages.front());
  EXPECT_EQ(held(), "0111");
}

TEST_F(PagePoolTest, WhatTheDriverDidCreateBeforeItRefusedIsKept) {
  PagePool pool(driver, 0, kPage, 10 * kPage);
  fake.device_bytes = 3 * kPage;
  EXPECT_TRUE(pool.take(4, &pages).is_out_of_memory());
  EXPECT_TRUE(pages.empty());
  EXPECT_EQ(pool.free_pages(), 3u);
  EXPECT_EQ(pool.created_pages(), 3u);
  EXPECT_TRUE(pool.take(3, &pages).ok());
  for (const PageHandle page : pages) pool.give(page);
}

// Other processes hold part of the device: once that is known, only few requests ask the driver again.
TEST_F(PagePoolTest, DeviceThatHasNoMoreIsSeldomAskedAgain) {
  PagePool pool(driver, 0, kPage, 100 * kPage);
  fake.device_bytes = 3 * kPage;
  EXPECT_TRUE(pool.create(4).is_out_of_memory());
  const std::uint64_t before = fake.calls("cuMemCreate");
  for (int i = 0; i < 2000; ++i) static_cast<void>(pool.create(1));
  EXPECT_EQ(pool.created_pages(), 3u);
  EXPECT_LE(fake.calls("cuMemCreate") - before, 5u);
  EXPECT_GE(fake.calls("cuMemCreate") - before, 2u) << "it may have more by now";
}

TEST_F(PagePoolTest, DeviceThatHasMoreAgainIsFoundOut) {
  PagePool pool(driver, 0, kPage, 100 * kPage);
  fake.device_bytes = 3 * kPage;
  EXPECT_TRUE(pool.create(4).is_out_of_memory());
  fake.device_bytes = 20 * kPage;
  for (int i = 0; i < 64 && pool.created_pages() < 4; ++i) EXPECT_TRUE(pool.create(1).ok());
  EXPECT_EQ(pool.created_pages(), 4u);
  EXPECT_EQ(pool.creatable_pages(), 96u);
}

TEST_F(PagePoolTest, WhoInsistsAndWhoHasAHigherLimitAsksTheDeviceAtOnce) {
  PagePool pool(driver, 0, kPage, 100 * kPage);
  fake.device_bytes = 3 * kPage;
  EXPECT_TRUE(pool.create(4).is_out_of_memory());
  fake.device_bytes = 20 * kPage;
  EXPECT_TRUE(pool.create(1, PagePool::Ask::kInsist).ok());
  EXPECT_EQ(pool.created_pages(), 4u);
  fake.device_bytes = 4 * kPage;
  EXPECT_TRUE(pool.create(1).is_out_of_memory());
  EXPECT_TRUE(pool.set_limit(50 * kPage));
  const std::uint64_t before = fake.calls("cuMemCreate");
  EXPECT_TRUE(pool.create(1).ok());
  EXPECT_EQ(fake.calls("cuMemCreate"), before) << "a lower limit says nothing of the device";
  EXPECT_TRUE(pool.set_limit(60 * kPage));
  EXPECT_TRUE(pool.create(1).is_out_of_memory());
  EXPECT_EQ(fake.calls("cuMemCreate"), before + 1);
}

// Memory that was returned to the device can be requested again without delay.
TEST_F(PagePoolTest, PagesThatWereDestroyedAreExpectedToBeThere) {
  PagePool pool(driver, 0, kPage, 100 * kPage);
  fake.device_bytes = 3 * kPage;
  EXPECT_TRUE(pool.create(4).is_out_of_memory());
  EXPECT_TRUE(pool.trim(kPage).ok());
  EXPECT_TRUE(pool.create(2).ok());
  EXPECT_EQ(pool.created_pages(), 3u);
}

TEST_F(PagePoolTest, TrimGivesBackOnlyWhatIsFree) {
  PagePool pool(driver, 0, kPage, 10 * kPage);
  ASSERT_TRUE(pool.take(6, &pages).ok());
  pool.give(pages.back());
  pages.pop_back();
  pool.give(pages.back());
  pages.pop_back();
  ASSERT_TRUE(pool.trim(5 * kPage).ok());
  EXPECT_EQ(pool.created_pages(), 5u);
  ASSERT_TRUE(pool.trim(0).ok());
  EXPECT_EQ(pool.created_pages(), 4u);
  EXPECT_EQ(pool.peak_created_bytes(), 6 * kPage);
  for (const PageHandle page : pages) pool.give(page);
}

TEST_F(PagePoolTest, TheLimitIsNotSetBelowWhatIsCreated) {
  PagePool pool(driver, 0, kPage, 10 * kPage);
  ASSERT_TRUE(pool.take(6, &pages).ok());
  EXPECT_FALSE(pool.set_limit(5 * kPage));
  EXPECT_EQ(pool.limit(), 10 * kPage);
  EXPECT_TRUE(pool.set_limit(6 * kPage));
  EXPECT_TRUE(pool.take(1, &pages).is_out_of_memory());
  for (const PageHandle page : pages) pool.give(page);
}

TEST_F(PagePoolTest, AFailedDestroyKeepsThePage) {
  PagePool pool(driver, 0, kPage, 10 * kPage);
  ASSERT_TRUE(pool.create(3).ok());
  fake.fail("cuMemRelease", 2, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(pool.trim(0).code(), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(pool.created_pages(), 2u);
  EXPECT_EQ(pool.free_pages(), 2u);
}

}  // namespace
}  // namespace thermocline
