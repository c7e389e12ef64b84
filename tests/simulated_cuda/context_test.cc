// SPDX-License-Identifier: Apache-2.0
// Contexts, their stack, and what is refused without one.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/simulated_cuda/device_fixture.h"

namespace {

class ContextTest : public DeviceTest {};

TEST_F(ContextTest, CallsBeforeInitSayThatTheDriverIsNotInitialized) {
  control().reset();
  int count = 0;
  CUdeviceptr at = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(cuMemAlloc(&at, 4), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ContextTest, CallsWithoutAContextSayThatTheContextIsInvalid) {
  ASSERT_OK(cuCtxSetCurrent(nullptr));
  CUdeviceptr at = 0;
  EXPECT_EQ(cuMemAlloc(&at, 4), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextTest, EveryThreadHasAStackOfItsOwn) {
  std::thread([] {
    CUcontext current = nullptr;
    EXPECT_OK(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
  }).join();
}

TEST_F(ContextTest, TheNewestContextIsCurrentAndPopBringsBackTheOneBelow) {
  CUcontext made = nullptr, current = nullptr, popped = nullptr;
  ASSERT_OK(cuCtxCreate(&made, nullptr, 0, 0));
  EXPECT_OK(cuCtxGetCurrent(&current));
  EXPECT_EQ(current, made);
  EXPECT_OK(cuCtxPopCurrent(&popped));
  EXPECT_EQ(popped, made);
  EXPECT_OK(cuCtxGetCurrent(&current));
  EXPECT_EQ(current, context_);
  EXPECT_OK(cuCtxPushCurrent(made));
  EXPECT_OK(cuCtxDestroy(made));
  EXPECT_OK(cuCtxGetCurrent(&current));
  EXPECT_EQ(current, context_);
  EXPECT_EQ(cuCtxPushCurrent(made), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextTest, DestroyingAContextGivesItsMemoryBack) {
  std::size_t before = 0, after = 0, total = 0;
  CUcontext made = nullptr;
  EXPECT_OK(cuMemGetInfo(&before, &total));
  ASSERT_OK(cuCtxCreate(&made, nullptr, 0, 0));
  allocate(10 * kPage);
  EXPECT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(after, before - 10 * kPage);
  EXPECT_OK(cuCtxDestroy(made));
  EXPECT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(after, before);
}

TEST_F(ContextTest, DestroyingAContextEndsItsStreamsAndEvents) {
  CUcontext made = nullptr;
  CUstream theirs = nullptr, ours = nullptr;
  CUevent event = nullptr;
  ASSERT_OK(cuStreamCreate(&ours, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuCtxCreate(&made, nullptr, 0, 0));
  ASSERT_OK(cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuEventCreate(&event, 0));
  EXPECT_OK(cuCtxDestroy(made));
  EXPECT_EQ(cuStreamQuery(theirs), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_OK(cuStreamQuery(ours));
  EXPECT_OK(cuStreamDestroy(ours));
}

TEST_F(ContextTest, ThePrimaryContextIsCountedAndKeepsItsHandle) {
  CUcontext again = nullptr;
  unsigned flags = 1;
  int active = 0;
  EXPECT_OK(cuDevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(again, context_);
  EXPECT_OK(cuDevicePrimaryCtxRelease(0));
  EXPECT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 1);
  EXPECT_EQ(flags, 0u);
  EXPECT_OK(cuDevicePrimaryCtxRelease(0));
  EXPECT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 0);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_OK(cuDevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(again, context_);
  EXPECT_OK(cuCtxSynchronize());
}

TEST_F(ContextTest, AGreenContextRetainsThePrimaryOneAndTakesItsStreamsAlong) {
  CUdevResource resource{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr, of_stream = nullptr;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  int active = 0;
  ASSERT_OK(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT_GT(resource.sm.smCount, 0u);
  ASSERT_OK(cuDevResourceGenerateDesc(&description, &resource, 1));
  ASSERT_OK(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  ASSERT_OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  EXPECT_OK(cuStreamGetCtx_v2(stream, &context, &of_stream));
  EXPECT_EQ(context, context_);
  EXPECT_EQ(of_stream, green);
  // The green context becomes current; its memory and everything else belongs to the primary one.
  ASSERT_OK(cuCtxFromGreenCtx(&context, green));
  EXPECT_NE(context, context_);
  EXPECT_EQ(cuCtxDestroy(context), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_OK(cuCtxPushCurrent(context));
  const CUdeviceptr at = allocate(kPage);
  EXPECT_OK(cuCtxPopCurrent(&context));
  EXPECT_OK(cuDevicePrimaryCtxRelease(0));
  EXPECT_OK(cuMemsetD8Async(at, 1, kPage, stream));
  EXPECT_OK(cuGreenCtxDestroy(green));
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_OK(cuDevicePrimaryCtxGetState(0, nullptr, &active));
  EXPECT_EQ(active, 0);
  EXPECT_OK(cuDevicePrimaryCtxRetain(&context, 0));
}

TEST_F(ContextTest, LimitsAndFlagsAreRemembered) {
  std::size_t value = 0;
  EXPECT_OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  EXPECT_EQ(value, 1024u);
  EXPECT_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  EXPECT_OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  EXPECT_EQ(value, 4096u);
  EXPECT_EQ(cuCtxGetLimit(&value, CU_LIMIT_MAX), CUDA_ERROR_UNSUPPORTED_LIMIT);
  unsigned flags = 0;
  EXPECT_OK(cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC));
  EXPECT_OK(cuCtxGetFlags(&flags));
  EXPECT_EQ(flags, unsigned{CU_CTX_SCHED_BLOCKING_SYNC});
}

TEST_F(ContextTest, AForkedChildHasNoDriver) {
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    CUdeviceptr at = 0;
    const bool refused =
        cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED && cuMemAlloc(&at, 4) == CUDA_ERROR_NOT_INITIALIZED;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(ContextTest, AGarbageHandleIsRefused) {
  int not_a_context = 0;
  EXPECT_EQ(cuCtxSetCurrent(reinterpret_cast<CUcontext>(&not_a_context)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxDestroy(reinterpret_cast<CUcontext>(&not_a_context)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxDestroy(context_), CUDA_ERROR_INVALID_CONTEXT);  // the primary context is released, not destroyed
}

}  // namespace
