// SPDX-License-Identifier: Apache-2.0
// A dry run: nothing leaves the device, but an operation is let into the blocks alone that it is known to access. Every
// other block of the program has its access taken away meanwhile, so whatever would meet an evicted buffer faults,
// with the same budget for everybody: the device's. Slow: the device is waited for behind each operation, which also
// tells which of them faulted.
//
// A block is open while an operation runs that accesses it, and for good once a buffer in it may not leave. Else it is
// shut. What cannot be shut or opened counts as not looked at.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

#include "allocator/block.h"
#include "driver/driver.h"
#include "offload/operation_info.h"
#include "offload/residency/block_state.h"
#include "offload/statistics.h"

namespace thermocline {

class Audit {
 public:
  Audit(const Driver& driver, int device) : driver_(driver), device_(device) {}

  // Addresses of which nobody has been told yet.
  void allocated(const Block& block) { shut(block); }
  void pinned(const Block& block) {
    if (!open(block)) ++statistics_.left_open;
  }
  // An operation to which everything is open.
  void unknown() { ++statistics_.unknown; }
  // Before it is submitted; an error: it must not be.
  Status begin(std::span<BlockState* const> operands);
  // Behind its submission: waits for it.
  void end(StreamHandle stream, std::span<BlockState* const> operands, const OperationInfo& info);

  const AuditStatistics& statistics() const { return statistics_; }

 private:
  bool open(const Block& block);
  void shut(const Block& block);

  const Driver& driver_;
  const int device_;
  std::set<const char*> names_;
  AuditStatistics statistics_;
};

// What an audit comes to, in one line.
std::string audit_text(const AuditStatistics& audit);

}  // namespace thermocline
