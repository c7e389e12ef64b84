// SPDX-License-Identifier: Apache-2.0
// The memory that an operation accesses, collected before it is submitted. Most operations name few addresses, so the
// list stores these inline, without an allocation.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "driver/units.h"
#include "hooks/interpose/cuda_api.h"
#include "offload/engine/engine.h"

namespace thermocline {

// The bytes that a copy moves: rows of `bytes`, in layers. Either end may be memory of any kind except an array.
struct Move {
  CUdeviceptr to = 0, from = 0;
  Bytes bytes = 0;
  Bytes rows = 1, layers = 1;
  Bytes to_pitch = 0, from_pitch = 0;
  Bytes to_layer = 0, from_layer = 0;  // bytes between layers
};

class AccessList {
 public:
  // Adds a range; an empty range is not accessed.
  AccessList& read(DeviceAddress at, Bytes bytes) { return add(at, bytes, Access::kRead); }
  AccessList& write(DeviceAddress at, Bytes bytes) { return add(at, bytes, Access::kWrite); }
  AccessList& access(CUdeviceptr at, Bytes bytes) { return add(DeviceAddress{at}, bytes, Access::kUnknown); }
  AccessList& read(CUdeviceptr at, Bytes bytes) { return read(DeviceAddress{at}, bytes); }
  AccessList& write(CUdeviceptr at, Bytes bytes) { return write(DeviceAddress{at}, bytes); }

  // Adds an address of unknown extent: the buffer at that address. Not twice in a row.
  AccessList& word(std::uint64_t value) {
    if (value == last_word_) return *this;
    last_word_ = value;
    accesses_.emplace_back(DeviceAddress{value});
    return *this;
  }

  // Adds an address that is stored in memory which the operation may read.
  AccessList& found_word(std::uint64_t value) {
    last_word_ = kNone;
    accesses_.push_back(MemoryAccess{DeviceAddress{value}, 0, Access::kUnknown, 1});
    return *this;
  }

  AccessList& move(const Move& move) {
    if (move.bytes != 0 && move.rows != 0 && move.layers != 0) moves_.push_back(move);
    return *this;
  }
  // Adds a copy of one range.
  AccessList& copy(CUdeviceptr to, CUdeviceptr from, Bytes bytes) {
    return write(to, bytes).read(from, bytes).move({.to = to, .from = from, .bytes = bytes});
  }
  // Adds everything in another list.
  AccessList& join(const AccessList& other) {
    last_word_ = kNone;
    accesses_.insert(accesses_.end(), other.accesses_.begin(), other.accesses_.end());
    moves_.insert(moves_.end(), other.moves_.begin(), other.moves_.end());
    return *this;
  }
  std::span<const Move> moves() const { return {moves_.data(), moves_.size()}; }

  // Adds an access from another list.
  AccessList& add(const MemoryAccess& access) {
    last_word_ = kNone;
    accesses_.push_back(access);
    return *this;
  }

  void clear() {
    last_word_ = kNone;
    accesses_.clear();
    moves_.clear();
  }

  std::span<const MemoryAccess> all() const { return {accesses_.data(), accesses_.size()}; }
  bool empty() const { return accesses_.empty(); }

  // Removes all accesses except those for whose address `keep` returns true.
  template <class Keep>
  void filter(Keep keep) {
    const auto kept = [&](const MemoryAccess& access) { return keep(access.address); };
    if (std::ranges::all_of(all(), kept)) return;
    last_word_ = kNone;
    const auto end = std::remove_if(accesses_.begin(), accesses_.end(),
                                    [&](const MemoryAccess& access) { return !keep(access.address); });
    accesses_.erase(end, accesses_.end());
  }

 private:
  AccessList& add(DeviceAddress at, Bytes bytes, Access access) {
    if (bytes == 0) return *this;
    last_word_ = kNone;
    accesses_.push_back(MemoryAccess{at, bytes, access});
    return *this;
  }

  // No address: it is in no range of the driver's.
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  boost::container::small_vector<MemoryAccess, 24> accesses_;
  std::uint64_t last_word_ = kNone;  // the last access, if that is a word and kNone is not
  boost::container::small_vector<Move, 1> moves_;
};

}  // namespace thermocline
