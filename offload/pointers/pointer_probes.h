// SPDX-License-Identifier: Apache-2.0
// Pointer probes: find the kernels that write pointer tables, that is, store addresses of their arguments in small
// buffers where other kernels find them (docs/hidden_pointers.md). The writes of a kernel are not known, and nearly all
// kernels are given small buffers. So after a kernel's first launch, and then after its second, fourth, eighth and so
// on, the small buffers that it was given are copied to the host, in the kernel's own stream. If one contains an
// address that was not known to be there, of memory that the kernel could reach, then the kernel has written it. After
// two such probes in a row, the kernel counts as one that writes pointers.
//
// Until a kernel's first probe is complete, it may have written anything (References::written_by_kernel, under a number
// of its own); the result of the probe then confirms or retracts that. Before something is fetched only for such a
// reason, pending probes are evaluated, which may make the host wait.
//
// Kernels are distinguished by name, and by whether stored pointers can be reached from their arguments: a kernel that
// copies words writes pointers only if it is given some.
//
// The program may order its work so that other work writes to another part of a buffer, or to something that the kernel
// does not use, during the probe. Ordering the probe after that work would make streams wait for each other in ways
// that the program does not expect. So a probe may read data that is only partly written; then it finds fewer pointers,
// or none.
//
// No probe is made in these cases, and what the kernel may have written then remains assumed:
//   - any stream is capturing a graph (the kernel is probed later);
//   - a kernel is given too many small buffers, or too large ones, for them to be pointer tables;
//   - the driver has no pinned memory for probes.
//
// Guarded by the engine's lock.
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
  // `annotate`: tells tools that the probes' reads are not the program's (driver/nvtx_range.h).
  PointerProbes(const Driver& driver, StreamClock& clock, const Heap& heap, References& references, bool annotate)
      : driver_(driver), clock_(clock), heap_(heap), references_(references), annotate_(annotate) {}
  // No probe may still be copying.
  ~PointerProbes();
  PointerProbes(const PointerProbes&) = delete;
  PointerProbes& operator=(const PointerProbes&) = delete;

  // A kernel with these accesses, including small buffers, is about to be submitted; `is_led`: stored pointers can be
  // reached from its arguments.
  void arriving(const OperationInfo& info, std::span<const MemoryAccess> accesses, bool is_led);
  // True: a kernel with small buffers has arrived from whose arguments no stored pointers can be reached, and is not
  // probed now. False: arriving() has to be told.
  bool passes(const OperationInfo& info);
  // Whether at least two probes of this kernel's own launches found that it writes no pointers when it is given
  // none.
  bool writes_none(const char* name) const;
  // Names may mean other kernels from now on: the results for them are forgotten.
  void kernels_may_be_others();
  // The kernel will not be submitted after all.
  void abandoned() { present_ = nullptr; }
  bool has_arrived() const { return present_ != nullptr; }
  // The kernel has been submitted to the stream; StreamClock::advance has not counted it yet.
  void submitted(StreamIndex stream);

  bool any_under_way() const { return !looks_.empty(); }
  // Evaluates the probes that have completed (kYes: waits for all). True if there was any.
  bool evaluate_completed(Wait wait);

  std::uint64_t looks() const { return made_; }
  // Number of kernels known to write pointers.
  std::uint64_t kernels() const { return writers_; }

 private:
  // State of a kernel; its launches with small buffers count.
  struct Kernel {
    std::uint64_t number = 0;
    std::uint64_t launches = 0, next_look = 1;
    std::uint64_t clean_looks = 0;  // in a row
    bool under_way = false;
    bool looked_at = false;  // the last probe found that it had written no pointers
    bool suspect = false;    // the last probe found that it had
    bool is_writer = false;
  };
  struct Range {
    std::uint64_t begin, end;  // the address `end` belongs to it, too
  };
  struct Part {
    DeviceAddress at;
    std::uint64_t number = 0;  // of the buffer
    Bytes bytes = 0, offset = 0;
    std::vector<Range> known;  // memory that pointers in it may have pointed to before
  };
  struct Look {
    Kernel* kernel = nullptr;
    std::uint64_t number = 0;  // the kernel's number at that time
    bool is_former = false;    // the name may mean another kernel since
    Use use;
    Bytes begin = 0, end = 0;  // position in the room
    std::vector<Part> parts;
    std::vector<Range> targets;  // the kernel's arguments, and what it could reach from them
  };
  // Words that are addresses in the targets.
  struct Findings {
    bool any = false, any_new = false;
    std::vector<HeldWord> stored;  // new ones, in buffers that still exist
  };

  static std::uint64_t name_of(const OperationInfo& info) {
    return info.name != nullptr ? reinterpret_cast<std::uintptr_t>(info.name) : info.kind;
  }
  // The launch is counted. False: it may be probed.
  static bool is_passed(Kernel& kernel) {
    if (!kernel.looked_at || kernel.launches + 1 >= kernel.next_look) return false;
    ++kernel.launches;
    return true;
  }
  bool is_given_a_table(std::span<const MemoryAccess> accesses) const;
  std::vector<Part> small_ones(const References::Given& given, const Kernel& kernel) const;
  std::vector<Range> ranges_of(const References::Targets& buffers) const;
  std::vector<Range> own_ranges_of(const References::Targets& buffers) const;
  // Reserves pinned host memory for this many bytes; false: there is none at present.
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
  std::vector<MemoryAccess> accesses_;  // of the present kernel
  std::deque<Look> looks_;              // pending probes, oldest first; their memory is in this order, in a ring
  std::byte* room_ = nullptr;
  bool is_blind_ = false;  // the driver has refused the pinned memory: it is not asked again
  std::uint64_t made_ = 0, writers_ = 0;
};

}  // namespace thermocline
