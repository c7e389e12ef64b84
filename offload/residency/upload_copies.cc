// SPDX-License-Identifier: Apache-2.0
// Host copies that uploads leave (offload/engine/upload_copies.cc).
#include "driver/check.h"
#include "offload/residency/residency.h"

namespace thermocline {

// A buffer that is filled again before a copy of it has saved anything is an input, not a weight.
bool Residency::wants_upload_copy(const EvictionUnit& unit) const {
  return !unit.is_input && !is_pinned(unit) && unit.whole->block->bytes() >= options_.min_offload_bytes;
}

// The end of the copy is undefined where the upload ends before the unit's contents. The digest would be of what is there
// on the device, and a program that writes the same there would be given back what the copy has. Without digest the next
// write ends the copy.
void Residency::keep_upload(EvictionUnit& unit, void* host, Bytes bytes, Use use, bool at_once) {
  THERMOCLINE_CHECK(unit.mapped() && unit.defined, "an upload fills memory on the device");
  drop_host_copy(unit);
  migration_.keep_upload(unit, host, use, at_once);
  unit.uploaded = true;
  ++statistics_.upload_copies;
  statistics_.upload_copy_bytes += unit.host_bytes;
  if (bytes == unit.host_bytes) take_digest_of_copy(unit);
  set_state(unit, ResidencyState::kClean);
}

}  // namespace thermocline
