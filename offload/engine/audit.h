// SPDX-License-Identifier: Apache-2.0
// The audit: a run that finds unseen accesses. Nothing is evicted, but an operation can access only the blocks that it
// is known to access. Every other block of the program is made inaccessible meanwhile, so an access that would hit an
// evicted buffer faults. The budget is all of the device's memory. Slow: the audit waits for the device after each
// operation, which also tells which operation faulted.
//
// A block is open (accessible) while an operation that accesses it runs, and for good once a buffer in it is pinned.
// Otherwise it is shut. A block that cannot be shut or opened is counted as unchecked.
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

  // The block is new: nobody has been told its addresses yet.
  void allocated(const Block& block) { shut(block); }
  void pinned(const Block& block) {
    if (!open(block)) ++statistics_.left_open;
  }
  // An operation ran with every block open.
  void unknown() { ++statistics_.unknown; }
  // Before the operation is submitted. On an error it must not be submitted.
  Status begin(std::span<BlockState* const> operands);
  // After the operation was submitted: waits for it.
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

// The result of an audit, in one line.
std::string audit_text(const AuditStatistics& audit);

}  // namespace thermocline
