// SPDX-License-Identifier: Apache-2.0
// Events: order between streams, queries, times.
#include "tests/simulated_cuda/device_fixture.h"

namespace {

class EventTest : public DeviceTest {
 protected:
  static CUevent make_event(unsigned flags = CU_EVENT_DEFAULT) {
    CUevent event = nullptr;
    EXPECT_OK(cuEventCreate(&event, flags));
    return event;
  }
};

TEST_F(EventTest, AnEventIsPendingUntilTheWorkBeforeItIsDone) {
  CUstream stream = make_stream();
  CUevent event = make_event();
  EXPECT_OK(cuEventQuery(event)) << "never recorded";
  busy(stream, 1000);
  EXPECT_OK(cuEventRecord(event, stream));
  busy(stream, 1000000);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuEventQuery(event));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY) << "what came behind the event";
}

TEST_F(EventTest, ElapsedTimeIsTheDevicesNotTheHosts) {
  CUstream stream = make_stream();
  CUevent begin = make_event(), end = make_event();
  EXPECT_OK(cuEventRecord(begin, stream));
  busy(stream, 2500);
  EXPECT_OK(cuEventRecord(end, stream));
  float ms = 0;
  EXPECT_EQ(cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_NOT_READY);
  EXPECT_OK(cuEventSynchronize(end));
  EXPECT_OK(cuEventElapsedTime(&ms, begin, end));
  EXPECT_GE(ms, 2.5f);
  EXPECT_LT(ms, 2.6f) << "the operator and one launch";
}

TEST_F(EventTest, AWaitingStreamComesBehindTheEvent) {
  CUstream first = make_stream(), second = make_stream();
  CUevent event = make_event(CU_EVENT_DISABLE_TIMING);
  CUdeviceptr at = allocate(4);
  busy(first, 10000);
  EXPECT_OK(cuMemsetD32Async(at, 5, 1, first));
  EXPECT_OK(cuEventRecord(event, first));
  EXPECT_OK(cuStreamWaitEvent(second, event, CU_EVENT_WAIT_DEFAULT));
  EXPECT_OK(cuMemsetD32Async(at, 6, 1, second));
  EXPECT_OK(cuStreamSynchronize(second));
  EXPECT_OK(cuStreamQuery(first)) << "its work lies before the second stream's";
  EXPECT_EQ(read<unsigned>(at, 1)[0], 6u);
}

TEST_F(EventTest, AWaitCountsForTheRecordOfItsMoment) {
  CUstream first = make_stream(), second = make_stream();
  CUevent event = make_event();
  EXPECT_OK(cuEventRecord(event, first));
  EXPECT_OK(cuStreamWaitEvent(second, event, 0));
  busy(first, 100000);
  EXPECT_OK(cuEventRecord(event, first));
  EXPECT_OK(cuStreamSynchronize(second));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
}

TEST_F(EventTest, EventsWithoutTimingHaveNoTimes) {
  CUevent begin = make_event(CU_EVENT_DISABLE_TIMING), end = make_event();
  EXPECT_OK(cuEventRecord(begin, nullptr));
  EXPECT_OK(cuEventRecord(end, nullptr));
  EXPECT_OK(cuCtxSynchronize());
  float ms = 0;
  EXPECT_EQ(cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(EventTest, WhatIsWrongIsRefused) {
  CUevent event = make_event();
  CUevent other = nullptr;
  float ms = 0;
  EXPECT_EQ(cuEventCreate(&other, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuEventCreate(&other, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE) << "needs timing off";
  EXPECT_EQ(cuEventElapsedTime(&ms, event, event), CUDA_ERROR_INVALID_HANDLE) << "never recorded";
  EXPECT_OK(cuEventDestroy(event));
  EXPECT_EQ(cuEventRecord(event, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
