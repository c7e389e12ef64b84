// SPDX-License-Identifier: Apache-2.0
// The work that an event captures, its waiters, and the results of queries. The library orders work by events alone.
#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "events";
constexpr std::uint32_t kWordCount = 1024;

CUdeviceptr prepare(Session& session) {
  const CUdeviceptr at = session.allocate(4 * kWordCount);
  const Driver& cu = session.driver();
  session.prepare_busy();
  session.function("conformance_add");
  OK(cu.cuMemsetD32(at, 0, kWordCount));
  session.synchronize();
  return at;
}

RULE(event_never_recorded_is_complete,
     "An event that was never recorded contains no work: query and wait succeed at once",
     "Event Management: cuEventRecord") {
  const CUevent event = session.event();
  OK(cu.cuEventQuery(event));
  OK(cu.cuEventSynchronize(event));
}

RULE(wait_for_never_recorded_is_nothing, "A stream that waits for an event never recorded continues at once",
     "Event Management: cuEventRecord; Stream Management: cuStreamWaitEvent") {
  const CUdeviceptr at = prepare(session);
  const CUstream in = session.stream();
  OK(cu.cuStreamWaitEvent(in, session.event(), 0));
  session.add(at, kWordCount, 1, in);
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kWordCount, 1), "the work behind the wait has run");
}

