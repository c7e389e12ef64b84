// SPDX-License-Identifier: Apache-2.0
// The forward pass of an iteration: it ends where most bytes are live. What it makes, what the backward pass reads of
// that, and where it is narrow. Segments of the forward pass are what checkpointing recomputes.
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
    bool stays;  // the backward pass reads it, too: it is there when what is behind is recomputed
  };

  std::uint32_t forward_end;        // its last place
  std::vector<Drop> drops;          // contents made in it that the backward pass reads, by `last_use`
  std::vector<Crossing> crossings;  // by `made`; small buffers are left out

  // Places after which fewest versions cross, compared with the places around. Of neighbours that are equally narrow,
  // those before an operation that takes at least as long as the average one; if there is none, the last. Where
  // something crosses that does not stay, only if it does so at all of them. Versions that cross an eighth of the forward
  // pass (skip connections) do not count.
  std::vector<std::uint32_t> narrow_points(const Profile& profile) const;
  // By place: bytes that cross from it to the next one, and those of them that do not stay.
  std::vector<Bytes> crossing_bytes(const Lineage& lineage, bool only_leaving) const;
};

// The forward pass in segments that end at these places, ascending; the rest is the last segment. What crosses from one
// segment to another is kept, everything else is dropped, and recomputed segment by segment. `keeps_last`: the last
// segment is all kept, because the backward pass begins with it.
Schedule recompute_segments(const ForwardPass& pass, const Lineage& lineage, const std::vector<std::uint32_t>& ends,
                            bool keeps_last = true);

}  // namespace thermocline
