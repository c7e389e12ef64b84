// SPDX-License-Identifier: Apache-2.0
// The race checker: derives orders and accesses (simulator/check/) from operations and calls, and reports errors. It
// only observes: nothing that the device does depends on it.
//
// When: an operation's place in the order is determined when it is submitted. Its accesses are checked when it is
// executed, which happens in an order that the rules allow; so an operation that was executed earlier can not be
// ordered after it. Calls of the host that remove memory are checked at once against everything that was executed, and
// leave a note for operations that are still pending.
//
// Where: device memory is tracked by physical page, so that accesses through two mappings of one page collide; pinned
// memory by its address. A finding reports the addresses that the operations named.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "simulator/check/findings.h"
#include "simulator/check/order.h"
#include "simulator/check/shadow.h"
#include "simulator/check/sparse_table.h"
#include "simulator/core/execution/kernel_watch.h"
#include "simulator/core/memory/buffers.h"
#include "simulator/core/memory/host_memory.h"
#include "simulator/core/memory/page_table.h"
#include "simulator/core/streams/timeline.h"

namespace simulator {

class RaceChecker {
 public:
  RaceChecker(const PageTable& table, const HostMemory& host, const Buffers& buffers, bool tagged,
              DeviceId devices = 1);

  Order& order() { return order_; }
  const Findings& findings() const { return findings_; }

  // The host function is about to run.
  void begins(const Operation& function);
  // Called before the operation's effects, while its ranges still have their former contents.
  void executes(const Operation& operation);
  // The kernel's buffers that can be watched while its host implementation runs.
  std::vector<Buffer> to_watch(const Kernel& kernel, DeviceId device) const;
  // Whether every byte that the kernel accesses is known when its code has run.
  static bool is_traced(const Kernel& kernel) {
    return kernel.real != nullptr && kernel.function == nullptr && !kernel.declared;
  }
  void kernel_accessed(const Operation& operation, std::span<const AccessedRange> ranges);
  // The accesses that the kernel was seen to make.
  void kernel_accessed(const Operation& operation, std::span<const KernelAccess> accesses);
  void executed(const Operation& operation);
  void inaccessible(const Operation& operation, Address at);

  // The host unmaps memory (or removes access) when operations up to `newest` have been submitted.
  void unmaps(const char* call, Address at, Bytes bytes, OperationId newest);
  // The host frees memory, which requires that it knows all operations on that memory to be complete. All operations
  // must have been executed.
  void frees(const char* call, Address at, Bytes bytes);
  // The driver hands out memory that is no longer in use: all former accesses have completed.
  void handed_out(Address at, Bytes bytes);
  // The host may access this memory itself, at any time.
  void host_may_access(Address at) { shared_with_host_.insert(at); }
  void discarded(PageRun run);

  void validate() const;

 private:
  Mark mark_of(const Operation& operation, Accessed accessed) const;
  void access(const Operation& operation, Accessed accessed, Address at, Bytes bytes, bool certain = true);
  void access_rows(const Operation& operation, Accessed accessed, Address at, const Shape& shape);
  void access_lifetime(const Operation& operation, const Lifetime& lifetime);
  void access_device(const Mark& mark, const Clock& clock, Address at, Bytes bytes);
  void name_once();
  void access_pinned(const Mark& mark, const Clock& clock, Address at, Bytes bytes);
  void check_late(const Mark& mark, Address at, Bytes bytes);
  void report(const Mark& mark);
  Shadow::Page pinned_page(Address at);
  template <typename Visit>
  void for_marks(Address at, Bytes bytes, Visit visit) const;
  bool is_watched(const Kernel& kernel, const Buffer& buffer, DeviceId device) const;
  struct Accessor;

  const PageTable& table_;
  const HostMemory& host_;
  const Buffers& buffers_;
  const bool tagged_;
  std::set<Address> shared_with_host_;
  Labels labels_;
  Findings findings_;
  Order order_;
  Shadow device_;
  Shadow pinned_;
  SparseTable<std::uint32_t> pinned_pages_;  // number of the page in pinned_, plus 1
  std::uint32_t next_pinned_page_ = 0;
  SparseTable<OperationId> unmapped_;  // the newest operation submitted when the page was last unmapped
  OperationId newest_unmapped_ = 0;    // the maximum of unmapped_
  Label label_ = 0;                    // of the current operation
  std::vector<Shadow::Page> whole_;    // scratch, kept for its capacity
  std::vector<std::uint32_t> stamps_;  // by device page: the access that last visited it
  std::uint32_t stamp_ = 0;
  Shadow::Conflicts conflicts_;
  // Kernels that atomically update a word that the current kernel updates so, too. By the value found there kernels
  // know who was first ("the last block sums up"). Whether they use it is unknown, so such a pair is not reported.
  std::set<OperationId> agreeing_;
};

}  // namespace simulator
