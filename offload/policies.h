// SPDX-License-Identifier: Apache-2.0
// The policies by name. A policy is a class (policy/eviction_policy.h) in a file of its own, and a row of this table:
// settings, replays and their help take names and descriptions from here.
#pragma once

#include <array>
#include <memory>
#include <string_view>

namespace thermocline {

class EvictionPolicy;
struct PolicyParts;

using PolicyMaker = std::unique_ptr<EvictionPolicy> (*)(const PolicyParts& parts);

struct PolicyEntry {
  const char* name;
  const char* description;      // what is evicted, and when
  PolicyMaker make = nullptr;   // null: nothing is evicted
  bool for_comparison = false;  // known to replays, not to the setting
  constexpr bool evicts() const { return make != nullptr; }
};

std::unique_ptr<EvictionPolicy> make_lru_policy(const PolicyParts& parts);
std::unique_ptr<EvictionPolicy> make_reactive_policy(const PolicyParts& parts);
std::unique_ptr<EvictionPolicy> make_learned_policy(const PolicyParts& parts);

inline constexpr std::array kPolicies = {
    PolicyEntry{"none", "nothing"},
    PolicyEntry{"reactive", "ahead of need, without a plan", make_reactive_policy},
    PolicyEntry{"learned", "reactive until steps repeat, then by plan", make_learned_policy},
    PolicyEntry{"lru", "reactive, but nothing moves before it must", make_lru_policy, true},
};

// Null: there is none of that name.
constexpr const PolicyEntry* find_policy(std::string_view name) {
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

// Those that code asks for by name.
inline constexpr const PolicyEntry* kNoPolicy = find_policy("none");
inline constexpr const PolicyEntry* kReactivePolicy = find_policy("reactive");
inline constexpr const PolicyEntry* kLearnedPolicy = find_policy("learned");
inline constexpr const PolicyEntry* kLruPolicy = find_policy("lru");
static_assert(kNoPolicy->name[0] + kReactivePolicy->name[0] + kLearnedPolicy->name[0] + kLruPolicy->name[0] != 0,
              "all of them are in the table");

}  // namespace thermocline
