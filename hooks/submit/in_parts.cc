// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/in_parts.h"

#include <algorithm>
#include <optional>

#include "hooks/capture/capture_state.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/ends.h"
#include "hooks/submit/multi_device.h"
#include "offload/residency/unit_size.h"
#include "offload/sharing/budget_source.h"

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

// Rounds down to whole elements: an element that lies in two units is not divided.
std::size_t whole_grains(std::size_t bytes, std::size_t grain) { return bytes < grain ? grain : bytes - bytes % grain; }

// 0: no engine owns the address.
Bytes unit_bytes_from(CUdeviceptr at) {
  const HeldEngines engines;
  if (engines.none()) return 0;
  const ActiveEngine* const owner = engines->owner(DeviceAddress{at});
  return owner == nullptr ? 0 : owner->engine->unit_bytes_from(DeviceAddress{at});
}

// Takes no lock. A range this small lies in at most three units, at either end.
bool surely_fits(Bytes span_of_either_end) {
  const HeldEngines engines;
  if (engines.none()) return true;
  return span_of_either_end <= kUnitBytes &&
         std::all_of(engines->begin(), engines->end(),
                     [](const ActiveEngine* active) { return active->engine->fits_anywhere(2); });
}

// Extends the region from where it begins to the end of a unit of either end.
void fill_to_the_end_of_a_unit(const Placed& to, const Placed& from, std::size_t grain, Region* region) {
  const Box& one = to.box.width != 0 ? to.box : from.box;
  Fitting fits{one.layers - region->first_layer, one.rows - region->first_row};
  Bytes room = ~Bytes{0};
  for (const Placed* end : {&to, &from}) {
    const Bytes unit = end->box.width == 0 ? 0 : unit_bytes_from(begin_of(*end, *region));
    if (unit == 0) continue;
    const Fitting here = fitting(end->box, *region, unit);
    fits = {std::min(fits.layers, here.layers), std::min(fits.rows, here.rows)};
    room = std::min(room, unit);
  }
  extend_within(one, fits, whole_grains(room, grain), region);
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
                  RegionPart part, std::size_t grain) {
  if (const CUresult refused = refuse_past_an_end(stream, accesses); refused != CUDA_SUCCESS) return refused;
  const Box& box = to.box.width != 0 ? to.box : from.box;
  const Region whole{.layers = box.layers, .rows = box.rows};
  bool at_once = surely_fits(std::max(span_of(to.box), span_of(from.box)));
  const CUresult asked = at_once ? CUDA_SUCCESS : ask_whether_at_once(stream, accesses, &at_once);
  if (asked != CUDA_SUCCESS) return asked;
  if (at_once) return part(whole);
  std::optional<AmidParts> as_one;
  for (Region region{}; region.first_layer < box.layers; advance(box, &region)) {
    fill_to_the_end_of_a_unit(to, from, grain, &region);
    if (CUresult result = part(region); result != CUDA_SUCCESS) return result;
    as_one.emplace();
  }
  return CUDA_SUCCESS;
}

CUresult in_parts(StreamHandle stream, const AccessList& accesses, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                  Part part, std::size_t grain) {
  if (const CUresult refused = refuse_past_an_end(stream, accesses); refused != CUDA_SUCCESS) return refused;
  bool at_once = surely_fits(bytes);
  const CUresult asked = at_once ? CUDA_SUCCESS : ask_whether_at_once(stream, accesses, &at_once);
  if (asked != CUDA_SUCCESS) return asked;
  if (at_once) return part(0, bytes);
  std::optional<AmidParts> as_one;
  for (std::size_t done = 0; done < bytes;) {
    std::size_t now = bytes - done;
    for (const CUdeviceptr end : {to, from}) {
      const Bytes unit = end == 0 ? 0 : unit_bytes_from(end + done);
      if (unit != 0) now = std::min(now, whole_grains(unit, grain));
    }
    if (CUresult result = part(done, now); result != CUDA_SUCCESS) return result;
    as_one.emplace();
    done += now;
  }
  return CUDA_SUCCESS;
}

}  // namespace thermocline
