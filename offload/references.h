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
// What a kernel writes is not seen. Of kernels that are known to write tables (OperatorClass::kTables) it is taken that
// whatever they were given, or may have come to, stands somewhere in each small buffer that they were given: runs of
// their own, over the whole buffer.
//
// Invariants (validate recomputes them): a holder is a live buffer, and its runs lie inside it, not empty; no holder is
// without runs; runs() is their number. A holder has at most kMostRuns runs, or one for each buffer that it leads to,
// where these are more; and at most kMostWritten by kernels, of which no two lead to one buffer when they are made.
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
  static constexpr std::size_t kMostWritten = 256;
  // Larger buffers are what such kernels make tables of.
  static constexpr Bytes kMostTableBytes = Bytes{256} << 10;

  explicit References(const Heap& heap) : heap_(heap) {}

  bool empty() const { return runs_ == 0; }
  // Some stand in memory that is not ours.
  bool any_outside() const { return !outside_.empty(); }
  std::uint64_t runs() const { return runs_; }

  // Words that a copy has put into memory. What is no address of a live buffer is left out.
  void hold(std::span<const HeldWord> words);
  // Everything in the range is something else now.
  void overwritten(DeviceAddress at, Bytes bytes);
  // What stood in `from` stands in `to` as well, byte by byte. Not exact: somewhere there, and what was there may be
  // left.
  void copied(AddressRange to, AddressRange from, bool exact);
  // A kernel was given these addresses, and may have written any of them, and what they lead to, into any small buffer
  // among them. What more than kMostWritten live buffers would need is left out, the oldest first; how many were.
  std::uint64_t written_by_kernel(std::span<const Touch> touches);
  // The buffer is gone, or somebody else's.
  void forget(const Buffer& buffer);

  // Appends where a kernel may come to that was given the addresses among `touches`; with `tables`, also by what
  // kernels may have written. True: that was so of any.
  bool follow(std::span<const Touch> touches, bool tables, std::vector<DeviceAddress>* out);

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
    std::vector<Run> written;  // by kernels, the newest last

    bool empty() const { return runs.empty() && written.empty(); }
    std::size_t size() const { return runs.size() + written.size(); }
  };

  bool is_ours(DeviceAddress at) const { return at.value - heap_.range_begin().value < heap_.range_bytes(); }
  // The holder that `at` lies in, made if need be; null where no buffer is.
  Holder* holder_at(DeviceAddress at, DeviceAddress* end);
  void add(Holder& holder, Run run);
  using Targets = std::vector<const Buffer*>;  // by address, each once
  Targets targets_at(std::span<const DeviceAddress> addresses) const;
  // How many had to go, or found no room.
  std::uint64_t add_written(const Buffer& buffer, const Targets& led_to, const Targets& given);
  void collapse(Holder& holder);
  void clear(Holder& holder, AddressRange range);
  void collect(const Holder& holder, AddressRange range, std::vector<Run>* out) const;
  bool visit(DeviceAddress address, bool tables, std::vector<DeviceAddress>* out);
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
