// SPDX-License-Identifier: Apache-2.0
// The copy of an eviction unit's host copy in the spill file (offload/spill/).
#pragma once

#include <cstdint>
#include <memory>

#include "driver/units.h"
#include "offload/spill/spill_queue.h"

namespace thermocline {

// kWriting: the contents are still only on the host. kWritten: they are in the file, and also on the host if the unit
// has host memory. kReading: they are in the file, and are being read into `memory`, which does not belong to the unit
// yet. kUnreadable: they are in the file, but reading failed; the next user gets an error, and may try again.
enum class FileCopyState : std::uint8_t { kWriting, kWritten, kReading, kUnreadable };

struct FileCopy {
  FileCopyState state = FileCopyState::kWriting;
  Bytes offset = 0, bytes = 0;              // a range of the file that belongs to this unit alone
  std::uint64_t checksum = 0;               // of the contents written there
  void* memory = nullptr;                   // while kReading
  std::shared_ptr<SpillTransfer> transfer;  // while kWriting or kReading
};

}  // namespace thermocline
