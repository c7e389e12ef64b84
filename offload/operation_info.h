// SPDX-License-Identifier: Apache-2.0
// Properties of an operation that its caller knows, besides its accesses.
#pragma once

#include <cstdint>
#include <span>

#include "offload/access.h"
#include "offload/operator_class.h"

namespace thermocline {

struct RelaunchInfo;

// kind: equal for equal work (a hash of function and grid, or of the kind of copy); 0 when unknown. nanoseconds: its
// recorded duration; 0 when unknown, and then it is measured (duration_meter.h).
//
// Its flags are bits, so that all are compared and copied at once: every operation's are.
struct OperationInfo {
  std::uint64_t kind = 0;
  std::uint64_t nanoseconds = 0;
  OperatorClass operator_class = OperatorClass::kOther;
  // The name of what runs; valid as long as the engine and its statistics. Null: unknown. Only reports interpret it.
  const char* name = nullptr;
  // A kernel or a graph: it may follow the pointers that are stored in the buffers whose addresses it was given.
  bool follows : 1 = false;
  // It waits for a value that may be written later, or it may be ordered after such a wait in a way that the library
  // does not see.
  bool may_block : 1 = false;
  // It writes its written ranges completely, without reading them (copies, sets).
  bool overwrites : 1 = false;
  // It is a copy that may read its source from the host copy of an eviction unit that has all of it
  // (Operation::host_copy). A copy to the host, which names no other range, does so where that unit is not on the
  // device. A copy within the device does so where source and target do not fit there together.
  bool reads_host_copy : 1 = false;
  // It is an upload whose caller can put the contents in memory of the library's on their way to the device
  // (Operation::upload_copies). kAtOnce: before the operation is committed. kInStream: when its turn in the stream
  // comes.
  enum class Source : std::uint8_t { kElsewhere, kAtOnce, kInStream };
  Source source = Source::kElsewhere;
  // If its call fails, a part of it may have been submitted (batches).
  bool may_fail_halfway : 1 = false;
  // It was prepared before and refused with not_ready, or it is the next part of an operation that is done in several
  // parts: it counts as the same operation.
  bool again : 1 = false;

  // How it may run again, and which of its accesses read and write; valid until the operation is committed. Null: it
  // may not run again.
  const RelaunchInfo* relaunch = nullptr;
  // For recordings: what the operation accesses and how, if the caller knows more than it passed to begin(). A range
  // that is written and not read is overwritten completely. Valid as long as `relaunch`; empty: nothing more is known.
  std::span<const MemoryAccess> seen{};

  // A single kernel, whose future launches can be recognized. Graphs can not.
  bool is_kernel() const { return follows && (name != nullptr || kind != 0); }
};

}  // namespace thermocline
