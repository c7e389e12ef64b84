// SPDX-License-Identifier: Apache-2.0
// The forward pass of an iteration: it ends where most bytes are live. Finds the contents that it makes, those that the
// backward pass reads, and where it is narrow. Segments of the forward pass are what checkpointing recomputes.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/planning/profile.h"
#include "offload/recompute/lineage.h"
#include "offload/recompute/rewriting.h"
#include "offload/recompute/schedule.h"

namespace thermocline {

// By place: live bytes with everything on the device.
std::vector<double> live_bytes_of(const Profile& profile);

// Whether the contents of a buffer of the lineage may be dropped at all: it lives within the iteration.
bool may_be_dropped(const Profile& profile, const Lineage& lineage, std::uint32_t buffer);

struct ForwardPass {
  ForwardPass(const Profile& profile, const Lineage& lineage);

  // A version that the forward pass makes and reads again later in the forward pass. It crosses from each place in
  // [made, read) to the next one.
  struct Crossing {
    VersionId version;
    std::uint32_t made, read;
    bool stays;  // the backward pass reads it, too: it still exists when what comes later is recomputed
  };

  std::uint32_t forward_end;        // its last place
  std::vector<Drop> drops;          // contents made in it that the backward pass reads, by `last_use`
  std::vector<Crossing> crossings;  // by `made`; small buffers are left out

  // Places after which fewest versions cross, compared with nearby places. If adjacent places are equally narrow, takes
  // those before an operation that takes at least the average time; if there is none, the last. Places where a version
  // crosses that does not stay are included only if this holds at all of them. Versions that cross an eighth of the
  // forward pass (skip connections) do not count.
  std::vector<std::uint32_t> narrow_points(const Profile& profile) const;
  // By place: bytes that cross from it to the next one, and those of them that do not stay.
  std::vector<Bytes> crossing_bytes(const Lineage& lineage, bool only_leaving) const;
};

// Splits the forward pass into segments that end at these places, ascending; the rest is the last segment. Versions
// that cross from one segment to another are kept; all others are dropped, and recomputed segment by segment.
// `keeps_last`: the last segment is kept whole, because the backward pass begins with it.
Schedule recompute_segments(const ForwardPass& pass, const Lineage& lineage, const std::vector<std::uint32_t>& ends,
                            bool keeps_last = true);

}  // namespace thermocline
