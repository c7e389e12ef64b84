// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/stream_turns.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"

namespace thermocline {
namespace {

constexpr std::chrono::seconds kLongestWait{1};
using Time = std::chrono::steady_clock::time_point;

struct Turn {
  StreamHandle stream;
  const void* of;
  std::thread::id thread;
};
struct Turns {
  Mutex mutex{"turns of streams", lock_level::kLeaf};
  std::condition_variable_any ended;
  std::vector<Turn> all THERMOCLINE_GUARDED_BY(mutex);
};
Turns& turns() { return process_lifetime<Turns>(); }

bool is_legacy(StreamHandle stream) { return to_cu(stream) == nullptr || to_cu(stream) == CU_STREAM_LEGACY; }

// The handle of per-thread default streams means another stream in each thread.
bool are_one(StreamHandle one, StreamHandle other) {
  if (is_legacy(one) || is_legacy(other)) return true;
  return one == other && to_cu(one) != CU_STREAM_PER_THREAD;
}

bool is_taken(const std::vector<Turn>& all, StreamHandle stream) {
  const auto self = std::this_thread::get_id();
  return std::ranges::any_of(all,
                             [&](const Turn& turn) { return turn.thread != self && are_one(turn.stream, stream); });
}

bool is_taken(const std::vector<Turn>& all, const void* of) {
  const auto self = std::this_thread::get_id();
  return std::ranges::any_of(all, [&](const Turn& turn) { return turn.thread != self && turn.of == of; });
}

// Where no stream can be blocked, who has a turn waits for nobody, and so it ends. False: waited for long enough.
bool wait_for_an_end(Turns& known, MutexLock& lock, Time end) {
  if (any_stream_may_block()) return known.ended.wait_until(lock, end) != std::cv_status::timeout;
  known.ended.wait_for(lock, kLongestWait);
  return true;
}

}  // namespace

StreamTurn::StreamTurn(StreamHandle stream, const void* of) {
  Turns& known = turns();
  MutexLock lock(known.mutex);
  const auto end = std::chrono::steady_clock::now() + kLongestWait;
  for (bool lets_others = true; is_taken(known.all, of) || (lets_others && is_taken(known.all, stream));) {
    lets_others = wait_for_an_end(known, lock, end) && lets_others;
  }
  known.all.push_back({stream, of, std::this_thread::get_id()});
  detail::attention.fetch_or(detail::kTurns, std::memory_order_relaxed);
}

StreamTurn::~StreamTurn() {
  Turns& known = turns();
  {
    const MutexLock lock(known.mutex);
    std::erase_if(known.all, [](const Turn& turn) { return turn.thread == std::this_thread::get_id(); });
    if (known.all.empty()) detail::attention.fetch_and(~detail::kTurns, std::memory_order_relaxed);
  }
  known.ended.notify_all();
}

bool wait_for_turn(StreamHandle stream) {
  if (!any_turn()) return true;
  const auto end = std::chrono::steady_clock::now() + kLongestWait;
  Turns& known = turns();
  MutexLock lock(known.mutex);
  while (is_taken(known.all, stream)) {
    if (!wait_for_an_end(known, lock, end)) return false;
  }
  return true;
}

bool is_anothers_turn(StreamHandle stream) {
  if (!any_turn()) return false;
  Turns& known = turns();
  const MutexLock lock(known.mutex);
  return is_taken(known.all, stream);
}

}  // namespace thermocline
