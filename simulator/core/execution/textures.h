// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects: handles that kernels are given in place of addresses, and the memory that they describe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "simulator/core/streams/operation.h"

namespace simulator {

class Textures {
 public:
  // Handles are never reused, and equal no address and no small number, so a parameter with such a value is the handle.
  std::uint64_t add(const Fetch& fetch, bool writes) {
    live_.emplace(++last_, Texture{fetch, writes});
    return last_;
  }
  bool remove(std::uint64_t handle) { return live_.erase(handle) != 0; }

  struct Texture {
    Fetch fetch;
    bool writes = false;  // a surface: its memory is also written
  };
  const Texture* find(std::uint64_t handle) const {
    const auto found = live_.find(handle);
    return found == live_.end() ? nullptr : &found->second;
  }

 private:
  static constexpr std::uint64_t kFirst = std::uint64_t{0x7e} << 56;

  std::map<std::uint64_t, Texture> live_;
  std::uint64_t last_ = kFirst;
};

}  // namespace simulator
