// SPDX-License-Identifier: Apache-2.0
// After which calls a stream may be blocked until the host, or another API, does something. No driver is needed: what it
// answers does not matter.
#include "hooks/submit/stream_queues.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

template <class Call>
bool may_block_after(Call call) {
  abandon_queues();
  EXPECT_FALSE(any_stream_may_block());
  static_cast<void>(call());
  return any_stream_may_block();
}

void CUDA_CB nothing(void*) {}
void CUDA_CB nothing_at_all(CUstream, CUresult, void*) {}

TEST(StreamQueues, HostFunctionsMayBlockTheirStream) {
  EXPECT_TRUE(may_block_after([] { return cuLaunchHostFunc(nullptr, nothing, nullptr); }));
  EXPECT_TRUE(may_block_after([] { return cuLaunchHostFunc_ptsz(nullptr, nothing, nullptr); }));
  EXPECT_TRUE(may_block_after([] { return cuLaunchHostFunc_v2(nullptr, nothing, nullptr, 0); }));
  EXPECT_TRUE(may_block_after([] { return cuLaunchHostFunc_v2_ptsz(nullptr, nothing, nullptr, 0); }));
  EXPECT_TRUE(may_block_after([] { return cuStreamAddCallback(nullptr, nothing_at_all, nullptr, 0); }));
}

TEST(StreamQueues, SemaphoresOfAnotherApiMayBlockTheirStream) {
  EXPECT_TRUE(may_block_after([] { return cuWaitExternalSemaphoresAsync(nullptr, nullptr, 0, nullptr); }));
  EXPECT_TRUE(may_block_after([] { return cuWaitExternalSemaphoresAsync_ptsz(nullptr, nullptr, 0, nullptr); }));
}

TEST(StreamQueues, WorkAloneDoesNot) {
  EXPECT_FALSE(may_block_after([] { return cuMemsetD8Async(0, 0, 0, nullptr); }));
  abandon_queues();
}

}  // namespace
}  // namespace thermocline
