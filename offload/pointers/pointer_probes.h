// SPDX-License-Identifier: Apache-2.0
// Finds the kernels that write tables: addresses of what they were given, into small buffers, where other kernels find
// them (docs/hidden_pointers.md). Nothing says what a kernel writes, and nearly all kernels are given small buffers. So
// they are looked at: behind a kernel's first launch, and then behind its second, fourth, eighth and so on, the small
// buffers that it was given are copied to the host, in the kernel's own stream. If an address stands in one that was
// not known to stand there before and leads to something that the kernel was given, the kernel has put it there. Two
// such looks in a row, and it counts as one that writes tables from then on.
//
// Until a kernel's first look is over it may have written anything (References::written_by_kernel, by its number);
// then that is either confirmed or taken back. Whoever would bring something back to the device only for such a
// reason has the looks under way settled first, which may make the host wait.
//
// Kernels are told apart by name, and by whether what they were given leads on to something: one that copies words
// from here to there writes tables where it is given one.
//
// The program may order its work so that others write to another part of a buffer, or to what the kernel does not use,
// while it is being looked at. Ordering them would make streams wait for each other in ways that their program does not
// know of, so a look may read what is only half written: then it finds less, or nothing.
//
// No look is made while any stream records a graph: what a kernel may have written then stands until it is looked at
// later. Nor where a kernel is given so many small buffers, or so large ones, that nobody would take them for tables.
// Where the driver has no pinned memory for looks, none is made: what any kernel may have written stands. Guarded by
// the engine's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "allocator/heap.h"
#include "allocator/stream_clock.h"
#include "driver/driver.h"
#include "offload/access.h"
#include "offload/operation_info.h"
#include "offload/pointers/references.h"

namespace thermocline {

class PointerProbes {
 public:
  // `annotate`: tools are told that looks are no reads of the program's (driver/nvtx_range.h).
  PointerProbes(const Driver& driver, StreamClock& clock, const Heap& heap, References& references, bool annotate)
      : driver_(driver), clock_(clock), heap_(heap), references_(references), annotate_(annotate) {}
  // No copy of it may be under way.
  ~PointerProbes();
  PointerProbes(const PointerProbes&) = delete;
  PointerProbes& operator=(const PointerProbes&) = delete;

  // A kernel that was given these, with small buffers among them, is about to be submitted; `is_led`: words in memory
  // lead on from there.
  void arriving(const OperationInfo& info, std::span<const MemoryAccess> accesses, bool is_led);
  // It will not be.
  void abandoned() { present_ = nullptr; }
  bool has_arrived() const { return present_ != nullptr; }
  // It has been submitted to the stream; its place in it is not counted yet (StreamClock::advance).
  void submitted(StreamIndex stream);

  bool any_under_way() const { return !looks_.empty(); }
  // Comes to a verdict about what has passed (kYes: waits for all). True if there was any.
  bool settle(Wait wait);

  std::uint64_t looks() const { return made_; }
  // That write tables, as far as is known.
  std::uint64_t kernels() const { return writers_; }

 private:
  // Of launches with small buffers.
  struct Kernel {
    std::uint64_t number = 0;
    std::uint64_t launches = 0, next_look = 1;
    bool under_way = false;
    bool looked_at = false;  // the last look found that it had written nothing
    bool suspect = false;    // the last look found that it had
    bool is_writer = false;
  };
  struct Range {
    std::uint64_t begin, end;  // one past the end is an address of it, too
  };
  struct Part {
    DeviceAddress at;
    std::uint64_t number = 0;  // of the buffer
    Bytes bytes = 0, offset = 0;
    std::vector<Range> known;  // where words in it may have led to before
  };
  struct Look {
    Kernel* kernel = nullptr;
    Use use;
    Bytes begin = 0, end = 0;  // of the room
    std::vector<Part> parts;
    std::vector<Range> targets;  // what the kernel was given, and may have come to
  };
  // Words that lead to what the kernel was given.
  struct Findings {
    bool any = false, any_new = false;
    std::vector<HeldWord> standing;  // new, in buffers that are still there
  };

  std::vector<Part> small_ones(const References::Given& given, const Kernel& kernel) const;
  std::vector<Range> ranges_of(const References::Targets& buffers) const;
  // Room for so many bytes on the host, which is pinned; false: there is none at present.
  bool take_room(Bytes bytes, Look* look);
  void look(Kernel& kernel, StreamIndex stream, const References::Given& given, std::vector<Part> parts);
  void judge(const Look& look);
  Findings find_in(const Look& look) const;

  const Driver& driver_;
  StreamClock& clock_;
  const Heap& heap_;
  References& references_;
  const bool annotate_;
  std::unordered_map<std::uint64_t, Kernel> kernels_;
  std::uint64_t numbers_ = 0;
  Kernel* present_ = nullptr;
  std::vector<MemoryAccess> accesses_;  // of the present one
  std::deque<Look> looks_;              // under way, oldest first; their room lies in this order, round the end
  std::byte* room_ = nullptr;
  bool is_blind_ = false;  // the driver has refused the room: it is not asked again
  std::uint64_t made_ = 0, writers_ = 0;
};

}  // namespace thermocline
