// SPDX-License-Identifier: Apache-2.0
// The engines of the process, one a device, as a set that never changes: where an engine begins or ends, another set
// takes its place (Runtime). So that looking one up, by address, context or device, takes no lock.
//
// Neither sets nor the entries in them are ever freed, for some thread may be looking at one whenever an engine ends.
// The engine behind an entry is gone then: who is not sure that the program still uses that device looks at nothing but
// the entry.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hooks/interpose/cuda_api.h"
#include "hooks/operands/parameters.h"
#include "offload/engine/engine.h"

namespace thermocline {

struct ActiveEngine {
  Engine* engine = nullptr;
  CUcontext context = nullptr;
  CUdevice device = 0;
  OwnRange range;  // the engine's addresses

  bool owns(DeviceAddress address) const noexcept { return range(address); }
};

// Bits for engines of a set, in its order.
using EngineBits = std::uint64_t;

// Invariant: in order of devices, each once. That order is the one in which engines are locked where several are.
class EngineSet {
 public:
  static constexpr std::size_t kMost = 64;

  // With one more, whose device has none yet; without one.
  EngineSet with(const ActiveEngine& more) const;
  EngineSet without(const ActiveEngine& one) const;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const ActiveEngine& operator[](std::size_t index) const noexcept { return *engines_[index]; }
  const ActiveEngine* const* begin() const noexcept { return engines_.data(); }
  const ActiveEngine* const* end() const noexcept { return engines_.data() + size_; }

  // Null where there is none.
  const ActiveEngine* owner(DeviceAddress address) const noexcept {
    for (const ActiveEngine* one : *this) {
      if (one->owns(address)) return one;
    }
    return nullptr;
  }
  const ActiveEngine* in(CUcontext context) const noexcept {
    for (const ActiveEngine* one : *this) {
      if (one->context == context) return one;
    }
    return nullptr;
  }
  const ActiveEngine* on(CUdevice device) const noexcept {
    for (const ActiveEngine* one : *this) {
      if (one->device == device) return one;
    }
    return nullptr;
  }
  bool has(const ActiveEngine* engine) const noexcept {
    for (const ActiveEngine* one : *this) {
      if (one == engine) return true;
    }
    return false;
  }

  // A bit for the engine whose memory this is, 0 where it is nobody's.
  EngineBits bit_of_owner(DeviceAddress address) const noexcept {
    for (std::size_t i = 0; i < size_; ++i) {
      if (engines_[i]->owns(address)) return EngineBits{1} << i;
    }
    return 0;
  }
  EngineBits bit_of(const ActiveEngine* engine) const noexcept {
    for (std::size_t i = 0; i < size_; ++i) {
      if (engines_[i] == engine) return EngineBits{1} << i;
    }
    return 0;
  }

  EngineBits all() const noexcept { return size_ == kMost ? ~EngineBits{0} : (EngineBits{1} << size_) - 1; }

  // From the lowest of all addresses to the highest: with one engine its own; with more, others' stand between.
  OwnRange hull() const noexcept { return hull_; }

  // Calls visit(engine) for each bit, in order.
  template <class Visit>
  void for_each(EngineBits bits, Visit visit) const {
    for (; bits != 0; bits &= bits - 1) visit(*engines_[static_cast<std::size_t>(__builtin_ctzll(bits))]);
  }

 private:
  void find_hull();

  std::array<const ActiveEngine*, kMost> engines_{};
  std::size_t size_ = 0;
  OwnRange hull_;
};

}  // namespace thermocline
