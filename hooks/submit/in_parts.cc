// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/in_parts.h"

#include <algorithm>

#include "hooks/capture/capture_state.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/multi_device.h"
#include "offload/residency/part_size.h"

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

// 0: no engine owns the address.
Bytes unit_bytes_from(CUdeviceptr at) {
  const HeldEngines engines;
  if (engines.none()) return 0;
  const ActiveEngine* const owner = engines->owner(DeviceAddress{at});
  return owner == nullptr ? 0 : owner->engine->unit_bytes_from(DeviceAddress{at});
}

// What lies in the eviction unit in which the region begins.
Fitting fitting_in_unit(const Placed& end, const Region& region) {
  const Box& box = end.box;
  const Bytes room = box.width == 0 ? 0 : unit_bytes_from(begin_of(end, region));
  return room == 0 ? Fitting{box.layers - region.first_layer, box.rows - region.first_row} : fitting(box, region, room);
}

// Extends the region from where it begins to the end of a unit of either end; at least one row.
void fill_to_the_end_of_a_unit(const Placed& to, const Placed& from, Region* region) {
  const Placed& one = to.box.width != 0 ? to : from;
  const Fitting a = fitting_in_unit(one, *region);
  const Fitting b = from.box.width != 0 ? fitting_in_unit(from, *region) : a;
  extend(one.box, {std::min(a.layers, b.layers), std::min(a.rows, b.rows)}, region);
}

}  // namespace

CUresult ask_whether_at_once(StreamHandle stream, const AccessList& accesses, bool* at_once) {
  *at_once = true;
  if (engines_now() == nullptr || is_recording(stream)) return CUDA_SUCCESS;
  return guarded([&] {
    *at_once = fits_at_once(accesses);
    return CUDA_SUCCESS;
  });
}

CUresult in_parts(StreamHandle stream, const AccessList& accesses, const Placed& to, const Placed& from,
                  RegionPart part) {
  const Box& box = to.box.width != 0 ? to.box : from.box;
  const Region whole{.layers = box.layers, .rows = box.rows};
  // Something this small always fits, together with the eviction units that contain it.
  const bool small = std::max(span_of(to.box), span_of(from.box)) <= kPartBytes;
  bool at_once = true;
  const CUresult asked = small ? CUDA_SUCCESS : ask_whether_at_once(stream, accesses, &at_once);
  if (asked != CUDA_SUCCESS) return asked;
  if (at_once) return part(whole);
  for (Region region{}; region.first_layer < box.layers; advance(box, &region)) {
    fill_to_the_end_of_a_unit(to, from, &region);
    if (CUresult result = part(region); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult in_parts(StreamHandle stream, const AccessList& accesses, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                  Part part) {
  // Something this small always fits, together with the eviction units that contain it.
  bool at_once = true;
  const CUresult asked = bytes <= kPartBytes ? CUDA_SUCCESS : ask_whether_at_once(stream, accesses, &at_once);
  if (asked != CUDA_SUCCESS) return asked;
  if (at_once) return part(0, bytes);
  for (std::size_t done = 0; done < bytes;) {
    std::size_t now = bytes - done;
    for (const CUdeviceptr end : {to, from}) {
      const Bytes unit = end == 0 ? 0 : unit_bytes_from(end + done);
      if (unit != 0) now = std::min<std::size_t>(now, unit);
    }
    if (CUresult result = part(done, now); result != CUDA_SUCCESS) return result;
    done += now;
  }
  return CUDA_SUCCESS;
}

}  // namespace thermocline
