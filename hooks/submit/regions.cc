// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/regions.h"

#include <algorithm>

namespace thermocline {
namespace {

// How many pieces of `bytes`, `stride` bytes apart, end within `room`.
Bytes pieces_within(Bytes room, Bytes bytes, Bytes stride, Bytes most) {
  if (room < bytes) return 0;
  return stride == 0 ? most : std::min((room - bytes) / stride + 1, most);
}

}  // namespace

CUdeviceptr begin_of(const Placed& end, const Region& region) {
  return end.at + (region.first_layer * end.box.layer_rows + region.first_row) * end.box.pitch + region.first_byte;
}

Placed part_of(const Placed& end, const Region& region) {
  Placed part{begin_of(end, region), end.box};
  part.box.layers = region.layers;
  part.box.rows = region.rows;
  if (region.bytes != 0) part.box.width = region.bytes;
  return part;
}

Region within(const Region& outer, const Region& inner) {
  Region region = inner;
  region.first_layer += outer.first_layer;
  region.first_row += outer.first_row;
  region.first_byte += outer.first_byte;
  if (inner.bytes == 0) region.bytes = outer.bytes;
  return region;
}

Fitting fitting(const Box& box, const Region& region, Bytes room) {
  const Bytes layer_bytes = (box.rows - 1) * box.pitch + box.width;
  return {pieces_within(room, layer_bytes, box.layer_rows * box.pitch, box.layers - region.first_layer),
          pieces_within(room, box.width, box.pitch, box.rows - region.first_row)};
}

void extend(const Box& box, const Fitting& fitting, Region* region) {
  region->layers = region->first_row == 0 ? fitting.layers : 0;
  region->rows = box.rows;
  if (region->layers != 0) return;
  region->layers = 1;
  region->rows = std::max(Bytes{1}, fitting.rows);
}

void extend_within(const Box& box, Bytes room, Region* region) {
  extend_within(box, fitting(box, *region, room), room, region);
}

void extend_within(const Box& box, const Fitting& fits, Bytes room, Region* region) {
  const bool divided = region->first_byte != 0 || fits.rows == 0;
  extend(box, divided ? Fitting{0, 1} : fits, region);
  region->bytes = divided ? std::min(box.width - region->first_byte, room) : 0;
}

void advance(const Box& box, Region* region) {
  if (region->bytes != 0 && region->first_byte + region->bytes < box.width) {
    region->first_byte += region->bytes;
    return;
  }
  region->first_byte = 0;
  region->first_row += region->rows;
  if (region->first_row < box.rows) return;
  region->first_row = 0;
  region->first_layer += region->layers;
}

}  // namespace thermocline
