// SPDX-License-Identifier: Apache-2.0
// Marks of operators that may be split: the contents of some operands are equal slices, one after the other, and each
// slice of the results depends only on its own slices and on the operands that are not split. So consecutive slices may
// be computed by a separate operator (trace/split.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trace/event_fields.h"

namespace thermocline {

inline constexpr std::int64_t kMostSlices = 1024;

struct SliceMark {
  std::uint32_t slices = 0;            // the most parts into which the operator can be split
  std::vector<std::uint64_t> split{};  // buffers' ids in the file, ascending
  bool splits(std::uint64_t buffer) const;
};

// "" or the reason why the operator's mark is rejected. `bytes_of`: of a live buffer; none: it is not known here.
std::string check_slices(const EventFields& fields,
                         const std::function<std::optional<std::int64_t>(std::int64_t)>& bytes_of);

// The mark of fields that passed the check and have one.
SliceMark slice_mark(const EventFields& fields);

}  // namespace thermocline
