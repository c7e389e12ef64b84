// SPDX-License-Identifier: Apache-2.0
// How a copy of rows is divided: into whole layers; into rows of one layer; or, if even one row is too much, into parts
// of a row.
#pragma once

#include "hooks/submit/shapes.h"

namespace thermocline {

struct Region {
  Bytes first_layer = 0, layers = 1;
  Bytes first_row = 0, rows = 1;
  Bytes first_byte = 0, bytes = 0;  // of each row; 0 bytes: to the end of the row
};

// Where the region begins at this end.
CUdeviceptr begin_of(const Placed& end, const Region& region);
// This end of the region alone.
Placed part_of(const Placed& end, const Region& region);
// `inner` is a region of `outer`: the same as a region of the whole copy.
Region within(const Region& outer, const Region& inner);

// Whole layers, or rows of the layer in which the region begins, that lie in the first `room` bytes from there.
struct Fitting {
  Bytes layers, rows;
};
Fitting fitting(const Box& box, const Region& region, Bytes room);
// Sets the end of the region; it has at least one row.
void extend(const Box& box, const Fitting& fitting, Region* region);
// Sets the end of a region whose rows may be divided: the region lies in the first `room` bytes, of which there is at
// least one.
void extend_within(const Box& box, Bytes room, Region* region);
// extend_within() if it is known what fits: of a row that does not fit, the region gets the part in `room`.
void extend_within(const Box& box, const Fitting& fits, Bytes room, Region* region);
// The next region begins where this one ends; after the last one, `first_layer` is the number of layers.
void advance(const Box& box, Region* region);

}  // namespace thermocline
