// SPDX-License-Identifier: Apache-2.0
// An operation that alone does not fit into the budget (soft_limit): it exceeds the budget while the device has room,
// and the excess is given back before the next operation that fits. So the budget is exceeded by no more than the
// largest operation needs, and only where it would have been refused.
#include <algorithm>
#include <utility>

#include "offload/engine/engine_state.h"

namespace thermocline {
namespace {

// The least raise if the operation's own memory was not enough, because other memory cannot be evicted.
constexpr Bytes kLeastRaise = 32 * kMiB;

}  // namespace

Bytes Engine::State::limit_of_pages() const { return budget_bytes - external_bytes; }

Status Engine::State::make_operands_resident(FetchReason reason) {
  if (options.budget_source != nullptr) return make_operands_resident_in_lease(reason);
  if (!options.soft_limit) return residency.make_resident(operands, reason);
  if (over_budget && operand_bytes() <= budget_bytes) {
    if (Status status = return_to_budget(); !status.ok()) return status;
  }
  Status status = residency.make_resident(operands, reason);
  if (status.ok()) count_raise();
  if (!status.is_out_of_memory() || operand_bytes() > device_total) return status;
  for (Bytes raise = kLeastRaise; status.is_out_of_memory() && heap.limit() < device_total; raise *= 2) {
    const Bytes own = operand_bytes() - external_bytes;
    over_budget = raised = true;
    // A higher limit needs no driver call.
    static_cast<void>(heap.set_limit(std::min(std::max(own, heap.limit() + raise), device_total)));
    status = residency.make_resident(operands, reason);
  }
  if (status.ok()) {
    count_raise();
  } else if (status.is_out_of_memory()) {
    static_cast<void>(return_to_budget());
  }
  return status;
}

// An operation for which the limit was raised may have to wait, and then begins again under the raised limit.
void Engine::State::count_raise() {
  if (std::exchange(raised, false)) ++counters.over_budget_operations;
}

// If streams are blocked, or something is pinned, the budget stays exceeded until the next operation asks again.
Status Engine::State::return_to_budget() {
  Status status = residency.make_room_for_limit(limit_of_pages());
  over_budget = !status.ok();
  raised = false;
  const bool is_put_off = clock.has_deferred() || host.wants_trim();
  const bool is_later = status.is_out_of_memory() || (status == Status::not_ready() && !is_put_off);
  return is_later ? Status() : status;
}

}  // namespace thermocline
