// SPDX-License-Identifier: Apache-2.0
#include "hooks/fallbacks.h"

#include <cstddef>
#include <mutex>
#include <set>

#include "hooks/runtime.h"

namespace thermocline {
namespace {

constexpr std::size_t kMostNamed = 16;

struct Names {
  std::mutex mutex;
  std::set<std::string, std::less<>> all;
};
Names& names() {
  static auto* const one = new Names;
  return *one;
}

}  // namespace

void count_unknown_function(std::string_view name) {
  const std::lock_guard lock(names().mutex);
  if (names().all.emplace(name).second) count(Counter::kUnknownFunctions);
}

std::string unknown_functions() {
  const std::lock_guard lock(names().mutex);
  std::string text;
  std::size_t named = 0;
  for (const std::string& name : names().all) {
    if (named == kMostNamed) return text + " and " + std::to_string(names().all.size() - named) + " more";
    text += (named++ == 0 ? "" : ", ") + name;
  }
  return text;
}

}  // namespace thermocline
