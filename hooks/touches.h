// SPDX-License-Identifier: Apache-2.0
// The memory that an operation names, collected before it is submitted. Most operations name few addresses, so the list
// needs no allocation for them.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "driver/units.h"
#include "hooks/cuda_api.h"
#include "offload/engine.h"

namespace thermocline {

// Bytes that a copy moves: rows of `bytes`, in layers. Either end may be memory of any kind but an array.
struct Move {
  CUdeviceptr to = 0, from = 0;
  Bytes bytes = 0;
  Bytes rows = 1, layers = 1;
  Bytes to_pitch = 0, from_pitch = 0;
  Bytes to_layer = 0, from_layer = 0;  // bytes between layers
};

class TouchList {
 public:
  // A range; an empty one touches nothing.
  TouchList& read(DeviceAddress at, Bytes bytes) { return add(at, bytes, Access::kRead); }
  TouchList& write(DeviceAddress at, Bytes bytes) { return add(at, bytes, Access::kWrite); }
  TouchList& touch(CUdeviceptr at, Bytes bytes) { return add(DeviceAddress{at}, bytes, Access::kUnknown); }
  TouchList& read(CUdeviceptr at, Bytes bytes) { return read(DeviceAddress{at}, bytes); }
  TouchList& write(CUdeviceptr at, Bytes bytes) { return write(DeviceAddress{at}, bytes); }

  // An address alone: whatever stands there.
  TouchList& word(std::uint64_t value) {
    if (touches_.empty() || touches_.back().bytes != 0 || touches_.back().address.value != value) {
      touches_.push_back(Touch{DeviceAddress{value}, 0, Access::kUnknown});
    }
    return *this;
  }

  TouchList& move(const Move& move) {
    if (move.bytes != 0 && move.rows != 0 && move.layers != 0) moves_.push_back(move);
    return *this;
  }
  // A copy of one range.
  TouchList& copy(CUdeviceptr to, CUdeviceptr from, Bytes bytes) {
    return write(to, bytes).read(from, bytes).move({.to = to, .from = from, .bytes = bytes});
  }
  std::span<const Move> moves() const { return {moves_.data(), moves_.size()}; }

  // As another list had it.
  TouchList& add(const Touch& touch) {
    touches_.push_back(touch);
    return *this;
  }

  std::span<const Touch> all() const { return {touches_.data(), touches_.size()}; }
  bool empty() const { return touches_.empty(); }

  // Leaves only what `keep` says of an address.
  template <class Keep>
  void filter(Keep keep) {
    const auto end =
        std::remove_if(touches_.begin(), touches_.end(), [&](const Touch& touch) { return !keep(touch.address); });
    touches_.erase(end, touches_.end());
  }

 private:
  TouchList& add(DeviceAddress at, Bytes bytes, Access access) {
    if (bytes != 0) touches_.push_back(Touch{at, bytes, access});
    return *this;
  }

  boost::container::small_vector<Touch, 24> touches_;
  boost::container::small_vector<Move, 1> moves_;
};

}  // namespace thermocline
