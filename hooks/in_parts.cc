// SPDX-License-Identifier: Apache-2.0
#include "hooks/in_parts.h"

#include <algorithm>

#include "hooks/spanning.h"
#include "offload/part_size.h"

namespace thermocline {
namespace {

bool fits_at_once(const AccessList& accesses) {
  const HeldEngines engines;
  if (engines.none() || Runtime::get().broken()) return true;
  return std::all_of(engines->begin(), engines->end(), [&](const ActiveEngine* active) {
    const AccessList part = part_of(accesses, *active);
    return part.empty() || active->engine->fits(part.all());
  });
}

// 0: nobody's of ours.
Bytes unit_bytes_from(CUdeviceptr at) {
  const HeldEngines engines;
  if (engines.none()) return 0;
  const ActiveEngine* const owner = engines->owner(DeviceAddress{at});
  return owner == nullptr ? 0 : owner->engine->unit_bytes_from(DeviceAddress{at});
}

}  // namespace

CUresult in_parts(StreamHandle stream, const AccessList& accesses, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                  Part part) {
  // Nothing so small is larger than the room for it and what it lies in.
  if (bytes <= kPartBytes || engines_now() == nullptr) return part(0, bytes);
  if (is_recording(stream)) return part(0, bytes);
  bool at_once = true;
  const CUresult asked = guarded([&] {
    at_once = fits_at_once(accesses);
    return CUDA_SUCCESS;
  });
  if (asked != CUDA_SUCCESS) return asked;
  if (at_once) return part(0, bytes);
  for (std::size_t done = 0; done < bytes;) {
    Bytes unit = to == 0 ? 0 : unit_bytes_from(to + done);
    if (unit == 0 && from != 0) unit = unit_bytes_from(from + done);
    const std::size_t now = unit == 0 ? bytes - done : std::min<std::size_t>(bytes - done, unit);
    if (CUresult result = part(done, now); result != CUDA_SUCCESS) return result;
    done += now;
  }
  return CUDA_SUCCESS;
}

}  // namespace thermocline
