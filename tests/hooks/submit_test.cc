// SPDX-License-Identifier: Apache-2.0
// Parts of the path to the driver that can be tested without a driver.
#include "hooks/submit/submit.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace thermocline {
namespace {

TEST(Guarded, BrokenInvariantBecomesAnError) {
  EXPECT_EQ(guarded([]() -> CUresult { throw BrokenInvariant(); }), CUDA_ERROR_UNKNOWN);
}

TEST(Guarded, ExhaustedHostMemoryIsOutOfMemory) {
  EXPECT_EQ(guarded([]() -> CUresult { throw std::bad_alloc(); }), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(Guarded, ExceptionsOfTheProgramGoTheirWay) {
  EXPECT_THROW(guarded([]() -> CUresult { throw std::runtime_error("the program's own"); }), std::runtime_error);
}

TEST(Inside, CountsAndEndsWithItsScope) {
  EXPECT_FALSE(Inside::now());
  {
    const Inside outer;
    const Inside inner;
    EXPECT_TRUE(Inside::now());
  }
  EXPECT_FALSE(Inside::now());
}

TEST(Inside, EndsWhenAnExceptionLeavesIt) {
  try {
    const Inside inside;
    throw BrokenInvariant();
  } catch (const BrokenInvariant&) {
  }
  EXPECT_FALSE(Inside::now());
}

TEST(Streams, LegacyHandlesAreOneAndPerThreadOnesAnother) {
  auto* const own = reinterpret_cast<CUstream>(0x1000);
  EXPECT_EQ(legacy(nullptr), legacy(CU_STREAM_LEGACY));
  EXPECT_EQ(per_thread(nullptr), legacy(CU_STREAM_PER_THREAD));
  EXPECT_EQ(per_thread(CU_STREAM_LEGACY), legacy(nullptr));
  EXPECT_NE(per_thread(nullptr), legacy(nullptr));
  EXPECT_EQ(per_thread(own), legacy(own));
}

TEST(Submit, WithoutAnEngineItIsTheCall) {
  int calls = 0;
  const auto call = [&] {
    ++calls;
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  };
  AccessList accesses;
  accesses.word(0x1234);
  EXPECT_EQ(submit(StreamHandle{}, Host::kGoesOn, AccessList(accesses), {}, call), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(submit_unknown(StreamHandle{}, call), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(keep(accesses, "a test", call), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace thermocline
