// SPDX-License-Identifier: Apache-2.0
// The pointer map: addresses of the program's buffers that are stored in memory, as far as they were seen when they
// were written. A kernel that is given a buffer may follow the pointers stored in it. So the buffers that they point to
// are accessed too, and so is everything reachable from there.
//
// Pointers are stored by location, as runs: between `begin` and `end` there are addresses that mean the same buffers
// (Heap::meant_by), one of which is `target`. A pointer stays until it is overwritten or its buffer is freed. Targets
// are addresses, not buffers: if the target is freed and its address reused, the pointer points to the new buffer, as
// it does on the device.
//
// Memory outside the engine (globals of modules, the program's own mappings, CUDA managed memory) can contain pointers
// too. Any kernel may read it, so buffers that such pointers point to are accessed by every kernel.
//
// The engine does not see what a kernel writes. Kernels that are known to write pointers (OperatorClass::kTables), or
// not yet known not to (pointer_probes.h), are assumed to store everything that they were given or could reach
// somewhere in each small buffer that they were given: these are separate runs, over the whole buffer. If there are too
// many, or if contents could not be searched at all, one run says that any address may be stored there (kAnywhere). If
// exact knowledge is needed, the memory is read from the device (Engine::State::read_tables).
//
// Invariants (checked by validate):
//   - a holder is a live buffer, and its runs lie inside it and are not empty;
//   - no holder is without runs, and runs() is their number;
//   - a holder has at most kMostRuns runs; if its words mean more combinations of buffers, one run for each of these;
//   - a holder has at most kMostWritten runs written by kernels (of one kernel and target: one over all of it, and one
//     where it was found, when they are added), plus at most kMostAnywhere that may point anywhere.
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
  // Larger buffers are not pointer tables of kernels, but what the tables point to.
  static constexpr Bytes kMostTableBytes = Bytes{256} << 10;

  // Whether a table may be in the block.
  static bool may_hold_a_table(const Block& block) {
    return block.is_slab() && block.least_requested() <= kMostTableBytes;
  }
  // Whether a kernel that is given the address is given a buffer in which it may store addresses.
  static bool may_be_given_a_table(const Heap& heap, DeviceAddress address);

  explicit References(const Heap& heap) : heap_(heap) {}

  bool empty() const { return runs_ == 0; }
  // Whether any pointer is stored in memory outside the engine.
  bool any_outside() const { return !outside_.empty(); }
  std::uint64_t runs() const { return runs_; }
  // How often written_by_kernel() has found an address that was not known to be in a table, so far.
  std::uint64_t additions() const { return additions_; }

  // A copy has written these words. Words that are no address of a live buffer are ignored.
  void hold(std::span<const HeldWord> words);
  // The whole range has been overwritten with something else.
  void overwritten(DeviceAddress at, Bytes bytes);
  // The contents of `from` have been copied to `to`, byte by byte. Not exact: they are somewhere in `to`, and its
  // former contents may remain.
  void copied(AddressRange to, AddressRange from, bool exact);
  // A copy of a graph will overwrite the range if its node runs. Between the two calls hold() and copied() tell what it
  // writes. Pointers stored there before, and not among those, then count as possibly written by a kernel: they are
  // followed, or the memory is read. Memory outside the engine cannot be read: its pointers stay, or are forgotten.
  void will_be_overwritten(AddressRange range);
  void told_what_overwrites(AddressRange range);
  // In place of the second call, if the copy certainly runs.
  void forget_former(AddressRange range);

  using Targets = std::vector<const Buffer*>;  // in order of address, each once
  // The buffers that a kernel was given with these accesses, and those that it could reach from there.
  struct Given {
    Targets named, reachable;
    bool anywhere = false;  // its arguments may point anywhere
  };
  Given given(std::span<const MemoryAccess> accesses);
  // The kernel may have stored the address of any of these in any small buffer that it was given. If a buffer would
  // need more than kMostWritten entries, some are not stored: first the assumed ones, then the oldest; such a buffer
  // may point anywhere. Returns how many were not stored. `kernel`: number of a kernel for which this is only assumed,
  // until it is confirmed or retracted; 0: it is known.
  std::uint64_t written_by_kernel(const Given& given, std::uint64_t kernel = 0);
  // Whether kernels may have stored addresses in the range.
  bool may_be_stored_in(AddressRange range);
  // Contents were written there that could not be searched.
  void hold_unknown(AddressRange range);
  // Exactly these addresses are stored in the range (of one buffer); and those that copies were told to write, if these
  // may come later.
  void now_hold(AddressRange range, std::span<const HeldWord> words, bool copies_may_come);
  // A kernel has stored these words.
  void found(std::span<const HeldWord> words);
  void confirm(std::uint64_t kernel);
  void retract(std::uint64_t kernel);
  // The buffers that words in `buffer` may point to, except words that only this kernel may have written.
  Targets targets_of(const Buffer& buffer, std::uint64_t but_by = 0) const;

  // The buffer was freed, or belongs to another owner now.
  void forget(const Buffer& buffer);

  struct Followed {
    bool by_tables = false;  // pointers that kernels may have written point to something
    bool anywhere = false;   // to anything that is live
  };
  // Appends the buffers that a kernel with these accesses can reach.
  Followed follow(std::span<const MemoryAccess> accesses, std::vector<DeviceAddress>* out);
  // Appends only what copies have stored, and what may be stored outside the engine. True: any address may be there.
  bool follow_certain(std::span<const MemoryAccess> accesses, std::vector<DeviceAddress>* out);
  // Addresses that were read from ranges in which kernels may have written some.
  using TableWords = std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<DeviceAddress>>;
  // follow() with `read` in place of what may have been written; appends the ranges that still have to be read.
  // Memory outside the engine is not read, because it may have been freed. True: any address may be stored there.
  bool follow_read(std::span<const MemoryAccess> accesses, const TableWords& read, std::vector<DeviceAddress>* out,
                   std::vector<AddressRange>* unread);

  void validate() const;

 private:
  static constexpr DeviceAddress kAnywhere{0};
  struct Run {
    DeviceAddress begin, end, target;
    std::uint64_t kernel = 0;  // may have written it, and is not known to write pointers
    bool is_former = false;    // stored there before the announced overwrite (will_be_overwritten)
  };
  struct Holder {
    Bytes bytes = 0;
    std::uint64_t number = 0;  // of the buffer
    std::uint64_t walk = 0;    // the last traversal that visited it
    std::size_t most = kMostRuns;
    std::vector<Run> runs;
    std::vector<Run> written;  // by kernels, the newest last

    bool empty() const { return runs.empty() && written.empty(); }
    std::size_t size() const { return runs.size() + written.size(); }
  };

  bool is_ours(DeviceAddress at) const { return at.value - heap_.range_begin().value < heap_.range_bytes(); }
  // Calls visit(holder, run) for each stored pointer to a live buffer.
  template <class Visit>
  void for_each_word(std::span<const HeldWord> words, Visit visit);
  // The holder that contains `at`, created if necessary; null if there is no buffer.
  Holder* holder_at(DeviceAddress at, DeviceAddress* end);
  void add(Holder& holder, Run run);
  void add_written(Holder& holder, Run run);
  void add_anywhere(Holder& holder, Run run);
  std::uint64_t shorten(Holder& holder);
  Targets targets_at(std::span<const DeviceAddress> addresses) const;
  // Returns how many were removed or not stored.
  std::uint64_t add_given(const Buffer& buffer, const Given& given, std::uint64_t kernel);
  void collapse(Holder& holder);
  void clear(Holder& holder, AddressRange range, bool only_written = false);
  static void add_beside(Holder& holder, const Run& run);
  void add_as_written(Holder& holder, const std::vector<Run>& runs);
  static void collect(const std::vector<Run>& runs, AddressRange range, std::vector<Run>* out);
  // Calls written(runs) for each reachable holder to which kernels may have written.
  template <class Written>
  void walk(std::span<const MemoryAccess> accesses, Written written, std::vector<DeviceAddress>* out);
  template <class Written>
  void visit(DeviceAddress address, Written written, std::vector<DeviceAddress>* out);
  // Visits each holder that overlaps the range; removes those that are left without runs.
  template <class Visit>
  void for_each_in(AddressRange range, Visit visit);

  const Heap& heap_;
  std::map<std::uint64_t, Holder> holders_;  // by address
  Holder outside_;
  std::uint64_t runs_ = 0;
  std::uint64_t additions_ = 0;
  std::uint64_t walk_ = 0;
};

}  // namespace thermocline
