// SPDX-License-Identifier: Apache-2.0
// The policies by name. A policy is a class (policy/eviction_policy.h) in a file of its own, and a row of this table:
// settings, replays and their help take names and descriptions from here.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

namespace thermocline {

class EvictionPolicy;
struct PolicyParts;

using PolicyMaker = std::unique_ptr<EvictionPolicy> (*)(const PolicyParts& parts);

// All differences between policies that matter to their callers; no other code compares policies.
struct PolicyEntry {
  const char* name;
  const char* description;      // which memory is evicted, and when
  PolicyMaker make = nullptr;   // null: nothing is evicted
  bool plans = false;           // follows a plan of a repeated iteration; only such a plan recomputes
  bool for_comparison = false;  // known to replays, not to the setting
  constexpr bool evicts() const { return make != nullptr; }
};

std::unique_ptr<EvictionPolicy> make_lru_policy(const PolicyParts& parts);
std::unique_ptr<EvictionPolicy> make_reactive_policy(const PolicyParts& parts);
std::unique_ptr<EvictionPolicy> make_learned_policy(const PolicyParts& parts);

inline constexpr std::array kPolicies = {
    PolicyEntry{.name = "none", .description = "nothing"},
    PolicyEntry{.name = "reactive", .description = "ahead of need, without a plan", .make = make_reactive_policy},
    PolicyEntry{.name = "learned",
                .description = "reactive until steps repeat, then by plan",
                .make = make_learned_policy,
                .plans = true},
    PolicyEntry{.name = "lru",
                .description = "reactive, but nothing moves before it must",
                .make = make_lru_policy,
                .for_comparison = true},
};

// Null: there is none of that name.
constexpr const PolicyEntry* find_policy(std::string_view name) {
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

// "learned": those that plan, for messages.
inline std::string planning_policies() {
  std::string names;
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.plans) names.append(names.empty() ? "" : ", ").append(entry.name);
  }
  return names;
}

// The policies that code chooses by name. Their entries say what they can do.
inline constexpr const PolicyEntry* kNoPolicy = find_policy("none");
inline constexpr const PolicyEntry* kReactivePolicy = find_policy("reactive");
inline constexpr const PolicyEntry* kLearnedPolicy = find_policy("learned");
inline constexpr const PolicyEntry* kLruPolicy = find_policy("lru");
static_assert(kNoPolicy->name[0] + kReactivePolicy->name[0] + kLearnedPolicy->name[0] + kLruPolicy->name[0] != 0,
              "all of them are in the table");

}  // namespace thermocline
