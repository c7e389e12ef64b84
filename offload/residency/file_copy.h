// SPDX-License-Identifier: Apache-2.0
// The copy of an eviction unit's host copy in the spill file (offload/spill/).
#pragma once

#include <cstdint>
#include <memory>

#include "driver/units.h"
#include "offload/spill/spill_queue.h"

namespace thermocline {

// kWriting: the contents are still on the host alone. kWritten: they are in the file, and on the host where the unit has
// host memory. kReading: they are in the file, and on their way into `memory`, which is not the unit's yet.
// kUnreadable: they are in the file, and could not be read; whoever needs them next is told, and may try again.
enum class FileCopyState : std::uint8_t { kWriting, kWritten, kReading, kUnreadable };

struct FileCopy {
  FileCopyState state = FileCopyState::kWriting;
  Bytes offset = 0, bytes = 0;              // a range of the file that is this unit's alone
  std::uint64_t checksum = 0;               // of what has been written there
  void* memory = nullptr;                   // while kReading
  std::shared_ptr<SpillTransfer> transfer;  // while kWriting or kReading
};

}  // namespace thermocline
