// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/tags.h"

#include <map>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"

namespace thermocline {
namespace {

struct Tags {
  Mutex mutex{"tags", lock_level::kLeaf};
  std::map<std::string, std::uint64_t, std::less<>> numbers THERMOCLINE_GUARDED_BY(mutex);
  std::vector<const std::string*> texts THERMOCLINE_GUARDED_BY(mutex);
};
Tags& all_tags() { return process_lifetime<Tags>(); }

thread_local std::uint64_t tag_of_this_thread = 0;

}  // namespace

namespace detail {
constinit std::atomic<bool> any_tag{false};
}

std::uint64_t number_of_tag(std::string_view text) {
  if (text.empty()) return 0;
  Tags& all = all_tags();
  const MutexLock lock(all.mutex);
  const auto [at, fresh] = all.numbers.try_emplace(std::string(text), all.numbers.size() + 1);
  if (fresh) all.texts.push_back(&at->first);
  detail::any_tag.store(true, std::memory_order_relaxed);
  return at->second;
}

std::uint64_t find_tag(std::string_view text) {
  Tags& all = all_tags();
  const MutexLock lock(all.mutex);
  const auto at = all.numbers.find(text);
  return at == all.numbers.end() ? 0 : at->second;
}

const std::string& text_of_tag(std::uint64_t number) {
  Tags& all = all_tags();
  const MutexLock lock(all.mutex);
  return *all.texts[number - 1];
}

std::uint64_t tags() {
  Tags& all = all_tags();
  const MutexLock lock(all.mutex);
  return all.texts.size();
}

void tag_thread(std::uint64_t number) { tag_of_this_thread = number; }

std::uint64_t tag_of_thread() { return tag_of_this_thread; }

}  // namespace thermocline
