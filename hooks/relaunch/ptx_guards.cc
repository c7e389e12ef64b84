// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/ptx_guards.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "hooks/relaunch/uniform.h"

namespace thermocline {
namespace {

using Kind = PtxOperand::Kind;
using Value = Symbolic::Value;

PtxGuards::Meaning opposite(PtxGuards::Meaning meaning) {
  std::swap(meaning.holds[0], meaning.holds[1]);
  std::swap(meaning.fails[0], meaning.fails[1]);
  return meaning;
}

}  // namespace

PtxGuards::PtxGuards(const PtxKernel& kernel, const Symbolic& symbolic)
    : kernel_(kernel), symbolic_(symbolic), meanings_(kernel.bits.size()), is_meant_(kernel.bits.size()) {
  for (std::size_t i = 0; i < kernel.instructions.size(); ++i) {
    const PtxInstruction& one = kernel.instructions[i];
    if (!one.writes_first_operand() || one.operands[0].reg < 0 || one.guard >= 0) continue;
    const int reg = one.operands[0].reg;
    if (kernel.bits[index_of(reg)] != 1 || symbolic.definition(reg) != static_cast<int>(i)) continue;
    meanings_[index_of(reg)] = one.root == "setp" ? compared(one) : combined(one);
    const Meaning& meaning = meanings_[index_of(reg)];
    is_meant_[index_of(reg)] = (meaning.holds[0] | meaning.holds[1] | meaning.fails[0] | meaning.fails[1]).any();
  }
  relate();
  find_eithers();
}

const PtxGuards::Meaning* PtxGuards::meaning_of(int predicate) const {
  return predicate >= 0 && is_meant_[index_of(predicate)] ? &meanings_[index_of(predicate)] : nullptr;
}

PtxGuards::Meaning PtxGuards::compared(const PtxInstruction& one) {
  if (one.modifiers.size() != 2 || one.operands.size() != 3 || !is_integer_type(one.type())) return {};
  std::string_view how = one.modifiers[0];
  Comparison comparison;
  comparison.left = symbolic_.of(one.operands[1]);
  comparison.right = symbolic_.of(one.operands[2]);
  comparison.bytes = type_bytes(one.type());
  comparison.is_signed = one.type()[0] == 's';
  if (!comparison.left.is_integer() || !comparison.right.is_integer()) return {};
  for (const Value* const side : {&comparison.left, &comparison.right}) {
    for (const int index : side->widened)
      comparison.widened.push_back(symbolic_.widened()[static_cast<std::size_t>(index)]);
  }
  comparison.loops = (comparison.left.form.axes() | comparison.right.form.axes()) >> kLoopAxis;
  comparison.is_equality = how == "eq" || how == "ne";
  // gt: the right side is less. ge, le and ne hold if the comparison does not.
  if (how == "gt" || how == "le") std::swap(comparison.left, comparison.right);
  const bool is_opposite = how == "ge" || how == "le" || how == "ne";
  if (!is_opposite && how != "lt" && how != "gt" && how != "eq") return {};
  const std::size_t index = add(std::move(comparison));
  if (2 * index >= kMost) return {};
  Meaning meaning;
  meaning.holds[1].set(2 * index);
  meaning.fails[1].set(2 * index + 1);
  meaning.holds[0].set(2 * index + 1);
  meaning.fails[0].set(2 * index);
  return is_opposite ? opposite(meaning) : meaning;
}

// If one side is widened and the other is not, they are the same only if widening changes nothing.
bool PtxGuards::is_same(const Comparison& a, const Comparison& b) {
  return a.is_equality == b.is_equality && a.bytes == b.bytes && a.is_signed == b.is_signed &&
         a.left.form == b.left.form && a.right.form == b.right.form && a.widened == b.widened;
}

std::size_t PtxGuards::add(Comparison comparison) {
  const auto found =
      std::ranges::find_if(comparisons_, [&](const Comparison& one) { return is_same(one, comparison); });
  if (found == comparisons_.end() && 2 * comparisons_.size() < kMost) {
    comparisons_.push_back(std::move(comparison));
    return comparisons_.size() - 1;
  }
  return found == comparisons_.end() ? kMost : static_cast<std::size_t>(found - comparisons_.begin());
}

PtxGuards::Meaning PtxGuards::combined(const PtxInstruction& one) const {
  const auto meaning_of_operand = [&](std::size_t i) {
    const int reg = one.operands[i].reg;
    return reg >= 0 ? meanings_[index_of(reg)] : Meaning();
  };
  if (one.type() != "pred" || one.operands.size() < 2) return {};
  if (one.root == "not") return opposite(meaning_of_operand(1));
  if (one.root == "mov") return meaning_of_operand(1);
  if ((one.root != "or" && one.root != "and") || one.operands.size() != 3) return {};
  const Meaning a = meaning_of_operand(1), b = meaning_of_operand(2);
  Meaning meaning;
  // `both`: the result that both operands have: true for `and`, false for `or`. `some`: at least one operand has it.
  const std::size_t both = one.root == "and" ? 1 : 0, some = 1 - both;
  meaning.holds[both] = a.holds[both] | b.holds[both];
  meaning.fails[both] = a.fails[both].any() ? a.fails[both] : b.fails[both];
  meaning.holds[some] = a.holds[some] & b.holds[some];
  if (a.fails[some].any() && b.fails[some].any()) meaning.fails[some] = a.fails[some] | b.fails[some];
  return meaning;
}

bool PtxGuards::compares_with_unknown(int predicate) const {
  const int definition = symbolic_.definition(predicate);
  if (definition < 0) return false;
  const PtxInstruction& one = kernel_.instructions[static_cast<std::size_t>(definition)];
  if (one.root == "or" || one.root == "and" || one.root == "not") {
    return std::any_of(one.operands.begin() + 1, one.operands.end(), [&](const PtxOperand& operand) {
      return operand.reg >= 0 && compares_with_unknown(operand.reg);
    });
  }
  if (one.root != "setp" || one.operands.size() != 3 || !is_integer_type(one.type())) return false;
  const Value left = symbolic_.of(one.operands[1]), right = symbolic_.of(one.operands[2]);
  const auto is_place = [](const Value& value) { return value.is_integer() && value.form.axes() != 0; };
  return (is_place(left) && !right.is_known) || (is_place(right) && !left.is_known);
}

void PtxGuards::relate() {
  const int loops = 64 - kLoopAxis;
  of_loop_.resize(static_cast<std::size_t>(loops));
  granted_by_loop_.resize(static_cast<std::size_t>(loops));
  for (std::size_t i = 0; i < comparisons_.size(); ++i) {
    const Comparison& one = comparisons_[i];
    LinearForm difference = one.left.form;
    difference.add(one.right.form, -1);
    if (difference.is_number()) {
      const std::int64_t number = difference.number();
      always_.set(2 * i + ((one.is_equality ? number == 0 : number < 0) ? 0 : 1));
    }
    for (std::uint64_t left = one.loops; left != 0; left &= left - 1) {
      const int loop = std::countr_zero(left);
      of_loop_[static_cast<std::size_t>(loop)].set(2 * i).set(2 * i + 1);
      Comparison at_begin = one;
      at_begin.left.form = one.left.form.without(kLoopAxis + loop);
      at_begin.right.form = one.right.form.without(kLoopAxis + loop);
      for (LinearForm& form : at_begin.widened) form = form.without(kLoopAxis + loop);
      if ((at_begin.left.form.axes() | at_begin.right.form.axes()) == 0) {
        granted_by_loop_[static_cast<std::size_t>(loop)].set(2 * i).set(2 * i + 1);
        granted_.set(2 * i).set(2 * i + 1);
      }
      for (std::size_t k = 0; k < comparisons_.size(); ++k) {
        if (!is_same(comparisons_[k], at_begin)) continue;
        at_begin_.push_back({loop, 2 * i, 2 * k});
        at_begin_.push_back({loop, 2 * i + 1, 2 * k + 1});
      }
    }
  }
}

// Pairs of bounds on the same form that no loop changes.
void PtxGuards::find_eithers() {
  const std::size_t count = comparisons_.size();
  const auto is_bound = [](const Comparison& one) {
    return !one.is_equality && one.loops == 0 && one.left.form.axes() != 0 && one.right.form.axes() == 0;
  };
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count && 2 * comparisons_.size() < kMost; ++b) {
      Comparison both = comparisons_[a];
      const Comparison& other = comparisons_[b];
      const bool is_like = both.bytes == other.bytes && both.is_signed == other.is_signed &&
                           both.left.form == other.left.form && both.left.widened.size() == other.left.widened.size();
      if (!is_bound(both) || !is_bound(other) || !is_like) continue;
      both.other_right = other.right;
      both.widened.insert(both.widened.end(), other.widened.begin(), other.widened.end());
      eithers_.push_back({comparisons_.size(), a, b});
      comparisons_.push_back(std::move(both));
    }
  }
}

