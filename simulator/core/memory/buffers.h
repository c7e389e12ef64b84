// SPDX-License-Identifier: Apache-2.0
// The program's buffers by address, numbered in order of registration; and heaps, inside which mappings are not
// buffers.
//
// Freshness. Memory that was not written since its buffer was handed out counts as zero, although addresses and pages
// are reused: the first operation to access a fresh buffer clears it when it is executed. Which buffers an operation
// accesses is determined when it is submitted, because an operation on the former buffer at these addresses may still
// be pending when the next one is registered.
//
// A kernel's code may also write to buffers that it does not name, and what it writes must not be cleared later. So it
// clears every fresh buffer whose memory has no other user. Memory that is handed out in stream order may still be in
// use by its former owner, or be mapped for another one, when a kernel of another stream runs: such a buffer stops
// being fresh, and keeps its contents.
#pragma once

#include <boost/container/small_vector.hpp>
#include <map>
#include <optional>
#include <vector>

#include "simulator/core/types.h"

namespace simulator {

struct Buffer {
  std::uint64_t number = 0;  // in order of registration, from 1
  Address address = 0;
  Bytes bytes = 0;
};

// kInOrder: fresh, and handed out before the former owner's work has completed.
enum class Fresh : std::uint8_t { kNo, kYes, kInOrder };

class Buffers {
 public:
  using Slot = std::uint32_t;
  using Slots = boost::container::small_vector<Slot, 2>;

  // False if it would overlap another buffer.
  bool add(Address at, Bytes bytes, Fresh fresh);
  bool remove(Address at);
  std::optional<Buffer> find(Address at) const;

  void add_heap(Address at, Bytes bytes) { heaps_[at] = bytes; }
  void remove_heap(Address at) { heaps_.erase(at); }
  bool in_heap(Address at) const;

  // Appends the fresh buffers that an access to [at, at + bytes) affects; each is held until let_go().
  void hold_fresh(Address at, Bytes bytes, Slots& out);
  // Appends every fresh buffer; each is held until let_go().
  void hold_all_fresh(Slots& out);
  // The buffer to clear, if it is still fresh; afterwards it is not. `named`: by the operation.
  std::optional<Buffer> take_fresh(Slot slot, bool named);
  void let_go(Slot slot);

  Bytes live() const { return live_; }
  Bytes peak() const { return peak_; }

  void validate() const;

 private:
  struct Record {
    Buffer buffer;
    Fresh fresh = Fresh::kNo;
    bool alive = false;
    std::uint32_t holds = 0;
    std::uint32_t fresh_index = 0;  // in fresh_, while alive and fresh
  };

  Slot take_slot();
  void recycle(Slot slot);
  void leave_fresh(Slot slot);

  std::vector<Record> records_;
  std::vector<Slot> free_slots_;
  std::map<Address, Slot> by_address_;
  std::map<Address, Bytes> heaps_;
  std::uint64_t next_number_ = 1;
  std::vector<Slot> fresh_;  // live records that are fresh
  Bytes live_ = 0;
  Bytes peak_ = 0;
};

}  // namespace simulator
