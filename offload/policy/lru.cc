// SPDX-License-Identifier: Apache-2.0
// Plain least recently used, on demand: the base class's behavior. Other policies are compared with it.
#include "offload/policies.h"
#include "offload/policy/eviction_policy.h"

namespace thermocline {
namespace {

class LruPolicy final : public EvictionPolicy {};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lru_policy(const PolicyParts&) { return std::make_unique<LruPolicy>(); }

}  // namespace thermocline
