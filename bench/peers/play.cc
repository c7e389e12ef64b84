// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/play.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>

namespace thermocline::bench {

// By these names the calls are counted, so they are not inlined.
[[gnu::noinline]] void* measured_allocate(const Peer& peer, std::size_t bytes) { return peer.allocate(bytes); }
[[gnu::noinline]] void measured_free(const Peer& peer, void* buffer) { peer.free(buffer); }

namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

// That this process has used; the machine may be busy with others.
double processor_nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

void* required(const Peer& peer, void* buffer) {
  if (buffer != nullptr) return buffer;
  std::fprintf(stderr, "compare_allocators: %s has no memory left\n", peer.name());
  std::exit(1);
}

void play_on(const Peer& peer, std::span<const SequenceEvent> events, unsigned stream, std::vector<void*>& buffers) {
  for (const SequenceEvent& event : events) {
    void*& buffer = buffers[event.slot];
    if (event.bytes == 0) {
      peer.free_on(std::exchange(buffer, nullptr), stream);
    } else {
      buffer = required(peer, peer.allocate_on(event.bytes, stream));
    }
  }
}

}  // namespace

void Other::run(std::function<void()> work) {
  work_ = std::move(work);
  turn_.store(true);
  turn_.notify_one();
  turn_.wait(true);
}

void Other::serve() {
  for (bool more = true; more;) {
    turn_.wait(false);
    more = static_cast<bool>(work_);
    if (more) work_();
    turn_.store(false);
    turn_.notify_one();
  }
}

Played Player::play(const Peer& peer) {
  const double peak = static_cast<double>(sequence_.peak_live_bytes) * sequence_.threads;
  if (sequence_.threads > 1) {
    const double alone = play_at_once(peer, 1);
    const double together = play_at_once(peer, sequence_.threads);
    return {together, alone, static_cast<double>(peer.reserved()) / peak};
  }
  const std::span<const SequenceEvent> events(sequence_.events);
  buffers_.assign(sequence_.slots, nullptr);
  play(peer, events.first(sequence_.warm_up), false);
  const double begin = processor_nanoseconds();
  play(peer, events.subspan(sequence_.warm_up), true);
  const double taken = processor_nanoseconds() - begin;
  const auto reserved = static_cast<double>(peer.reserved());
  for (void* buffer : buffers_) {
    if (buffer != nullptr) peer.free(buffer);
  }
  return {taken / static_cast<double>(sequence_.units()), 0, reserved / peak};
}

void Player::play(const Peer& peer, std::span<const SequenceEvent> events, bool measured) {
  if (!sequence_.hands_over) return play_here(peer, events, measured);
  while (!events.empty()) {
    const bool frees = events.front().bytes == 0;
    const auto end = std::ranges::find_if(events, [frees](const auto& event) { return (event.bytes == 0) != frees; });
    const auto turn = events.first(static_cast<std::size_t>(end - events.begin()));
    if (frees) {
      other_.run([&] { play_here(peer, turn, measured); });
    } else {
      play_here(peer, turn, measured);
    }
    events = events.subspan(turn.size());
  }
}

void Player::play_here(const Peer& peer, std::span<const SequenceEvent> events, bool measured) {
  for (const SequenceEvent& event : events) {
    void*& buffer = buffers_[event.slot];
    if (event.bytes != 0) {
      buffer = required(peer, measured ? measured_allocate(peer, event.bytes) : peer.allocate(event.bytes));
      continue;
    }
    if (measured) {
      measured_free(peer, buffer);
    } else {
      peer.free(buffer);
    }
    buffer = nullptr;
  }
}

// Each is measured from when the last of them is warm: if the slowest one takes little, all have run at once. A thread
// that measured from its own begin would run alone wherever the machine keeps the others waiting.
double Player::play_at_once(const Peer& peer, unsigned threads) {
  const std::span<const SequenceEvent> events(sequence_.events);
  std::atomic<unsigned> warm{0};
  std::atomic<bool> begun{false};
  Clock::time_point begin;
  std::vector<double> taken(threads);
  const auto one = [&](unsigned index) {
    std::vector<void*> buffers(sequence_.slots);
    play_on(peer, events.first(sequence_.warm_up), index, buffers);
    if (warm.fetch_add(1) + 1 == threads) {
      begin = Clock::now();
      begun = true;
    }
    while (!begun) {
    }
    play_on(peer, events.subspan(sequence_.warm_up), index, buffers);
    taken[index] = nanoseconds_since(begin) / static_cast<double>(sequence_.units());
    for (void* buffer : buffers) {
      if (buffer != nullptr) peer.free_on(buffer, index);
    }
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(one, i);
  one(0);
  for (std::thread& other : others) other.join();
  return *std::ranges::max_element(taken);
}

}  // namespace thermocline::bench
