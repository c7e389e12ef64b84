// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/stream_queues.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "driver/locks.h"
#include "hooks/capture/capture_state.h"
#include "hooks/interpose/counted_calls.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/mapping_waits.h"
#include "hooks/submit/heap_memory.h"
#include "hooks/submit/stream_turns.h"
#include "hooks/submit/submit.h"

namespace thermocline {
namespace {

constexpr unsigned kOperationsPerMark = 32;
// The driver's limit of about a thousand, less what one operation may add through waits, and what other threads may add
// at the same time.
constexpr unsigned kMostOperations = 896;

// An event recorded in the stream: once it has completed, so has everything submitted before.
class Mark {
 public:
  Mark(CUevent event, unsigned operations) : event_(event), operations_(operations) {}
  ~Mark() {
    if (!is_gone_) real<Function::cuEventDestroy_v2>(event_);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  unsigned operations() const { return operations_; }
  bool has_passed() const { return real<Function::cuEventQuery>(event_) != CUDA_ERROR_NOT_READY; }
  void wait() const { static_cast<void>(real<Function::cuEventSynchronize>(event_)); }
  void went_with_its_context() { is_gone_ = true; }

 private:
  const CUevent event_;
  const unsigned operations_;  // number since the previous mark
  std::atomic<bool> is_gone_{false};
};

struct Queue {
  unsigned since = 0;   // operations after the newest mark
  unsigned marked = 0;  // operations covered by all marks
  std::deque<std::shared_ptr<Mark>> marks;

  void push(std::shared_ptr<Mark> mark) {
    marked += mark->operations();
    marks.push_back(std::move(mark));
  }
  void pop() {
    marked -= marks.front()->operations();
    marks.pop_front();
  }
};

// The handles of default streams mean another stream in each context; that of the per-thread one also in each thread.
using Key = std::tuple<CUcontext, StreamHandle, const void*>;

struct Queues {
  const Queues* abandoned = nullptr;  // the parent's, never freed
  Mutex mutex{"stream queues", lock_level::kLeaf};
  std::map<Key, Queue> by_stream THERMOCLINE_GUARDED_BY(mutex);

