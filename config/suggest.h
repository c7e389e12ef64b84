// SPDX-License-Identifier: Apache-2.0
// "Did you mean ...?": the nearest known name by edit distance (insert, delete, replace, swap of adjacent letters).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace thermocline {

unsigned edit_distance(std::string_view a, std::string_view b);

// The nearest name of `known`, or "" when none is close enough. If several are equally near, the first one.
std::string nearest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace thermocline
