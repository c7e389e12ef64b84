// SPDX-License-Identifier: Apache-2.0
// Copies of launches, with their parameters, so that engines can run them again. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/cuda_api.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/operands/parameters.h"
#include "offload/relauncher.h"

namespace thermocline {

// Shared by launches that differ in their parameters only.
struct LaunchForm {
  // Eight bytes of the parameters that are an address in the memory of the operation's n-th access.
  struct Word {
    std::uint32_t at = 0;  // in Launch::parameters
    std::uint32_t access = 0;
    std::uint64_t offset = 0;
  };
  CUfunction function = nullptr;
  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1};
  unsigned shared_bytes = 0;
  std::vector<std::uint32_t> parameter_at;  // offset of each parameter
  std::vector<Word> words;
};

struct Launch {
  std::shared_ptr<const LaunchForm> form;
  std::vector<unsigned char> parameters;  // parameters_of()
};

// All parameters, one behind the other. Kernels may be given structures of any alignment up to that of the places.
std::vector<unsigned char> parameters_of(const ParameterLayout& layout, void* const* parameters);
std::vector<std::uint32_t> places_of(const ParameterLayout& layout);

class Launches final : public Relauncher {
 public:
  // Returns the id with which it can be run again. The last kRemembered launches of all engines are kept.
  std::uint64_t add(Launch launch);
  // The launch with this id will still be kept when the only engine needs it for an operation that arrives now.
  bool stays(std::uint64_t id) const {
    return id >= first_.load(std::memory_order_acquire) &&
           newest_.load(std::memory_order_relaxed) - id < kRemembered / 2;
  }
  // No function that was launched so far may run again: its handle may be reused for another.
  void forget_functions();

  Status relaunch(std::uint64_t id, StreamHandle stream, std::span<const DeviceAddress> addresses) override;
  void came_out_different(const RerunMismatch& mismatch) noexcept override;

 private:
  Mutex mutex_{"launches", lock_level::kLeaf};
  std::deque<Launch> all_ THERMOCLINE_GUARDED_BY(mutex_);
  // Ids; changed with the lock held.
  std::atomic<std::uint64_t> first_{1};  // of all_[0]
  std::atomic<std::uint64_t> newest_{0};
};

Launches& launches();

}  // namespace thermocline