  Queue* find(const Key& key) THERMOCLINE_REQUIRES(mutex) {
    const auto found = by_stream.find(key);
    return found == by_stream.end() ? nullptr : &found->second;
  }
};
// By a pointer, so that the child of a fork begins with queues of its own.
struct QueuesOfProcess {
  Queues* now = new Queues;
};
Queues*& all_queues() { return process_lifetime<QueuesOfProcess>().now; }
Queues& queues() { return *all_queues(); }

Key key_of(CUcontext context, StreamHandle stream) {
  thread_local constinit const char this_thread = 0;
  const bool is_of_thread = to_cu(stream) == CU_STREAM_PER_THREAD;
  return {context, stream, is_of_thread ? &this_thread : nullptr};
}

// Null if nothing can be recorded: then the operations count with the next mark.
std::shared_ptr<Mark> record(CUcontext context, StreamHandle stream, unsigned operations) {
  const CurrentContext current(context);
  const CaptureTruce truce;
  CUevent event = nullptr;
  if (real<Function::cuEventCreate>(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return nullptr;
  auto mark = std::make_shared<Mark>(event, operations);
  return real<Function::cuEventRecord>(event, to_cu(stream)) == CUDA_SUCCESS ? mark : nullptr;
}

// `lock` is released during the driver call. Afterwards the queue may no longer exist. Not analyzed: clang does not
// track a lock that is an argument.
void add_mark(MutexLock& lock, const Key& key, Queue* queue) THERMOCLINE_NOT_ANALYSED {
  const unsigned operations = std::exchange(queue->since, 0) + 1;  // the mark itself counts too
  lock.unlock();
  std::shared_ptr<Mark> mark = record(std::get<CUcontext>(key), std::get<StreamHandle>(key), operations);
  lock.lock();
  queue = queues().find(key);
  if (queue == nullptr) return;
  if (mark == nullptr) {
    queue->since += operations - 1;
  } else {
    queue->push(std::move(mark));
  }
}

// False: the queue no longer exists, or there is room in it.
bool wait_for_oldest(MutexLock& lock, const Key& key) THERMOCLINE_NOT_ANALYSED {
  Queue* queue = queues().find(key);
  if (queue == nullptr || queue->marks.empty() || queue->marked + queue->since < kMostOperations) return false;
  const std::shared_ptr<Mark> oldest = queue->marks.front();
  lock.unlock();
  {
    const CaptureTruce truce;
    oldest->wait();
  }
  lock.lock();
  queue = queues().find(key);
  if (queue != nullptr && !queue->marks.empty() && queue->marks.front() == oldest) queue->pop();
  return true;
}

void forget_passed(Queue* queue) {
  const CaptureTruce truce;
  while (!queue->marks.empty() && queue->marks.front()->has_passed()) queue->pop();
}

void count_one(CUstream stream) {
  if (!any_stream_may_block()) return;
  CUcontext current = nullptr;
  if (real<Function::cuCtxGetCurrent>(&current) != CUDA_SUCCESS) return;
  const StreamHandle handle = legacy(stream);
  const Key key = key_of(context_of(handle, current), handle);
  const MutexLock lock(queues().mutex);
  // The library's own streams have no queue here.
  if (Queue* const queue = queues().find(key); queue != nullptr) ++queue->since;
}

void forget(bool is_gone, CUcontext context, StreamHandle stream) {
  Queues& all = queues();
  std::deque<std::shared_ptr<Mark>> ended;  // destroyed after the lock is released
  const MutexLock lock(all.mutex);
  for (auto one = all.by_stream.begin(); one != all.by_stream.end();) {
    const auto& [of, handle, thread] = one->first;
    if (context != nullptr ? of != context : handle != stream) {
      ++one;
      continue;
    }
    for (std::shared_ptr<Mark>& mark : one->second.marks) {
      if (is_gone) mark->went_with_its_context();
      ended.push_back(std::move(mark));
    }
    one = all.by_stream.erase(one);
  }
}

}  // namespace

void note_streams_may_block() {
  // From here on nothing more is cached: freeing cached memory could wait for the stream that is about to be blocked.
  const unsigned before = detail::attention.fetch_or(detail::kStreamsMayBlock);
  if ((before & detail::kStreamsMayBlock) == 0) empty_caches();
  queues_are_counted.store(true, std::memory_order_relaxed);
  // Recorded work blocks nothing before its graph is launched; and a probe may invalidate captures.
  if (!any_capture()) find_whether_mapping_waits();
}
constinit std::atomic<unsigned> detail::attention{0};

namespace {

void wait_for_queue(StreamHandle stream) {
  // Without an engine there is no engine lock to wait for.
  if (engines_now() == nullptr || is_recording(stream)) return;
  CUcontext current = nullptr;
  if (real<Function::cuCtxGetCurrent>(&current) != CUDA_SUCCESS || current == nullptr) return;
  static_cast<void>(guarded([&] {
    const Inside inside;
    const Key key = key_of(context_of(stream, current), stream);
    MutexLock lock(queues().mutex);
    Queue& queue = queues().by_stream[key];
    if (++queue.since >= kOperationsPerMark) {
      forget_passed(&queue);
      add_mark(lock, key, &queue);
    }
    while (wait_for_oldest(lock, key)) continue;
    return CUDA_SUCCESS;
  }));
}

}  // namespace

void detail::wait_before_submitting(StreamHandle stream) {
  wait_for_turn(stream);
  if (any_stream_may_block()) wait_for_queue(stream);
}

// kMostOperations leaves room for the operations that an engine adds to streams beside the program's.
CUresult CUDAAPI record_counted(CUevent event, CUstream stream) {
  count_one(stream);
  const WaitsInPlace within_the_limit;
  return real<Function::cuEventRecord>(event, stream);
}

CUresult CUDAAPI wait_counted(CUstream stream, CUevent event, unsigned int flags) {
  count_one(stream);
  const WaitsInPlace within_the_limit;
  return real<Function::cuStreamWaitEvent>(stream, event, flags);
}

void end_queue_of(StreamHandle stream) {
  if (any_stream_may_block()) forget(false, nullptr, stream);
}

// The parent's lock may be held by a thread that does not exist in the child.
void abandon_queues() {
  detail::attention.store(0, std::memory_order_relaxed);
  queues_are_counted.store(false, std::memory_order_relaxed);
  auto* const of_the_child = new Queues;
  of_the_child->abandoned = all_queues();
  all_queues() = of_the_child;
}

void end_queues_in(CUcontext context, bool is_gone) {
  if (any_stream_may_block()) forget(is_gone, context, {});
}

}  // namespace thermocline
