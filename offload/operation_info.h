// SPDX-License-Identifier: Apache-2.0
// What a caller can say of an operation beside its accesses.
#pragma once

#include <cstdint>

#include "offload/operator_class.h"

namespace thermocline {

struct RelaunchInfo;

// What is known of an operation beside its accesses. kind: equal for equal work (a hash of function and grid, or of the
// kind of copy); 0 when unknown. nanoseconds: its duration as recorded; 0 when unknown, and
// then it is measured (duration_meter.h).
struct OperationInfo {
  std::uint64_t kind = 0;
  std::uint64_t nanoseconds = 0;
  OperatorClass operator_class = OperatorClass::kOther;
  const char* name =
      nullptr;  // of what runs, as long as the process lives; null: unknown. The engine does not look at it
  // A kernel, or a graph: it may go wherever the words lead that stand in the buffers whose addresses it was given.
  bool follows = false;
  // It waits for a value that may be written later, or may come behind such a wait in ways that nobody sees.
  bool may_block = false;
  // Ranges that it writes it writes whole, without looking at what was there (copies, sets).
  bool overwrites = false;
  // It reads the one range that it names, and nothing else: a copy to the host. What of a single eviction unit is not
  // on the device is not fetched for it, but read from the copy on the host (Operation::host_copy).
  bool reads_host_copy = false;
  // It was prepared before and answered not_ready, or is the rest of one that is done in several: it is the same
  // operation still.
  bool again = false;

  // How it may run again, and what of its accesses it reads and writes; lives until the operation is committed. Null:
  // it may not.
  const RelaunchInfo* relaunch = nullptr;

  // One kernel, of which something can be learnt by its next launches. Graphs are known by nothing.
  bool is_kernel() const { return follows && (name != nullptr || kind != 0); }
};

}  // namespace thermocline
