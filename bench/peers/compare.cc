// SPDX-License-Identifier: Apache-2.0
// Plays one sequence of allocations and frees with each of several allocators in turns, and prints a line of JSON for
// each: the least time of a unit in nanoseconds, its ratio to the first allocator's (median over the repetitions), and
// the memory that it held over the peak of live bytes.
//
// compare_allocators SEQUENCE ROUNDS REPETITIONS ALLOCATOR.so...
//
// Under callgrind with --toggle-collect='thermocline::bench::measured_*' all instructions of all calls are counted, with
// what they call in any library (scripts/count_instructions.sh).
#include <dlfcn.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench/peers/sequence.h"

namespace thermocline::bench {

struct Peer {
  const char* (*name)();
  void* (*allocate)(std::size_t);
  void (*free)(void*);
  std::size_t (*reserved)();
};

// By these names the calls are counted, so they are not inlined.
[[gnu::noinline]] void* measured_allocate(const Peer& peer, std::size_t bytes) { return peer.allocate(bytes); }
[[gnu::noinline]] void measured_free(const Peer& peer, void* buffer) { peer.free(buffer); }

namespace {

template <class F>
bool look_up(void* library, const char* name, F** out) {
  *out = reinterpret_cast<F*>(dlsym(library, name));
  return *out != nullptr;
}

bool open_peer(const char* path, Peer* out) {
  // Peers have libraries of the same names in different versions.
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr && look_up(library, "peer_name", &out->name) &&
      look_up(library, "peer_allocate", &out->allocate) && look_up(library, "peer_free", &out->free) &&
      look_up(library, "peer_reserved", &out->reserved))
    return true;
  std::fprintf(stderr, "compare_allocators: %s\n", dlerror());
  return false;
}

// A second live thread: glibc omits lock prefixes while there is only one. It does what it is given, in turns with the
// thread that gives it.
class Other {
 public:
  Other() : thread_([this] { serve(); }) {}
  ~Other() {
    run({});
    thread_.join();
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  void run(std::function<void()> work) {
    work_ = std::move(work);
    turn_.store(true);
    turn_.notify_one();
    turn_.wait(true);
  }

 private:
  void serve() {
    for (bool more = true; more;) {
      turn_.wait(false);
      more = static_cast<bool>(work_);
      if (more) work_();
      turn_.store(false);
      turn_.notify_one();
    }
  }

  std::function<void()> work_;
  std::atomic<bool> turn_{false};
  std::thread thread_;
};

class Player {
 public:
  Player(const Sequence& sequence, Other& other) : sequence_(sequence), other_(other) {}

  struct Result {
    double nanoseconds_per_unit;
    double reserved_over_live;
  };
  Result play(const Peer& peer) {
    const std::span<const SequenceEvent> events(sequence_.events);
    buffers_.assign(sequence_.slots, nullptr);
    play(peer, events.first(sequence_.warm_up), false);
    const auto begin = std::chrono::steady_clock::now();
    play(peer, events.subspan(sequence_.warm_up), true);
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    const auto reserved = static_cast<double>(peer.reserved());
    for (void* buffer : buffers_) {
      if (buffer != nullptr) peer.free(buffer);
    }
    return {taken.count() / static_cast<double>(sequence_.units()),
            reserved / static_cast<double>(sequence_.peak_live_bytes)};
  }

 private:
  void play(const Peer& peer, std::span<const SequenceEvent> events, bool measured) {
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
  void play_here(const Peer& peer, std::span<const SequenceEvent> events, bool measured) {
    for (const SequenceEvent& event : events) {
      void*& buffer = buffers_[event.slot];
      if (event.bytes != 0) {
        buffer = measured ? measured_allocate(peer, event.bytes) : peer.allocate(event.bytes);
        if (buffer != nullptr) continue;
        std::fprintf(stderr, "compare_allocators: %s has no memory left\n", peer.name());
        std::exit(1);
      }
      if (measured) {
        measured_free(peer, buffer);
      } else {
        peer.free(buffer);
      }
      buffer = nullptr;
    }
  }

  const Sequence& sequence_;
  Other& other_;
  std::vector<void*> buffers_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int compare(const char* name, const Sequence& sequence, std::size_t repetitions, std::span<const Peer> peers) {
  Other other;
  Player player(sequence, other);
  std::vector<std::vector<double>> times(peers.size());
  std::vector<double> used(peers.size());
  for (std::size_t i = 0; i < repetitions; ++i) {
    for (std::size_t peer = 0; peer < peers.size(); ++peer) {
      const Player::Result result = player.play(peers[peer]);
      times[peer].push_back(result.nanoseconds_per_unit);
      if (i == 0) used[peer] = result.reserved_over_live;
    }
  }
  for (std::size_t peer = 0; peer < peers.size(); ++peer) {
    std::vector<double> ratios;
    ratios.reserve(repetitions);
    for (std::size_t i = 0; i < repetitions; ++i) ratios.push_back(times[peer][i] / times[0][i]);
    std::printf(
        "{\"sequence\": \"%s\", \"allocator\": \"%s\", \"units\": %zu, \"ns\": %.1f, \"ratio\": %.2f, "
        "\"reserved_per_live\": %.3f}\n",
        name, peers[peer].name(), sequence.units(), *std::ranges::min_element(times[peer]), median(ratios), used[peer]);
  }
  return 0;
}

}  // namespace
}  // namespace thermocline::bench

int main(int argc, char** argv) {
  using namespace thermocline::bench;
  if (argc < 5) {
    std::fputs("usage: compare_allocators SEQUENCE ROUNDS REPETITIONS ALLOCATOR.so...\n", stderr);
    return 2;
  }
  Sequence sequence;
  std::string error;
  const std::size_t rounds = std::strtoul(argv[2], nullptr, 10), repetitions = std::strtoul(argv[3], nullptr, 10);
  if (rounds == 0 || repetitions == 0 || !make_sequence(argv[1], rounds, &sequence, &error)) {
    std::fprintf(stderr, "compare_allocators: %s\n",
                 error.empty() ? "at least one round and one repetition" : error.c_str());
    return 2;
  }
  std::vector<Peer> peers(static_cast<std::size_t>(argc - 4));
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (!open_peer(argv[4 + i], &peers[i])) return 1;
  }
  return compare(argv[1], sequence, repetitions, peers);
}
