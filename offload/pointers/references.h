// SPDX-License-Identifier: Apache-2.0
// Addresses of the program's buffers that stand in memory, as far as they were seen on their way there. A kernel that
// is given a buffer may go wherever the words in it lead, so those buffers are accessed with it, and what their words
// lead to.
//
// Words are kept by place, as runs: between `begin` and `end` there are addresses within one buffer, `target` being one
// of them. A word stays until it is written over or its buffer is freed. Targets are addresses, not buffers: when one
// is freed and its address handed out again, the word leads to the new buffer, as it does on the device.
//
// Memory that is not ours (globals of modules, mappings of the program's own, managed memory) can hold addresses, too.
// Any kernel may read it, so what is found there is accessed by every kernel.
//
// What a kernel writes is not seen. Of kernels that are known to write tables (OperatorClass::kTables), or not yet
// known not to (pointer_probes.h), it is taken that whatever they were given, or may have come to, stands somewhere in
// each small buffer that they were given: runs of their own, over the whole buffer. Where these are too many, or where
// contents could not be searched at all, one run says that addresses of anything may stand there (kAnywhere). What must
// be known exactly is read from the device then (Engine::State::read_tables).
//
// Invariants (validate recomputes them): a holder is a live buffer, and its runs lie inside it, not empty; no holder is
// without runs; runs() is their number. A holder has at most kMostRuns runs, or one for each buffer that it leads to,
// where these are more; and at most kMostWritten by kernels, of which no two by one kernel lead to one buffer when they
// are made, beside at most kMostAnywhere that lead anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "allocator/heap.h"
#include "driver/units.h"
#include "offload/access.h"

namespace thermocline {

class References {
 public:
  static constexpr std::size_t kMostRuns = 1024;
  static constexpr std::size_t kMostWritten = 256;
  static constexpr std::size_t kMostAnywhere = 16;
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

  using Targets = std::vector<const Buffer*>;  // by address, each once
  // What a kernel was given that was given these addresses, and what it may have come to from there.
  struct Given {
    Targets named, reachable;
    bool anywhere = false;  // what it was given may lead anywhere
  };
  Given given(std::span<const MemoryAccess> accesses);
  // It may have written the address of any of these into any small buffer among what it was given. What more than
  // kMostWritten live buffers would need is not remembered one by one: first what is not known, then the oldest; such a
  // buffer may lead anywhere. How many were not. `kernel`: number of one of which that is not known, until it is
  // confirmed or retracted; 0: it is known.
  std::uint64_t written_by_kernel(const Given& given, std::uint64_t kernel = 0);
  // Something has been put there that nobody could look at.
  void hold_unknown(AddressRange range);
  // These, and no others, are the addresses that stand in the range.
  void now_hold(AddressRange range, std::span<const HeldWord> words);
  // A kernel has put these words there.
  void found(std::span<const HeldWord> words);
  void confirm(std::uint64_t kernel);
  void retract(std::uint64_t kernel);
  // Which buffers the words in it may lead to, but for those that only this kernel may have written.
  Targets targets_of(const Buffer& buffer, std::uint64_t but_by = 0) const;

  // The buffer is gone, or somebody else's.
  void forget(const Buffer& buffer);

  struct Followed {
    bool by_tables = false;  // what kernels may have written led to something
    bool anywhere = false;   // to anything that is live
  };
  // Appends where a kernel may come to that was given the addresses among `accesses`.
  Followed follow(std::span<const MemoryAccess> accesses, std::vector<DeviceAddress>* out);
  // Addresses read from ranges of memory in which kernels may have written some.
  using TableWords = std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<DeviceAddress>>;
  // The same with what was read in place of what may have been written; appends the ranges that have to be read yet.
  // Memory that is not ours is not read, for it may be gone by now. True: addresses of anything may stand there.
  bool follow_read(std::span<const MemoryAccess> accesses, const TableWords& read, std::vector<DeviceAddress>* out,
                   std::vector<AddressRange>* unread);

  void validate() const;

 private:
  static constexpr DeviceAddress kAnywhere{0};
  struct Run {
    DeviceAddress begin, end, target;
    std::uint64_t kernel = 0;  // that may have written it, and is not known to write such
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
  // Calls visit(holder, run) for each word that leads to a live buffer and stands in one.
  template <class Visit>
  void for_each_word(std::span<const HeldWord> words, Visit visit);
  // The holder that `at` lies in, made if need be; null where no buffer is.
  Holder* holder_at(DeviceAddress at, DeviceAddress* end);
  void add(Holder& holder, Run run);
  void add_written(Holder& holder, Run run);
  void add_anywhere(Holder& holder, Run run);
  std::uint64_t shorten(Holder& holder);
  Targets targets_at(std::span<const DeviceAddress> addresses) const;
  // How many had to go, or found no room.
  std::uint64_t add_given(const Buffer& buffer, const Given& given, std::uint64_t kernel);
  void collapse(Holder& holder);
  void clear(Holder& holder, AddressRange range);
  static void collect(const std::vector<Run>& runs, AddressRange range, std::vector<Run>* out);
  // Calls written(runs) for each holder that kernels may have written to, among those that are come to.
  template <class Written>
  void walk(std::span<const MemoryAccess> accesses, Written written, std::vector<DeviceAddress>* out);
  template <class Written>
  void visit(DeviceAddress address, Written written, std::vector<DeviceAddress>* out);
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
