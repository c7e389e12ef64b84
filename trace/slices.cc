// SPDX-License-Identifier: Apache-2.0
#include "trace/slices.h"

#include <algorithm>

namespace thermocline {
namespace {

bool names(const std::vector<std::int64_t>& ids, std::int64_t id) { return std::ranges::find(ids, id) != ids.end(); }

}  // namespace

bool SliceMark::splits(std::uint64_t buffer) const { return std::ranges::binary_search(split, buffer); }

std::string check_slices(const EventFields& fields,
                         const std::function<std::optional<std::int64_t>(std::int64_t)>& bytes_of) {
  if (!fields.slices && fields.split.empty()) return "";
  const std::string which = "operator \"" + fields.name + "\" ";
  if (!fields.slices)
    return which + "has buffers that are split (\"split\"), and does not say into how many (\"slices\")";
  if (fields.split.empty()) return which + "has \"slices\", and no buffer that is split (\"split\")";
  const std::int64_t slices = *fields.slices;
  if (slices < 2 || slices > kMostSlices) {
    return which + "has " + std::to_string(slices) + (slices == 1 ? " slice; 2 to " : " slices; 2 to ") +
           std::to_string(kMostSlices) + " are possible";
  }
  const std::string splits = which + "splits buffer ";
  for (auto id = fields.split.begin(); id != fields.split.end(); ++id) {
    const std::string buffer = std::to_string(*id);
    if (std::find(fields.split.begin(), id, *id) != id) return std::string(splits).append(buffer).append(" twice");
    if (!names(fields.reads, *id) && !names(fields.writes, *id))
      return std::string(splits).append(buffer).append(", which it neither reads nor writes");
    const std::optional<std::int64_t> bytes = bytes_of(*id);
    if (bytes && (*bytes == 0 || *bytes % slices != 0)) {
      return std::string(splits)
          .append(buffer + ", whose " + std::to_string(*bytes))
          .append(" bytes are not " + std::to_string(slices) + " equal slices");
    }
  }
  return "";
}

SliceMark slice_mark(const EventFields& fields) {
  SliceMark mark{.slices = static_cast<std::uint32_t>(*fields.slices)};
  mark.split.assign(fields.split.begin(), fields.split.end());
  std::ranges::sort(mark.split);
  return mark;
}

}  // namespace thermocline
