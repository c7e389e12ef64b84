// SPDX-License-Identifier: Apache-2.0
#include "driver/table.h"

#include <functional>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "driver/driver.h"
#include "driver/locks.h"
#include "driver/owned.h"

namespace thermocline {
namespace {

std::set<std::string> asked;
std::string missing;

void function() {}

void* find(const char* name) {
  asked.insert(name);
  return name == missing ? nullptr : reinterpret_cast<void*>(&function);
}

class TableTest : public testing::Test {
 protected:
  void SetUp() override {
    asked.clear();
    missing.clear();
  }
};

TEST_F(TableTest, AsksForExactVersions) {
  DriverTable table;
  ASSERT_TRUE(load_table(find, &table).ok());
  EXPECT_TRUE(asked.contains("cuMemcpyDtoHAsync_v2"));
  EXPECT_TRUE(asked.contains("cuStreamDestroy_v2"));
  EXPECT_TRUE(asked.contains("cuMemGetInfo_v2"));
  EXPECT_TRUE(asked.contains("cuMemCreate"));
  EXPECT_FALSE(asked.contains("cuMemGetInfo"));
  EXPECT_NE(table.cuMemGetInfo, nullptr);
}

TEST_F(TableTest, AMissingRequiredFunctionIsAnErrorAndChangesNothing) {
  missing = "cuEventRecord";
  DriverTable table;
  EXPECT_EQ(load_table(find, &table), Status::not_found());
  EXPECT_EQ(table.cuStreamCreate, nullptr);
}

TEST_F(TableTest, AMissingOptionalFunctionAnswersNotSupported) {
  missing = "cuMemCreate";
  DriverTable table;
  ASSERT_TRUE(load_table(find, &table).ok());
  PageHandle page{};
  EXPECT_EQ(Driver(table).create_page(2 * kMiB, 0, &page), Status::not_supported());
}

// With a lock held, and nobody having asked, each of them ends the process before the driver is called.
TEST_F(TableTest, CallsThatMayWaitAreCheckedForLocks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  DriverTable table;
  ASSERT_TRUE(load_table(find, &table).ok());
  const Driver driver(table);
  const DeviceAddress at{2 * kMiB};
  const std::pair<const char*, std::function<Status()>> calls[] = {
      {"cuStreamSynchronize", [&] { return driver.synchronize_stream(StreamHandle{}); }},
      {"cuCtxSynchronize", [&] { return driver.synchronize_context(); }},
      {"cuEventSynchronize", [&] { return driver.synchronize(EventHandle{}); }},
      {"cuMemFreeHost", [&] { return driver.free_host(nullptr); }},
      {"cuModuleLoadData",
       [&] {
         ModuleHandle module{};
         return driver.load_module("", &module);
       }},
      {"cuModuleUnload", [&] { return driver.unload_module(ModuleHandle{}); }},
      {"cuMemMap", [&] { return driver.map(at, 2 * kMiB, PageHandle{}); }},
      {"cuMemUnmap", [&] { return driver.unmap(at, 2 * kMiB); }},
      {"cuMemSetAccess", [&] { return driver.set_access(at, 2 * kMiB, 0); }},
      {"cuMemSetAccess", [&] { return driver.set_shared_access(at, 2 * kMiB, 0, 0); }},
      {"cuMemSetAccess", [&] { return driver.revoke_access(at, 2 * kMiB, 0); }}};
  for (const auto& [name, call] : calls) {
    const auto call_with_a_lock = [&call = call] {
      locks_are_checked.store(true);
      mapping_waits_for_streams.store(true);
      Mutex mutex("of the test", 1);
      const MutexLock lock(mutex);
      static_cast<void>(call());
    };
    EXPECT_DEATH(call_with_a_lock(), std::string(name) + ".*while a lock is held: of the test");
  }
}

TEST_F(TableTest, AnOlderDriverMeasuresTimeToo) {
  missing = "cuEventElapsedTime_v2";
  DriverTable table;
  ASSERT_TRUE(load_table(find, &table).ok());
  EXPECT_TRUE(asked.contains("cuEventElapsedTime"));
  EXPECT_NE(table.cuEventElapsedTime, nullptr);
}

TEST(OpenDriver, ALibraryThatIsNotThereIsAnErrorWithASentence) {
  DriverTable table;
  std::string why;
  EXPECT_EQ(open_driver("/nowhere/libcuda.so.1", &table, &why), Status::not_found());
  EXPECT_NE(why.find("/nowhere/libcuda.so.1"), std::string::npos) << why;
}

TEST(OpenDriver, ALibraryThatIsNoDriverIsAnErrorThatNamesTheFunction) {
  DriverTable table;
  std::string why;
  EXPECT_EQ(open_driver("libm.so.6", &table, &why), Status::not_found());
  EXPECT_NE(why.find("libm.so.6"), std::string::npos) << why;
  EXPECT_NE(why.find("cuCtxGetCurrent"), std::string::npos) << why;
}

TEST(Driver, AnEmptyTableNeverCrashes) {
  const DriverTable table;
  const Driver driver(table);
  DeviceFacts facts;
  StreamHandle stream{};
  DeviceAddress address;
  EXPECT_EQ(driver.facts(&facts), Status::not_supported());
  EXPECT_EQ(driver.create_stream(&stream), Status::not_supported());
  EXPECT_EQ(driver.reserve(2 * kMiB, 0, &address), Status::not_supported());
  EXPECT_FALSE(driver.is_capturing(stream));
  const RelaxedCapture relaxed(driver);
}

TEST(Driver, TheLegacyStreamCountsAsCapturingWhileItWouldBeDrawnIn) {
  DriverTable table;
  table.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus*) { return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT; };
  EXPECT_TRUE(Driver(table).is_capturing(StreamHandle{0}));
}

int destroyed = 0;

TEST(Owner, GivesItsObjectBackOnce) {
  destroyed = 0;
  DriverTable table;
  table.cuEventDestroy = [](CUevent) {
    ++destroyed;
    return CUDA_SUCCESS;
  };
  const Driver driver(table);
  {
    EventOwner first(driver, EventHandle{1});
    EventOwner second(std::move(first));
    EventOwner third;
    third = std::move(second);
    EXPECT_EQ(third.get(), EventHandle{1});
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 1);
}

CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

TEST(RelaxedCapture, PutsTheModeBack) {
  thread_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  DriverTable table;
  table.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
    std::swap(*mode, thread_mode);
    return CUDA_SUCCESS;
  };
  const Driver driver(table);
  {
    const RelaxedCapture relaxed(driver);
    EXPECT_EQ(thread_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  EXPECT_EQ(thread_mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

// A missing one would be taken for a broken invariant of the library, and end the program.
TEST(Status, KnowsWhatLosesTheContext) {
  for (const CUresult losing :
       {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_ASSERT, CUDA_ERROR_HARDWARE_STACK_ERROR,
        CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_INVALID_ADDRESS_SPACE,
        CUDA_ERROR_INVALID_PC, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_MPS_CLIENT_TERMINATED,
        CUDA_ERROR_EXTERNAL_DEVICE}) {
    EXPECT_TRUE(Status(losing).loses_the_context()) << losing;
  }
  for (const CUresult other : {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_READY,
                               CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                               CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_MPS_CONNECTION_FAILED}) {
    EXPECT_FALSE(Status(other).loses_the_context()) << other;
  }
}

}  // namespace
}  // namespace thermocline
