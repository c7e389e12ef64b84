// SPDX-License-Identifier: Apache-2.0
// The order of work in a stream and between streams: the legacy stream, per-thread default streams, non-blocking
// streams.
//
// A rule about order writes after several milliseconds of copying, so that reading too early returns the old value. A
// rule that something is still running checks it during the same copying, with calls that take microseconds.
#include <thread>

#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "streams";
#define STREAMS "Stream synchronization behavior"

constexpr std::uint32_t kWordCount = 1024;

// A zeroed buffer; also allocates everything else that the rule needs before anything runs.
CUdeviceptr prepare(Session& session) {
  const CUdeviceptr at = session.allocate(4 * kWordCount);
  const Driver& cu = session.driver();
  session.prepare_busy();
  session.function("conformance_add");
  OK(cu.cuMemsetD32(at, 0, kWordCount));
  session.synchronize();
  return at;
}

// Adds 1 in `first`, after long work, and copies in `second`: returns 1 if the order was kept, else 0.
std::uint32_t copy_behind(Session& session, CUstream first, CUstream second) {
  const CUdeviceptr at = prepare(session);
  const CUdeviceptr out = session.allocate(4 * kWordCount);
  const Driver& cu = session.driver();
  OK(cu.cuMemsetD32(out, 0, kWordCount));
  session.synchronize();
  session.keep_busy(first);
  session.add(at, kWordCount, 1, first);
  OK(cu.cuMemcpyDtoDAsync(out, at, 4 * kWordCount, second));
  session.synchronize();
  return session.read(out, kWordCount)[kWordCount - 1];
}

RULE(stream_runs_in_order, "Work in one stream runs in the order in which it was submitted", STREAMS) {
  const CUdeviceptr at = prepare(session);
  const CUstream in = session.stream();
  for (std::uint32_t i = 0; i < 8; ++i) {
    OK(cu.cuMemsetD32Async(at, 100 * i, kWordCount, in));
    session.add(at, kWordCount, i, in);
  }
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kWordCount, 707), "the last set and the last addition are what is left");
}

RULE(legacy_waits_for_blocking_streams,
     "Work in the legacy stream begins when what was submitted to blocking streams is done", STREAMS) {
  HOLDS(copy_behind(session, session.stream(CU_STREAM_DEFAULT), nullptr) == 1,
        "the legacy stream read what the other wrote");
}

RULE(blocking_streams_wait_for_legacy,
     "Work in a blocking stream begins when what was submitted to the legacy stream is done", STREAMS) {
  HOLDS(copy_behind(session, nullptr, session.stream(CU_STREAM_DEFAULT)) == 1,
        "the stream read what the legacy stream wrote");
}

RULE(legacy_handle_is_the_null_stream, "CU_STREAM_LEGACY and the null handle are the same stream",
     "Stream synchronization behavior; Stream Management: cuStreamGetId") {
  unsigned long long null_id = 0, legacy_id = 1;
  OK(cu.cuStreamGetId(nullptr, &null_id));
  OK(cu.cuStreamGetId(CU_STREAM_LEGACY, &legacy_id));
  HOLDS(null_id == legacy_id, "they have one number");
  HOLDS(copy_behind(session, CU_STREAM_LEGACY, nullptr) == 1, "and one order");
}

RULE(legacy_joins_blocking_streams, "Waiting for work in the legacy stream waits for the blocking streams before it",
     STREAMS) {
  const CUdeviceptr at = prepare(session);
  const CUstream other = session.stream(CU_STREAM_DEFAULT);
  session.keep_busy(other);
  session.add(at, kWordCount, 1, nullptr);
  OK(cu.cuStreamSynchronize(nullptr));
  OK(cu.cuStreamQuery(other));
}

RULE(per_thread_waits_for_legacy, "A thread's own default stream waits for the legacy stream, and the other way round",
     STREAMS) {
  HOLDS(copy_behind(session, nullptr, CU_STREAM_PER_THREAD) == 1, "the thread's stream waited");
  HOLDS(copy_behind(session, CU_STREAM_PER_THREAD, nullptr) == 1, "the legacy stream waited");
}

