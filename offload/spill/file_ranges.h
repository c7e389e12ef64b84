// SPDX-License-Identifier: Apache-2.0
// Allocates ranges of a file: best fit, with coalescing. Each range belongs to one owner.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "driver/units.h"

namespace thermocline {

class FileRanges {
 public:
  // `limit`: the end of the last range, rounded down to kSpillAlignment.
  explicit FileRanges(Bytes limit);

  // `bytes`: a multiple of kSpillAlignment, above 0. Nothing: no free range is large enough.
  std::optional<Bytes> take(Bytes bytes);
  void give(Bytes offset);

  Bytes limit() const { return limit_; }
  Bytes taken_bytes() const { return taken_bytes_; }
  std::size_t ranges() const { return taken_.size(); }
  // The length of the range that begins there; 0: none does.
  Bytes bytes_at(Bytes offset) const;

  void validate() const;

 private:
  void add_free(Bytes offset, Bytes bytes);
  void remove_free(std::map<Bytes, Bytes>::iterator range);

  const Bytes limit_;
  Bytes taken_bytes_ = 0;
  std::map<Bytes, Bytes> taken_, free_;         // bytes by offset; no two free ranges adjoin
  std::set<std::pair<Bytes, Bytes>> by_bytes_;  // the free ones: bytes, offset
};

}  // namespace thermocline
