// SPDX-License-Identifier: Apache-2.0
// The engines of the process, one per device, as an immutable set: when an engine begins or ends, a new set replaces
// the old one (Runtime). So looking one up, by address, context or device, takes no lock.
//
// Neither sets nor their entries are ever freed, because some thread may be reading one when an engine ends. The engine
// of such an entry no longer exists. Code that is not certain that the program still uses the device must read nothing
// but the entry.
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

// One bit for each engine of a set, in the set's order.
using EngineBits = std::uint64_t;

// Invariant: in order of devices, each at most once. When several engines are locked, they are locked in this order.
class EngineSet {
 public:
  static constexpr std::size_t kMost = 64;

  // with: a copy with one more engine, whose device must have none yet. without: a copy without one.
  EngineSet with(const ActiveEngine& more) const;
  EngineSet without(const ActiveEngine& one) const;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const ActiveEngine& operator[](std::size_t index) const noexcept { return *engines_[index]; }
  const ActiveEngine* const* begin() const noexcept { return engines_.data(); }
  const ActiveEngine* const* end() const noexcept { return engines_.data() + size_; }

  // Null if no engine owns the address.
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

  // The bit of the engine that owns the address; 0 if none does.
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

  // From the lowest address of all engines to the highest. With one engine this is its own range; with more, it may
  // contain addresses that belong to none.
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
