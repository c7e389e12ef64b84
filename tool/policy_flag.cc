// SPDX-License-Identifier: Apache-2.0
#include "tool/policy_flag.h"

#include <string_view>
#include <vector>

#include "config/suggest.h"
#include "offload/options.h"
#include "tool/message.h"
#include "tool/plan_policies.h"

namespace thermocline {

bool parse_policy_flag(const std::string& text, const std::string& flag, Settings* settings) {
  if (const PolicyEntry* const policy = find_policy(text); policy != nullptr) {
    settings->policy = policy;
    return true;
  }
  std::vector<std::string_view> known;
  known.reserve(kPolicies.size() + plan_policies().size());
  for (const PolicyEntry& policy : kPolicies) known.emplace_back(policy.name);
  for (const PlanPolicy& policy : plan_policies()) known.push_back(policy.name);
  std::string list;
  for (const std::string_view name : known) list.append(list.empty() ? "" : ", ").append(name);
  say(flag + ": '" + text + "' is no policy; known are " + list + did_you_mean(nearest_name(text, known)));
  return false;
}

std::string policy_setting_help() {
  std::vector<std::string> names;
  for (const PolicyEntry& policy : kPolicies) {
    if (!policy.for_comparison) names.emplace_back(policy.name);
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + names[i];
  return text + " (default: " + EngineOptions().policy->name + ")";
}

std::string policy_help() {
  std::string settings, others;
  for (const PolicyEntry& policy : kPolicies) {
    const std::string name = policy.name;
    if (policy.for_comparison) {
      others += name + ": " + policy.description + "; ";
    } else {
      settings += (settings.empty() ? "" : ", ") + name;
    }
  }
  for (const PlanPolicy& policy : plan_policies()) {
    others.append(policy.name).append(": ").append(policy.description);
    others += policy.recompute == Recompute::kOff ? "; " : " (--exact); ";
  }
  others.resize(others.size() - 2);
  return settings + " (default: " + EngineOptions().policy->name + "). For comparison also " + others;
}

}  // namespace thermocline
