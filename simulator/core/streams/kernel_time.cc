// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/streams/kernel_time.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "simulator/core/streams/durations.h"

namespace simulator {
namespace {

constexpr double kLanes = 32;  // of a warp; a scheduler issues one instruction of a warp in a cycle
constexpr double kNanosecondsPerSecond = 1e9;

// Source: CUDA C++ Programming Guide, "Compute Capabilities" (cores, schedulers) and the table of arithmetic throughput
// under "Maximize Instruction Throughput" (64-bit numbers a cycle).
struct Multiprocessor {
  int capability;  // and higher, up to the next row
  double cores;    // 32-bit multiply-adds a cycle
  double doubles;  // 64-bit multiply-adds a cycle
  double schedulers;
};

constexpr Multiprocessor kMultiprocessors[] = {
    {50, 128, 4, 4}, {60, 64, 32, 2}, {61, 128, 4, 4},  {70, 64, 32, 4},   {75, 64, 2, 4},
    {80, 64, 32, 4}, {86, 128, 2, 4}, {90, 128, 64, 4}, {100, 128, 64, 4}, {120, 128, 2, 4},
};

const Multiprocessor& multiprocessor_of(const Profile& profile) {
  const auto* const next =
      std::upper_bound(std::begin(kMultiprocessors), std::end(kMultiprocessors), profile.compute_capability.value,
                       [](int capability, const Multiprocessor& row) { return capability < row.capability; });
  return next == std::begin(kMultiprocessors) ? *next : *std::prev(next);
}

double volume(Dim3 of) { return static_cast<double>(of.x) * of.y * of.z; }

// The share of the device's rates that a grid of equal warps gets. The multiprocessor with most blocks ends last, and
// in it the scheduler with most warps. So one more warp or block never makes the same work faster.
struct Shares {
  double of_schedulers, of_multiprocessors;
};
Shares shares_of(const Kernel& kernel, double warps, double multiprocessors, double schedulers) {
  const double blocks = volume(kernel.grid);
  const double most_blocks = std::ceil(blocks / multiprocessors);
  const double most_warps = std::ceil(most_blocks * warps / schedulers);
  return {blocks * warps / (multiprocessors * schedulers * most_warps), blocks / (multiprocessors * most_blocks)};
}

}  // namespace

Time time_of(const Kernel& kernel, const KernelCounts& counts, const Settings& settings) {
  const Profile& profile = *settings.profile;
  const Multiprocessor& of = multiprocessor_of(profile);
  const double threads = volume(kernel.block);
  const double warps = std::ceil(threads / kLanes);
  const Shares shares = shares_of(kernel, warps, profile.multiprocessors.value, of.schedulers);
  const double share = shares.of_schedulers;
  const double full = threads / (warps * kLanes);  // the used fraction of the lanes
  const double rate = profile.fp32_flops.value * share;
  // All schedulers of a multiprocessor share the few units for 64 bits.
  const double doubles = profile.fp32_flops.value * of.doubles / of.cores *
                         (of.doubles <= of.schedulers ? shares.of_multiprocessors : share);
  const double issued = rate / 2 * (of.schedulers * kLanes / of.cores) * full;  // instructions of threads a second
  const auto bytes = static_cast<double>(std::min(counts.accessed, counts.reached));
  const double link =
      std::min(profile.link_to_device.value, profile.link_to_host.value) * settings.link_scale * settings.faults.link;
  const double seconds = std::max({
      static_cast<double>(counts.instructions) / issued,
      static_cast<double>(counts.flops) / rate,
      static_cast<double>(counts.doubles) / doubles,
      static_cast<double>(counts.tensor_flops) / (profile.tensor_flops.value * share),
      bytes / profile.memory_bandwidth.value,
      static_cast<double>(counts.of_host) / link,
  });
  const Time time = std::llround(seconds * kNanosecondsPerSecond);
  return std::max(time, time_between_devices(kernel.external, settings)) + profile.launch.value;
}

}  // namespace simulator
