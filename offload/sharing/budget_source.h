// SPDX-License-Identifier: Apache-2.0
// Where an engine gets a budget from that changes while it runs (budget = "shared"). The engine calls with its lock
// held, so what it may use and what is written down for others change together.
#pragma once

#include "driver/units.h"

namespace thermocline {

class BudgetSource {
 public:
  virtual ~BudgetSource() = default;
  // The engine could use `wanted` bytes in all. Returns its budget from now on, no less than before. Does not wait; what
  // others have to give back first comes later (Engine::raise_budget).
  virtual Bytes raise(Bytes wanted) = 0;
  // Raises the budget to what the engine should have now, without a wish.
  virtual Bytes grow() = 0;
  // The engine uses no more than `budget` from now on.
  virtual void lowered(Bytes budget) = 0;
  // True: what raise refused may be had once others have given back; the engine's caller is to ask again.
  virtual bool may_have_later(Bytes wanted) = 0;
  // What a program that sizes itself by its budget is told: its share if all had use for everything.
  virtual Bytes share() = 0;
};

}  // namespace thermocline
