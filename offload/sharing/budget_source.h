// SPDX-License-Identifier: Apache-2.0
// The source of a budget that changes while the engine runs (budget = "shared"). The engine calls it with its lock
// held, so the engine's budget and the ledger entry for other processes change together.
#pragma once

#include "driver/units.h"

namespace thermocline {

// While an object of this class lives, its thread is in the middle of an operation that is submitted in parts. Then it
// waits for no time slice: others wait for the rest of the operation.
class AmidParts {
 public:
  AmidParts();
  ~AmidParts();
  AmidParts(const AmidParts&) = delete;
  AmidParts& operator=(const AmidParts&) = delete;
  static bool now();
};

class BudgetSource {
 public:
  virtual ~BudgetSource() = default;
  // The engine could use `wanted` bytes in all. Returns its new budget, no less than before. Does not wait: memory that
  // others have to give back first comes later (Engine::raise_budget).
  virtual Bytes raise(Bytes wanted) = 0;
  // Raises the budget to what the engine should have now, without a request.
  virtual Bytes grow() = 0;
  // The engine uses no more than `budget` from now on.
  virtual void lowered(Bytes budget) = 0;
  // True: bytes that raise() refused may come when others give back; the engine's caller should ask again.
  virtual bool may_have_later(Bytes wanted) = 0;
  // The budget to report to a program that sizes itself by it: its share if all processes could use everything.
  virtual Bytes share() = 0;
  // Another process has the time slice (slice_policy.h): an operation must not begin now. The caller asks again soon.
  virtual bool waits_for_turn() { return false; }
  // True, always: the engine measures for how long operations wait (Engine::BudgetUse::times).
  virtual bool needs_times() const { return false; }
};

}  // namespace thermocline