RULE(per_thread_streams_differ, "Each thread has a default stream of its own", "Stream Management: cuStreamGetId") {
  unsigned long long mine = 0, again = 0, other = 0;
  OK(cu.cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
  OK(cu.cuStreamGetId(CU_STREAM_PER_THREAD, &again));
  CUcontext context = nullptr;
  OK(cu.cuCtxGetCurrent(&context));
  CUresult set = CUDA_ERROR_UNKNOWN, found = CUDA_ERROR_UNKNOWN;
  std::thread thread([&] {
    set = cu.cuCtxSetCurrent(context);
    found = cu.cuStreamGetId(CU_STREAM_PER_THREAD, &other);
  });
  thread.join();
  OK(set);
  OK(found);
  HOLDS(mine == again, "one thread, one number");
  HOLDS(mine != other, "two threads, two numbers");
}

RULE(non_blocking_passes_legacy, "A non-blocking stream does not wait for the legacy stream",
     "Stream Management: cuStreamCreate", .needs_time = true) {
  const CUdeviceptr at = prepare(session);
  const CUstream in = session.stream(CU_STREAM_NON_BLOCKING);
  session.keep_busy(nullptr);
  session.add(at, kWordCount, 1, in);
  OK(cu.cuStreamSynchronize(in));
  const CUresult legacy = cu.cuStreamQuery(nullptr);
  ANSWERS(legacy, CUDA_ERROR_NOT_READY);
}

RULE(legacy_passes_non_blocking, "The legacy stream does not wait for a non-blocking stream",
     "Stream Management: cuStreamCreate", .needs_time = true) {
  const CUdeviceptr at = prepare(session);
  const CUstream other = session.stream(CU_STREAM_NON_BLOCKING);
  session.keep_busy(other);
  session.add(at, kWordCount, 1, nullptr);
  OK(cu.cuStreamSynchronize(nullptr));
  ANSWERS(cu.cuStreamQuery(other), CUDA_ERROR_NOT_READY);
}

RULE(streams_are_independent, "Waiting for one stream does not wait for another",
     "Stream Management: cuStreamSynchronize", .needs_time = true) {
  const CUdeviceptr at = prepare(session);
  const CUstream busy = session.stream(CU_STREAM_DEFAULT), other = session.stream(CU_STREAM_DEFAULT);
  session.keep_busy(busy);
  session.add(at, kWordCount, 1, other);
  OK(cu.cuStreamSynchronize(other));
  ANSWERS(cu.cuStreamQuery(busy), CUDA_ERROR_NOT_READY);
}

RULE(stream_query_tells_the_state,
     "A query of a stream with unfinished work returns not ready, and success when the work is done",
     "Stream Management: cuStreamQuery", .needs_time = true) {
  const CUstream in = session.stream();
  session.prepare_busy();
  OK(cu.cuStreamQuery(in));
  session.keep_busy(in);
  ANSWERS(cu.cuStreamQuery(in), CUDA_ERROR_NOT_READY);
  OK(cu.cuStreamSynchronize(in));
  OK(cu.cuStreamQuery(in));
}

RULE(context_waits_for_every_stream, "Synchronizing the context waits for all of its streams, of every kind",
     "Context Management: cuCtxSynchronize") {
  const CUdeviceptr at = prepare(session);
  const CUstream streams[] = {session.stream(CU_STREAM_DEFAULT), session.stream(CU_STREAM_NON_BLOCKING),
                              CU_STREAM_PER_THREAD};
  session.keep_busy(streams[0]);
  for (CUdeviceptr word = 0; word < 3; ++word) session.add(at + 4 * word, 1, 1, streams[word]);
  session.synchronize();
  for (const CUstream in : streams) OK(cu.cuStreamQuery(in));
  HOLDS(session.holds(at, 3, 1), "all three have run");
}

RULE(destroyed_stream_finishes_its_work, "Work in a stream that is destroyed is still done",
     "Stream Management: cuStreamDestroy") {
  const CUdeviceptr at = prepare(session);
  const CUstream in = session.stream();
  session.keep_busy(in);
  session.add(at, kWordCount, 3, in);
  OK(cu.cuStreamDestroy(in));
  session.synchronize();
  HOLDS(session.holds(at, kWordCount, 3), "the last operation has run");
}

RULE(stream_flags_come_back, "A stream returns the flags that it was created with",
     "Stream Management: cuStreamGetFlags") {
  unsigned flags = ~0u;
  OK(cu.cuStreamGetFlags(session.stream(CU_STREAM_DEFAULT), &flags));
  HOLDS(flags == CU_STREAM_DEFAULT, "the default");
  OK(cu.cuStreamGetFlags(session.stream(CU_STREAM_NON_BLOCKING), &flags));
  HOLDS(flags == CU_STREAM_NON_BLOCKING, "non-blocking");
}

RULE(stream_flags_are_checked, "Unknown flags are refused", "Stream Management: cuStreamCreate") {
  CUstream in = nullptr;
  ANSWERS(cu.cuStreamCreate(&in, 0x4000), CUDA_ERROR_INVALID_VALUE);
}

RULE(priorities_have_a_range, "The greatest priority is the smallest number of the range, and 0 lies in it",
     "Context Management: cuCtxGetStreamPriorityRange") {
  int least = 0, greatest = 0;
  OK(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
  HOLDS(greatest <= 0 && 0 <= least, "greatest <= 0 <= least");
  OK(cu.cuCtxGetStreamPriorityRange(nullptr, nullptr));
}

RULE(priorities_are_clamped, "A priority beyond the range becomes the nearest in it",
     "Stream Management: cuStreamCreateWithPriority") {
  int least = 0, greatest = 0, found = 1;
  OK(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
  CUstream in = nullptr;
  OK(cu.cuStreamCreateWithPriority(&in, CU_STREAM_NON_BLOCKING, greatest - 100));
  OK(cu.cuStreamGetPriority(in, &found));
  HOLDS(found == greatest, "the greatest");
  OK(cu.cuStreamCreateWithPriority(&in, CU_STREAM_NON_BLOCKING, least + 100));
  OK(cu.cuStreamGetPriority(in, &found));
  HOLDS(found == least, "the least");
}

RULE(priority_is_zero_by_default, "A stream created without a priority has priority 0",
     "Stream Management: cuStreamCreateWithPriority") {
  int found = 1;
  OK(cu.cuStreamGetPriority(session.stream(), &found));
  HOLDS(found == 0, "0");
}

RULE(stream_numbers_are_unique, "No two streams have the same number, even after one is destroyed",
     "Stream Management: cuStreamGetId") {
  unsigned long long first = 0, second = 0, third = 0;
  const CUstream a = session.stream();
  OK(cu.cuStreamGetId(a, &first));
  OK(cu.cuStreamGetId(session.stream(), &second));
  OK(cu.cuStreamDestroy(a));
  OK(cu.cuStreamGetId(session.stream(), &third));
  HOLDS(first != second && second != third && first != third, "three streams, three numbers");
}

RULE(stream_knows_its_context, "A stream, also the null stream, returns the context that it belongs to",
     "Stream Management: cuStreamGetCtx") {
  CUcontext current = nullptr, found = nullptr;
  OK(cu.cuCtxGetCurrent(&current));
  OK(cu.cuStreamGetCtx(session.stream(), &found));
  HOLDS(found == current, "the one it was created in");
  OK(cu.cuStreamGetCtx(nullptr, &found));
  HOLDS(found == current, "the current one");
}

// Host functions.

struct Seen {
  const Driver* cu;
  const volatile std::uint32_t* word;
  std::uint32_t value;
  CUresult result;
};

RULE(host_function_runs_behind_the_stream, "A host function runs when all work before it in the stream is done",
     "Execution Control: cuLaunchHostFunc") {
  const CUdeviceptr at = prepare(session);
  auto* const word = static_cast<std::uint32_t*>(session.pinned(4));
  *word = 0;
  Seen seen{&cu, word, 0, CUDA_SUCCESS};
  const CUstream in = session.stream();
  session.keep_busy(in);
  session.add(at, kWordCount, 9, in);
  OK(cu.cuMemcpyDtoHAsync(word, at, 4, in));
  OK(cu.cuLaunchHostFunc(
      in,
      [](void* data) {
        auto* const to = static_cast<Seen*>(data);
        to->value = *to->word;
      },
      &seen));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(seen.value == 9, "it saw what the copy before it brought");
}

RULE(host_function_holds_the_stream, "Work after a host function begins when the function has returned",
     "Execution Control: cuLaunchHostFunc") {
  const CUdeviceptr at = prepare(session);
  auto* const word = static_cast<std::uint32_t*>(session.pinned(4));
  *word = 1;
  const CUstream in = session.stream();
  session.keep_busy(in);
  OK(cu.cuLaunchHostFunc(
      in, [](void* data) { *static_cast<std::uint32_t*>(data) = 2; }, word));
  OK(cu.cuMemcpyHtoDAsync(at, word, 4, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, 1, 2), "the copy took what the function wrote");
}

RULE(host_function_calls_no_driver,
     "A driver call inside a host function is refused as not permitted, or works; it does not break the context",
     "Execution Control: cuLaunchHostFunc", .open = "which: the page only forbids such calls") {
  Seen seen{&cu, nullptr, 0, CUDA_ERROR_UNKNOWN};
  const CUstream in = session.stream();
  OK(cu.cuLaunchHostFunc(
      in,
      [](void* data) {
        auto* const to = static_cast<Seen*>(data);
        CUevent event = nullptr;
        to->result = to->cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
      },
      &seen));
  OK(cu.cuStreamSynchronize(in));
  ANSWERS(seen.result, CUDA_ERROR_NOT_PERMITTED, CUDA_SUCCESS);
  session.allocate(4096);
}

RULE(host_function_is_given, "A null host function is refused", "Execution Control: cuLaunchHostFunc") {
  ANSWERS(cu.cuLaunchHostFunc(session.stream(), nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace conformance
