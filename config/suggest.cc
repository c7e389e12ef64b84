// SPDX-License-Identifier: Apache-2.0
// Distance with transpositions of neighbors: R. A. Wagner and R. Lowrance, "An extension of the string-to-string
// correction problem", J. ACM 22 (1975), in its restricted form (no substring is edited twice).
#include "config/suggest.h"

#include <algorithm>
#include <vector>

namespace thermocline {

unsigned edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: for the letter before the last, the last letter, and the current one.
  std::vector<unsigned> two_back(b.size() + 1), back(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) back[j] = static_cast<unsigned>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<unsigned>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const unsigned replace = back[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, back[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
    two_back.swap(back);
    back.swap(row);
  }
  return back[b.size()];
}

std::string nearest_name(std::string_view name, std::span<const std::string_view> known) {
  // A third of the letters may be wrong, and always at least one.
  const unsigned most = std::max<unsigned>(1, static_cast<unsigned>(name.size()) / 3);
  unsigned best = most + 1;
  std::string_view nearest;
  for (const std::string_view candidate : known) {
    if (const unsigned distance = edit_distance(name, candidate); distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return std::string(nearest);
}

}  // namespace thermocline
