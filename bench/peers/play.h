// SPDX-License-Identifier: Apache-2.0
// Plays a sequence of allocations and frees (sequence.h) with an allocator (peer.h), and takes the time.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "bench/peers/sequence.h"

namespace thermocline::bench {

struct Peer {
  const char* (*name)();
  void* (*allocate)(std::size_t);
  void (*free)(void*);
  std::size_t (*reserved)();
  // Looked up only for sequences of several threads.
  void* (*allocate_on)(std::size_t, unsigned);
  void (*free_on)(void*, unsigned);
};

// A second live thread: glibc omits lock prefixes while there is only one. It runs the work it is given, alternating
// with the thread that gives it.
class Other {
 public:
  Other() : thread_([this] { serve(); }) {}
  ~Other() {
    run({});
    thread_.join();
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  void run(std::function<void()> work);

 private:
  void serve();

  std::function<void()> work_;
  std::atomic<bool> turn_{false};
  std::thread thread_;
};

// One result. Times of a unit: nanoseconds of processor time; with several threads, wall time of the slowest one.
struct Played {
  double nanoseconds;
  double alone_nanoseconds;  // one thread of a sequence of several, while the others do nothing
  double reserved_over_live;
};

class Player {
 public:
  Player(const Sequence& sequence, Other& other) : sequence_(sequence), other_(other) {}

  Played play(const Peer& peer);

 private:
  void play(const Peer& peer, std::span<const SequenceEvent> events, bool measured);
  void play_here(const Peer& peer, std::span<const SequenceEvent> events, bool measured);
  double play_at_once(const Peer& peer, unsigned threads);

  const Sequence& sequence_;
  Other& other_;
  std::vector<void*> buffers_;
};

}  // namespace thermocline::bench
