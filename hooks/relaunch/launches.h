// SPDX-License-Identifier: Apache-2.0
// Copies of launches, with their parameters, so that engines can run them again. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/cuda_api.h"
#include "hooks/interpose/lock_levels.h"
#include "offload/relauncher.h"

namespace thermocline {

struct Launch {
  // Eight bytes of the parameters that are an address in the memory of the operation's n-th access.
  struct Word {
    std::uint32_t at = 0;  // in `parameters`
    std::uint32_t access = 0;
    std::uint64_t offset = 0;
  };
  CUfunction function = nullptr;
  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1};
  unsigned shared_bytes = 0;
  std::vector<unsigned char> parameters;
  std::vector<std::uint32_t> parameter_at;  // offset of each parameter
  std::vector<Word> words;
};

class Launches final : public Relauncher {
 public:
  // Returns the id with which it can be run again. The last kRemembered launches of all engines are kept.
  std::uint64_t add(Launch launch);
  // No function that was launched so far may run again: its handle may be reused for another.
  void forget_functions();

  Status relaunch(std::uint64_t id, StreamHandle stream, std::span<const DeviceAddress> addresses) override;
  void came_out_different(const RerunMismatch& mismatch) noexcept override;

 private:
  Mutex mutex_{"launches", lock_level::kLeaf};
  std::deque<Launch> all_ THERMOCLINE_GUARDED_BY(mutex_);
  std::uint64_t first_ THERMOCLINE_GUARDED_BY(mutex_) = 1;  // id of all_[0]
};

Launches& launches();

}  // namespace thermocline
