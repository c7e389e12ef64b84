// SPDX-License-Identifier: Apache-2.0
// Plays one sequence of allocations and frees with each of several allocators in turns, and prints a line of JSON for
// each: the least time of a unit in nanoseconds (of the processor; with several threads by the clock), its ratio to the
// first allocator's in the same turn (median and quartiles over the repetitions), and the memory that it held over the
// peak of live bytes. For sequences of several threads also the time of one thread alone, and the time over that: the
// ratio of the least times, and the quartiles of the ratios of each turn, which tell how busy the machine was.
//
// compare_allocators SEQUENCE ROUNDS REPETITIONS ALLOCATOR.so...
//
// Under callgrind with --toggle-collect='thermocline::bench::measured_*' all instructions of all calls are counted,
// with those of functions that they call in any library (scripts/count_instructions.sh).
#include <dlfcn.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "bench/peers/play.h"

namespace thermocline::bench {
namespace {

template <class F>
bool look_up(void* library, const char* name, F** out) {
  *out = reinterpret_cast<F*>(dlsym(library, name));
  return *out != nullptr;
}

bool open_peer(const char* path, bool on_streams, Peer* out) {
  // Peers have libraries of the same names in different versions.
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr && look_up(library, "peer_name", &out->name) &&
      look_up(library, "peer_allocate", &out->allocate) && look_up(library, "peer_free", &out->free) &&
      look_up(library, "peer_reserved", &out->reserved) &&
      (!on_streams ||
       (look_up(library, "peer_allocate_on", &out->allocate_on) && look_up(library, "peer_free_on", &out->free_on))))
    return true;
  std::fprintf(stderr, "compare_allocators: %s\n", dlerror());
  return false;
}

// The value below which `part` of the values are.
double quantile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size()))];
}

double least(const std::vector<double>& values) { return *std::ranges::min_element(values); }

std::vector<double> ratios(const std::vector<double>& of, const std::vector<double>& to) {
  std::vector<double> found;
  found.reserve(of.size());
  for (std::size_t i = 0; i < of.size(); ++i) found.push_back(of[i] / to[i]);
  return found;
}

// An allocator that takes this many times as long as the first one is run only once.
constexpr double kTooSlow = 50;

int compare(const char* name, const Sequence& sequence, std::size_t repetitions, std::span<const Peer> peers) {
  Other other;
  Player player(sequence, other);
  std::vector<std::vector<double>> times(peers.size()), alone(peers.size());
  std::vector<double> used(peers.size());
  for (std::size_t i = 0; i < repetitions; ++i) {
    for (std::size_t peer = 0; peer < peers.size(); ++peer) {
      if (i > 0 && times[peer][0] > kTooSlow * times[0][0]) continue;
      const Played result = player.play(peers[peer]);
      times[peer].push_back(result.nanoseconds);
      alone[peer].push_back(result.alone_nanoseconds);
      if (i == 0) used[peer] = result.reserved_over_live;
    }
  }
  for (std::size_t peer = 0; peer < peers.size(); ++peer) {
    const std::vector<double> to_ours = ratios(times[peer], times[0]);
    std::printf(
        "{\"sequence\": \"%s\", \"allocator\": \"%s\", \"units\": %zu, \"ns\": %.1f, \"ratio\": %.2f, "
        "\"ratio_quartiles\": [%.2f, %.2f], \"reserved_per_live\": %.3f",
        name, peers[peer].name(), sequence.units(), least(times[peer]), quantile(to_ours, 0.5), quantile(to_ours, 0.25),
        quantile(to_ours, 0.75), used[peer]);
    if (sequence.threads > 1) {
      const std::vector<double> over = ratios(times[peer], alone[peer]);
      std::printf(", \"alone_ns\": %.1f, \"over_alone\": %.2f, \"over_alone_quartiles\": [%.2f, %.2f]",
                  least(alone[peer]), least(times[peer]) / least(alone[peer]), quantile(over, 0.25),
                  quantile(over, 0.75));
    }
    std::puts("}");
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
    if (!open_peer(argv[4 + i], sequence.threads > 1, &peers[i])) return 1;
  }
  return compare(argv[1], sequence, repetitions, peers);
}