RULE(record_after_the_wait_does_not_hold_it,
     "A wait uses the event as it is when the wait is submitted; a later recording does not delay it",
     "Event Management: cuEventRecord", .needs_time = true) {
  const CUdeviceptr at = prepare(session);
  const CUstream busy = session.stream(), in = session.stream();
  const CUevent event = session.event();
  OK(cu.cuStreamWaitEvent(in, event, 0));
  session.keep_busy(busy);
  OK(cu.cuEventRecord(event, busy));
  session.add(at, kWordCount, 1, in);
  OK(cu.cuStreamSynchronize(in));
  ANSWERS(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
}

RULE(event_is_not_ready_behind_work, "An event after unfinished work is not ready, and complete when the work is",
     "Event Management: cuEventQuery", .needs_time = true) {
  prepare(session);
  const CUstream in = session.stream();
  const CUevent event = session.event();
  session.keep_busy(in);
  OK(cu.cuEventRecord(event, in));
  ANSWERS(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
  OK(cu.cuEventSynchronize(event));
  OK(cu.cuEventQuery(event));
}

RULE(event_does_not_hold_later_work, "An event covers the work before it in its stream, and none of what follows",
     "Event Management: cuEventRecord", .needs_time = true) {
  const CUdeviceptr at = prepare(session);
  const CUstream in = session.stream();
  const CUevent event = session.event();
  session.add(at, kWordCount, 1, in);
  OK(cu.cuEventRecord(event, in));
  session.keep_busy(in);
  OK(cu.cuEventSynchronize(event));
  ANSWERS(cu.cuStreamQuery(in), CUDA_ERROR_NOT_READY);
}

RULE(event_orders_streams, "Work that waits for an event runs after all work that was before the event in its stream",
     "Stream Management: cuStreamWaitEvent") {
  const CUdeviceptr at = prepare(session), out = session.allocate(4 * kWordCount);
  const CUstream writer = session.stream(), reader = session.stream();
  const CUevent written = session.event();
  session.keep_busy(writer);
  session.add(at, kWordCount, 5, writer);
  OK(cu.cuEventRecord(written, writer));
  OK(cu.cuStreamWaitEvent(reader, written, 0));
  OK(cu.cuMemcpyDtoDAsync(out, at, 4 * kWordCount, reader));
  OK(cu.cuStreamSynchronize(reader));
  HOLDS(session.holds(out, kWordCount, 5), "the reader has what the writer wrote");
}

RULE(event_order_is_transitive, "Order by events is transitive across a stream in between",
     "Stream Management: cuStreamWaitEvent") {
  const CUdeviceptr at = prepare(session), out = session.allocate(4 * kWordCount);
  const CUstream first = session.stream(), between = session.stream(), last = session.stream();
  const CUevent one = session.event(), two = session.event();
  session.keep_busy(first);
  session.add(at, kWordCount, 6, first);
  OK(cu.cuEventRecord(one, first));
  OK(cu.cuStreamWaitEvent(between, one, 0));
  OK(cu.cuEventRecord(two, between));
  OK(cu.cuStreamWaitEvent(last, two, 0));
  OK(cu.cuMemcpyDtoDAsync(out, at, 4 * kWordCount, last));
  OK(cu.cuStreamSynchronize(last));
  HOLDS(session.holds(out, kWordCount, 6), "the last stream has what the first wrote");
}

RULE(wait_takes_the_newest_record, "A wait submitted after a second recording waits for the second",
     "Event Management: cuEventRecord") {
  const CUdeviceptr at = prepare(session), out = session.allocate(4 * kWordCount);
  const CUstream writer = session.stream(), reader = session.stream();
  const CUevent event = session.event();
  OK(cu.cuEventRecord(event, writer));
  session.keep_busy(writer);
  session.add(at, kWordCount, 7, writer);
  OK(cu.cuEventRecord(event, writer));
  OK(cu.cuStreamWaitEvent(reader, event, 0));
  OK(cu.cuMemcpyDtoDAsync(out, at, 4 * kWordCount, reader));
  OK(cu.cuStreamSynchronize(reader));
  HOLDS(session.holds(out, kWordCount, 7), "the work between the recordings is covered");
}

RULE(re_recording_keeps_earlier_waits,
     "Recording an event again elsewhere does not remove a wait that was submitted before",
     "Event Management: cuEventRecord") {
  const CUdeviceptr at = prepare(session), out = session.allocate(4 * kWordCount);
  const CUstream writer = session.stream(), reader = session.stream(), idle = session.stream();
  const CUevent event = session.event();
  session.keep_busy(writer);
  session.add(at, kWordCount, 8, writer);
  OK(cu.cuEventRecord(event, writer));
  OK(cu.cuStreamWaitEvent(reader, event, 0));
  OK(cu.cuEventRecord(event, idle));
  OK(cu.cuMemcpyDtoDAsync(out, at, 4 * kWordCount, reader));
  OK(cu.cuStreamSynchronize(reader));
  HOLDS(session.holds(out, kWordCount, 8), "the reader waited for the writer");
}

RULE(destroyed_event_keeps_waits, "An event may be destroyed before it is complete; submitted waits for it remain",
     "Event Management: cuEventDestroy") {
  const CUdeviceptr at = prepare(session), out = session.allocate(4 * kWordCount);
  const CUstream writer = session.stream(), reader = session.stream();
  const CUevent event = session.event();
  session.keep_busy(writer);
  session.add(at, kWordCount, 9, writer);
  OK(cu.cuEventRecord(event, writer));
  OK(cu.cuStreamWaitEvent(reader, event, 0));
  OK(cu.cuEventDestroy(event));
  OK(cu.cuMemcpyDtoDAsync(out, at, 4 * kWordCount, reader));
  OK(cu.cuStreamSynchronize(reader));
  HOLDS(session.holds(out, kWordCount, 9), "the order held without the event");
}

RULE(event_destroy_does_not_wait, "Destroying an event that is not complete does not block",
     "Event Management: cuEventDestroy", .needs_time = true) {
  prepare(session);
  const CUstream in = session.stream();
  const CUevent event = session.event();
  session.keep_busy(in);
  OK(cu.cuEventRecord(event, in));
  OK(cu.cuEventDestroy(event));
  ANSWERS(cu.cuStreamQuery(in), CUDA_ERROR_NOT_READY);
}

RULE(event_in_legacy_covers_blocking_streams,
     "An event recorded in the legacy stream comes after the earlier work of blocking streams",
     "Stream synchronization behavior; Event Management: cuEventRecord") {
  const CUdeviceptr at = prepare(session), out = session.allocate(4 * kWordCount);
  const CUstream writer = session.stream(CU_STREAM_DEFAULT), reader = session.stream(CU_STREAM_NON_BLOCKING);
  const CUevent event = session.event();
  session.keep_busy(writer);
  session.add(at, kWordCount, 4, writer);
  OK(cu.cuEventRecord(event, nullptr));
  OK(cu.cuStreamWaitEvent(reader, event, 0));
  OK(cu.cuMemcpyDtoDAsync(out, at, 4 * kWordCount, reader));
  OK(cu.cuStreamSynchronize(reader));
  HOLDS(session.holds(out, kWordCount, 4), "the reader has what the blocking stream wrote");
}

RULE(elapsed_time_of_work, "The time between two events around work is more than zero",
     "Event Management: cuEventElapsedTime", .needs_time = true) {
  prepare(session);
  const CUstream in = session.stream();
  const CUevent begin = session.event(CU_EVENT_DEFAULT), end = session.event(CU_EVENT_DEFAULT);
  OK(cu.cuEventRecord(begin, in));
  session.keep_busy(in);
  OK(cu.cuEventRecord(end, in));
  OK(cu.cuEventSynchronize(end));
  float milliseconds = -1;
  OK(cu.cuEventElapsedTime(&milliseconds, begin, end));
  HOLDS(milliseconds > 0, "above 0");
}

RULE(elapsed_time_needs_recordings, "There is no elapsed time if one of the events was never recorded",
     "Event Management: cuEventElapsedTime") {
  const CUevent never = session.event(CU_EVENT_DEFAULT), done = session.event(CU_EVENT_DEFAULT);
  OK(cu.cuEventRecord(done, nullptr));
  OK(cu.cuEventSynchronize(done));
  float milliseconds = 0;
  ANSWERS(cu.cuEventElapsedTime(&milliseconds, never, done), CUDA_ERROR_INVALID_HANDLE);
  ANSWERS(cu.cuEventElapsedTime(&milliseconds, done, never), CUDA_ERROR_INVALID_HANDLE);
}

RULE(elapsed_time_needs_timing, "There is no elapsed time if one of the events was created without timing",
     "Event Management: cuEventElapsedTime") {
  const CUevent timed = session.event(CU_EVENT_DEFAULT), untimed = session.event(CU_EVENT_DISABLE_TIMING);
  OK(cu.cuEventRecord(timed, nullptr));
  OK(cu.cuEventRecord(untimed, nullptr));
  session.synchronize();
  float milliseconds = 0;
  ANSWERS(cu.cuEventElapsedTime(&milliseconds, timed, untimed), CUDA_ERROR_INVALID_HANDLE);
}

RULE(elapsed_time_needs_completion, "There is no elapsed time before both events are complete",
     "Event Management: cuEventElapsedTime", .needs_time = true) {
  prepare(session);
  const CUstream in = session.stream();
  const CUevent begin = session.event(CU_EVENT_DEFAULT), end = session.event(CU_EVENT_DEFAULT);
  OK(cu.cuEventRecord(begin, in));
  session.keep_busy(in);
  OK(cu.cuEventRecord(end, in));
  float milliseconds = 0;
  ANSWERS(cu.cuEventElapsedTime(&milliseconds, begin, end), CUDA_ERROR_NOT_READY);
}

RULE(interprocess_event_is_untimed, "An event for other processes is created without timing, or refused",
     "Event Management: cuEventCreate") {
  CUevent event = nullptr;
  ANSWERS(cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
}

RULE(event_flags_are_checked, "Unknown flags are refused", "Event Management: cuEventCreate") {
  CUevent event = nullptr;
  ANSWERS(cu.cuEventCreate(&event, 0x4000), CUDA_ERROR_INVALID_VALUE);
}

RULE(record_external_is_for_capture, "Recording as an external event is invalid outside of stream capture",
     "Event Management: cuEventRecordWithFlags", .open = "which error") {
  FAILS(cu.cuEventRecordWithFlags(session.event(), session.stream(), CU_EVENT_RECORD_EXTERNAL));
}

RULE(wait_external_is_for_capture, "Waiting for an external event is invalid outside of stream capture",
     "Stream Management: cuStreamWaitEvent", .open = "which error") {
  const CUevent event = session.event();
  OK(cu.cuEventRecord(event, nullptr));
  FAILS(cu.cuStreamWaitEvent(session.stream(), event, CU_EVENT_WAIT_EXTERNAL));
}

RULE(wait_needs_an_event, "A wait for no event is refused", "Stream Management: cuStreamWaitEvent",
     .open = "whether the handle or the value is called invalid") {
  ANSWERS(cu.cuStreamWaitEvent(session.stream(), nullptr, 0), CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE);
}

RULE(record_stays_in_its_context, "An event is recorded only in a stream of its own context",
     "Event Management: cuEventRecord") {
  const CUevent event = session.event();
  CUcontext other = nullptr;
  OK(cu.cuCtxCreate(&other, nullptr, 0, 0));
  const CUstream elsewhere = session.stream();
  ANSWERS(cu.cuEventRecord(event, elsewhere), CUDA_ERROR_INVALID_HANDLE);
}

RULE(wait_crosses_contexts, "A stream may wait for an event of another context",
     "Stream Management: cuStreamWaitEvent") {
  const CUdeviceptr at = prepare(session);
  const CUstream writer = session.stream();
  const CUevent event = session.event();
  session.keep_busy(writer);
  session.add(at, kWordCount, 2, writer);
  OK(cu.cuEventRecord(event, writer));
  CUcontext first = nullptr, second = nullptr;
  OK(cu.cuCtxGetCurrent(&first));
  OK(cu.cuCtxCreate(&second, nullptr, 0, 0));
  const CUstream reader = session.stream();
  OK(cu.cuStreamWaitEvent(reader, event, 0));
  OK(cu.cuStreamSynchronize(reader));
  OK(cu.cuCtxSetCurrent(first));
  OK(cu.cuStreamQuery(writer));
  HOLDS(session.holds(at, kWordCount, 2), "the writer was done before the reader went on");
}

}  // namespace
}  // namespace conformance
