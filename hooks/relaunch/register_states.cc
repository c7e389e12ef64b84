// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/register_states.h"

#include <algorithm>

namespace thermocline {
namespace {

bool keep_both(std::vector<bool>* some, const std::vector<bool>& other) {
  bool is_less = false;
  for (std::size_t i = 0; i < some->size(); ++i) {
    if ((*some)[i] && !other[i]) is_less = true, (*some)[i] = false;
  }
  return is_less;
}

}  // namespace

bool RegisterState::meet(const RegisterState& other) {
  bool is_less = (fresh & ~other.fresh) != 0;
  fresh &= other.fresh;
  is_less |= keep_both(&is_written, other.is_written);
  is_less |= keep_both(&is_current, other.is_current);
  is_less |= keep_both(&is_in_step, other.is_in_step);
  return is_less;
}

RegisterStates::RegisterStates(const PtxKernel& kernel, const Symbolic& symbolic, const PtxBlocks& blocks)
    : kernel_(kernel), symbolic_(symbolic), blocks_(blocks) {
  RegisterState entry;
  entry.is_written.assign(kernel.bits.size(), false);
  entry.is_current.assign(kernel.bits.size(), true);
  entry.is_in_step.assign(kernel.bits.size(), false);
  at_ = holds_on_all_paths(
      kernel, blocks, std::move(entry), [this](std::size_t i, RegisterState* state) { step(i, state); },
      [](std::size_t, bool, RegisterState*) {});
}

bool RegisterStates::reads_current(const PtxInstruction& one, const RegisterState& state) const {
  bool is_current = true;
  for_each_read(one, [&](int reg) { is_current = is_current && state.is_current[index_of(reg)]; });
  return is_current;
}

void RegisterStates::outdate(int loop, RegisterState* state) const {
  const std::uint64_t bit = std::uint64_t{1} << loop;
  for (std::size_t reg = 0; reg < kernel_.bits.size(); ++reg) {
    if ((symbolic_.loops_of(static_cast<int>(reg)) & bit) != 0) state->is_current[reg] = false;
  }
  for (const Symbolic::Counter& counter : symbolic_.counters()) {
    // The counter begins with a value that another loop has computed.
    const bool is_made_of_it = (symbolic_.loops_of(counter.reg) & bit) != 0;
    if (counter.loop != loop && is_made_of_it) state->is_in_step[index_of(counter.reg)] = false;
  }
}

void RegisterStates::step(std::size_t instruction, RegisterState* state) const {
  const PtxInstruction& one = kernel_.instructions[instruction];
  if (!one.writes_first_operand()) return;
  const bool is_current = reads_current(one, *state);
  if (const Symbolic::Counter* const counter = symbolic_.adds_to(instruction); counter != nullptr) {
    if (symbolic_.comes_around(instruction)) {
      outdate(counter->loop, state);
      state->fresh &= ~(std::uint64_t{1} << counter->loop);
    }
    state->is_current[index_of(counter->reg)] = state->is_in_step[index_of(counter->reg)];
    return;
  }
  const auto write = [&](int reg, bool holds) {
    if (reg < 0) return;
    state->is_current[index_of(reg)] = holds;
    if (one.guard < 0) state->is_written[index_of(reg)] = true;
  };
  if (const Symbolic::Counter* const counter = symbolic_.starts(instruction); counter != nullptr) {
    const std::uint64_t bit = std::uint64_t{1} << counter->loop;
    if ((state->fresh & bit) == 0) {
      outdate(counter->loop, state);
      for (const Symbolic::Counter& other : symbolic_.counters()) {
        if (other.loop == counter->loop) state->is_in_step[index_of(other.reg)] = false;
      }
      state->fresh |= bit;
    }
    state->is_in_step[index_of(counter->reg)] = is_current;
  }
  write(one.operands[0].reg, is_current);
  write(one.also_writes(), false);
  for (const PtxOperand& part : one.operands[0].parts) write(part.reg, is_current);
}

}  // namespace thermocline