void PtxGuards::complete(Set* holds) const {
  for (const Either& both : eithers_) {
    if (holds->test(2 * both.one) || holds->test(2 * both.other)) holds->set(2 * both.either);
    if (holds->test(2 * both.one + 1) && holds->test(2 * both.other + 1)) holds->set(2 * both.either + 1);
  }
}

void PtxGuards::leave_out_what_follows(Set* holds) const {
  for (const Either& both : eithers_) {
    if (holds->test(2 * both.one) || holds->test(2 * both.other)) holds->reset(2 * both.either);
    if (holds->test(2 * both.one + 1) && holds->test(2 * both.other + 1)) holds->reset(2 * both.either + 1);
  }
}

PtxGuards::Set PtxGuards::failing(const Set& holds) const {
  Set fails;
  for (const Either& both : eithers_) {
    if (holds.test(2 * both.either + 1)) fails.set(2 * both.either);
  }
  return fails;
}

void PtxGuards::add_at_begin(int loop, Set* holds) const {
  *holds |= granted_by_loop_[static_cast<std::size_t>(loop)];
  for (const AtBegin& one : at_begin_) {
    if (one.loop == loop && holds->test(one.without_loop)) holds->set(one.guard);
  }
}

PtxGuards::Set PtxGuards::implied(const Set& guards, int loop) const {
  Set implied;
  for (const AtBegin& one : at_begin_) {
    if (one.loop == loop && guards.test(one.guard) && guards.test(one.without_loop)) implied.set(one.without_loop);
  }
  return implied;
}

}  // namespace thermocline
