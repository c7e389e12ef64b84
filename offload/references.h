// SPDX-License-Identifier: Apache-2.0
// Addresses of the program's buffers that stand in memory, as far as they were seen on their way there. A kernel that
// is given a buffer may go wherever the words in it lead, so those buffers are touched with it, and what their words
// lead to.
//
// Words are kept by place, as runs: between `begin` and `end` there are addresses within one buffer, `target` being one
// of them. A word stays until it is written over or its buffer is freed. Targets are addresses, not buffers: when one
// is freed and its address handed out again, the word leads to the new buffer, as it does on the device.
//
// Memory that is not ours (globals of modules, mappings of the program's own, managed memory) can hold addresses, too.
// Any kernel may read it, so what is found there is touched by every kernel.
//
// Invariants (validate recomputes them): a holder is a live buffer, and its runs lie inside it, not empty; no holder is
// without runs; runs() is their number. A holder has at most kMostRuns runs, or one for each buffer that it leads to,
// where these are more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "allocator/heap.h"
#include "driver/units.h"
#include "offload/engine.h"

namespace thermocline {

class References {
 public:
  static constexpr std::size_t kMostRuns = 1024;

  explicit References(const Heap& heap) : heap_(heap) {}

  bool empty() const { return runs_ == 0; }
  // Some stand in memory that is not ours.
  bool any_outside() const { return !outside_.runs.empty(); }
  std::uint64_t runs() const { return runs_; }

  // Words that a copy has put into memory. What is no address of a live buffer is left out.
  void hold(std::span<const HeldWord> words);
  // Everything in the range is something else now.
  void overwritten(DeviceAddress at, Bytes bytes);
  // What stood in `from` stands in `to` as well, byte by byte. Not exact: somewhere there, and what was there may be
  // left.
  void copied(AddressRange to, AddressRange from, bool exact);
  // The buffer is gone, or somebody else's.
  void forget(const Buffer& buffer);

  // Appends where a kernel may come to that was given the addresses among `touches`.
  void follow(std::span<const Touch> touches, std::vector<DeviceAddress>* out);

  void validate() const;

 private:
  struct Run {
    DeviceAddress begin, end, target;
  };
  struct Holder {
    Bytes bytes = 0;
    std::uint64_t number = 0;  // of the buffer
    std::uint64_t walk = 0;    // the last walk that came by
    std::size_t most = kMostRuns;
    std::vector<Run> runs;
  };

  bool is_ours(DeviceAddress at) const { return at.value - heap_.range_begin().value < heap_.range_bytes(); }
  // The holder that `at` lies in, made if need be; null where no buffer is.
  Holder* holder_at(DeviceAddress at, DeviceAddress* end);
  void add(Holder& holder, Run run);
  void collapse(Holder& holder);
  void clear(Holder& holder, AddressRange range);
  void collect(const Holder& holder, AddressRange range, std::vector<Run>* out) const;
  void visit(DeviceAddress address, std::vector<DeviceAddress>* out);
  // Visits each holder that overlaps the range; erases those that are left without runs.
  template <class Visit>
  void for_each_in(AddressRange range, Visit visit);

  const Heap& heap_;
  std::map<std::uint64_t, Holder> holders_;  // by address
  Holder outside_;
  std::uint64_t runs_ = 0;
  std::uint64_t walk_ = 0;
};

}  // namespace thermocline
