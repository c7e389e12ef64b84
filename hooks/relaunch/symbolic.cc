// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/symbolic.h"

#include <algorithm>
#include <utility>

#include "hooks/relaunch/uniform.h"

namespace thermocline {
namespace {

using Kind = PtxOperand::Kind;
using Value = Symbolic::Value;

constexpr int kMostLoops = 32;

PtxOperand number_operand(std::int64_t value) {
  PtxOperand operand;
  operand.kind = Kind::kInteger;
  operand.value = value;
  return operand;
}

}  // namespace

Symbolic::Symbolic(const PtxKernel& kernel, const PtxAccesses& accesses, const PtxBlocks& blocks)
    : kernel_(kernel),
      accesses_(accesses),
      defined_(kernel.bits.size()),
      values_(kernel.bits.size()),
      progress_(kernel.bits.size()) {
  const auto define = [this](const PtxOperand& to, std::size_t at) {
    if (to.kind != Kind::kRegister) return;
    Defined& defined = defined_[index_of(to.reg)];
    (defined.count++ == 0 ? defined.first : defined.second) = static_cast<int>(at);
  };
  for (std::size_t i = 0; i < kernel.instructions.size(); ++i) {
    const PtxInstruction& one = kernel.instructions[i];
    if (!one.writes_first_operand()) continue;
    define(one.operands[0], i);
    if (one.also_writes() >= 0) define(one.operands[1], i);
    for (const PtxOperand& part : one.operands[0].parts) define(part, i);
  }
  find_counters(blocks);
  // In the order of the text, in which most are defined before they are used: the recursion is not deep.
  for (const PtxInstruction& one : kernel.instructions) {
    if (!one.writes_first_operand()) continue;
    if (one.operands[0].kind == Kind::kRegister) find(one.operands[0].reg);
    for (const PtxOperand& part : one.operands[0].parts) {
      if (part.reg >= 0) find(part.reg);
    }
  }
  find_loops();
}

void Symbolic::find_loops() {
  loops_.resize(kernel_.bits.size());
  for (const Counter& counter : counters_) loops_[index_of(counter.reg)] = std::uint64_t{1} << counter.loop;
  for (bool again = !counters_.empty(); again;) {
    again = false;
    for (const PtxInstruction& one : kernel_.instructions) {
      if (!one.writes_first_operand() || one.root == "ld") continue;
      std::uint64_t made_of = 0;
      for_each_read(one, [&](int reg) { made_of |= loops_[index_of(reg)]; });
      const auto join = [&](int reg) {
        if (reg < 0 || (made_of & ~loops_[index_of(reg)]) == 0) return;
        loops_[index_of(reg)] |= made_of;
        again = true;
      };
      join(one.operands[0].reg);
      for (const PtxOperand& part : one.operands[0].parts) join(part.reg);
    }
  }
}

void Symbolic::find_counters(const PtxBlocks& blocks) {
  std::vector<int> loop_of(blocks.size(), -1);
  for (std::size_t reg = 0; reg < defined_.size(); ++reg) {
    if (defined_[reg].count != 2) continue;
    const auto before = static_cast<std::size_t>(defined_[reg].first);
    const auto update = static_cast<std::size_t>(defined_[reg].second);
    const PtxInstruction& one = kernel_.instructions[update];
    const bool adds = one.root == "add" && !one.has("cc") && !one.has("sat") && one.guard < 0 &&
                      one.operands.size() == 3 && is_integer_type(one.type()) &&
                      kernel_.instructions[before].guard < 0 &&
                      kernel_.instructions[before].operands[0].kind == Kind::kRegister;
    if (!adds) continue;
    const bool is_left = one.operands[1].reg == static_cast<int>(reg);
    const PtxOperand& step = one.operands[is_left ? 2 : 1];
    if ((!is_left && one.operands[2].reg != static_cast<int>(reg)) || step.reg == static_cast<int>(reg)) continue;
    int& loop = loop_of[blocks.block_of(update)];
    if (loop < 0 && loops_found_ == kMostLoops) continue;
    if (loop < 0) loop = loops_found_++;
    counters_.push_back({.reg = static_cast<int>(reg), .before = before, .update = update, .loop = loop, .step = step});
  }
}

const Symbolic::Counter* Symbolic::counter_at(std::size_t instruction, std::size_t Counter::*which) const {
  const auto found = std::ranges::find(counters_, instruction, which);
  return found == counters_.end() ? nullptr : &*found;
}

bool Symbolic::comes_around(std::size_t instruction) const {
  const Counter* const one = adds_to(instruction);
  return one != nullptr && std::ranges::none_of(counters_, [&](const Counter& other) {
           return other.loop == one->loop && other.update < instruction;
         });
}

int Symbolic::definition(int reg) const {
  const Defined& defined = defined_[index_of(reg)];
  return defined.count == 1 ? defined.first : -1;
}

void Symbolic::find(int reg) {
  Progress& progress = progress_[index_of(reg)];
  if (progress != Progress::kNone) return;
  progress = Progress::kBegun;
  const auto counter = std::ranges::find(counters_, reg, &Counter::reg);
  const bool counts = counter != counters_.end();
  const Defined& defined = defined_[index_of(reg)];
  if (defined.count == 1 || counts) {
    const PtxInstruction& one = kernel_.instructions[static_cast<std::size_t>(defined.first)];
    Value value = one.guard >= 0 ? Value() : computed(one, reg);
    if (counts && value.is_known) {
      const PtxInstruction& update = kernel_.instructions[counter->update];
      const Value step = found(counter->step);
      LinearForm each = LinearForm::of_axis(kLoopAxis + counter->loop);
      if (counter->step.kind == Kind::kInteger) each = each.times(counter->step.value);
      if (counter->step.kind != Kind::kInteger) each = each.times(factor_of(counter->step, update.type()));
      value.form.add(each);
      value.is_narrow = type_bytes(update.type()) == 4;
      value.is_known = step.is_uniform() && kernel_.bits[index_of(reg)] == 8 * type_bytes(update.type());
    }
    if (value.form.is_too_large) value.is_known = false;
    values_[index_of(reg)] = std::move(value);
  }
  progress = Progress::kDone;
}

// The value of an operand, also if its register has not been examined.
Value Symbolic::found(const PtxOperand& operand) {
  if (operand.reg >= 0) find(operand.reg);
  return of(operand);
}

Value Symbolic::of(const PtxOperand& operand) const {
  Value value;
  if (operand.kind == Kind::kInteger) {
    value.is_known = true;
    value.form = LinearForm::of_number(operand.value);
    if (value.form.is_too_large) value.is_known = false;
  } else if (operand.kind == Kind::kSpecial) {
    value.is_known = value.is_narrow = true;
    if (const int axis = axis_of(operand.text); axis >= 0) {
      value.form = LinearForm::of_axis(axis);
    } else if (is_uniform_special(operand.text)) {
      value.form = LinearForm::of_factor(factor_of(operand, "u32"));
    } else {
      return {};
    }
  } else if (operand.reg >= 0 && operand.kind != Kind::kVector) {
    value = values_[index_of(operand.reg)];
    if (operand.kind == Kind::kAddress) value.form.add(LinearForm::of_number(operand.value));
  }
  return value;
}

LinearForm::Factor Symbolic::factor_of(const PtxOperand& operand, std::string_view type) {
  LinearForm::Factor factor{.reg = operand.reg, .special = {}, .bytes = type_bytes(type), .is_signed = type[0] != 'u'};
  if (operand.kind == Kind::kSpecial) factor.special = operand.text;
  return factor;
}

Value Symbolic::of_parameter(const PtxInstruction& one, const PtxOperand& to) const {
  const int parameter = one.operands[1].reg >= 0 ? -1 : kernel_.parameter(one.operands[1].text);
  if (parameter < 0) return {};
  Value value;
  value.is_known = true;
  value.is_narrow = type_bytes(one.type()) == 4;
  const std::int64_t offset = one.operands[1].value + std::int64_t{part_of(one, to.reg)} * type_bytes(one.type());
  for (std::size_t i = 0; i < accesses_.words.size() && !value.is_narrow; ++i) {
    const ParameterWord& word = accesses_.words[i];
    const bool is_this = static_cast<int>(word.parameter) == parameter && word.offset == offset;
    if (!is_this || (!word.reads && !word.writes)) continue;
    value.word = static_cast<int>(i);
    return value;
  }
  value.form = LinearForm::of_factor(factor_of(to, one.type()));
  return value;
}

// Whether the result is the same for all threads, and can be evaluated for a launch.
bool Symbolic::is_uniform_result(const PtxInstruction& one) {
  if (!can_evaluate(one)) return false;
  for (std::size_t i = 1; i < one.operands.size(); ++i) {
    const PtxOperand& operand = one.operands[i];
    if (operand.kind == Kind::kInteger) continue;
    if (operand.kind != Kind::kRegister && operand.kind != Kind::kSpecial) return false;
    const Value value = found(operand);
    // Sums of counters that no longer contain the axis are handled by others.
    if (!value.is_uniform() || value.form.terms.size() > 1) return false;
  }
  return true;
}

Value Symbolic::computed(const PtxInstruction& one, int reg) {
  const auto& operands = one.operands;
  if (operands.size() < 2 || !is_integer_type(one.type())) return {};
  PtxOperand to = operands[0];
  to.kind = Kind::kRegister;
  to.reg = reg;
  if (one.root == "ld") return one.has("param") ? of_parameter(one, to) : Value();
  if (operands[0].kind != Kind::kRegister) return {};
  if (one.root == "mov" || one.root == "cvta") return found(operands[1]);
  const bool is_narrow = type_bytes(one.type()) == 4, is_wide = one.has("wide");
  if (is_uniform_result(one)) {
    Value value{.is_known = true, .word = -1, .form = {}, .is_narrow = is_narrow && !is_wide, .widened = {}};
    value.form = LinearForm::of_factor(factor_of(to, is_wide ? (one.type()[0] == 'u' ? "u64" : "s64") : one.type()));
    return value;
  }
  if (one.root == "cvt") return converted(one);
  // The largest number minus the operand, modulo 2^32 or 2^64.
  if (one.root == "not") return sum(of(number_operand(-1)), found(operands[1]), -1, is_narrow);
  if (one.root == "neg") return sum(of(number_operand(0)), found(operands[1]), -1, is_narrow);
  if (operands.size() < 3) return {};
  if (one.root == "or") return joined(one);
  if (one.has("hi") || one.has("cc") || one.has("sat")) return {};
  if (one.root == "add") return sum(found(operands[1]), found(operands[2]), 1, is_narrow);
  if (one.root == "sub") return sum(found(operands[1]), found(operands[2]), -1, is_narrow);
  if (one.root == "mul" && (is_wide || one.has("lo"))) return product(operands[1], operands[2], one.type(), is_wide);
  if (one.root == "mad" && operands.size() == 4 && (is_wide || one.has("lo")))
    return sum(product(operands[1], operands[2], one.type(), is_wide), found(operands[3]), 1, is_narrow && !is_wide);
  if (one.root == "shl" && operands[2].kind == Kind::kInteger && operands[2].value >= 0 && operands[2].value < 31) {
    const PtxOperand factor = number_operand(std::int64_t{1} << operands[2].value);
    return product(operands[1], factor, one.type(), false);
  }
  return {};
}

// Like an addition, if the number and the value have no bits in common.
Value Symbolic::joined(const PtxInstruction& one) {
  const bool is_left = one.operands[1].kind == Kind::kInteger;
  const PtxOperand& number = one.operands[is_left ? 1 : 2];
  const Value value = found(one.operands[is_left ? 2 : 1]);
  if (!value.is_integer() || number.kind != Kind::kInteger || number.value < 0) return {};
  std::int64_t each = 1;
  while (each <= number.value && each < (std::int64_t{1} << 31)) each *= 2;
  const bool is_apart = number.value < each && std::ranges::all_of(value.form.terms, [each](const auto& term) {
                          return term.number % each == 0;
                        });
  return is_apart ? sum(value, of(number), 1, type_bytes(one.type()) == 4) : Value();
}

Value Symbolic::converted(const PtxInstruction& one) {
  if (one.modifiers.size() != 2 || !is_integer_type(one.modifiers[0])) return {};
  const unsigned to = type_bytes(one.modifiers[0]), from = type_bytes(one.modifiers[1]);
  Value value = found(one.operands[1]);
  if (!value.is_integer()) return {};
  if (to == 8 && from == 4) return widen(std::move(value));
  value.is_narrow = to == 4;
  return value;
}

Value Symbolic::widen(Value value) {
  if (!value.is_integer()) return {};
  widened_.push_back(value.form);
  value.widened.push_back(static_cast<int>(widened_.size()) - 1);
  value.is_narrow = false;
  return value;
}

Value Symbolic::sum(const Value& a, const Value& b, std::int64_t times, bool is_narrow) const {
  // Rejects two addresses, and subtracting one.
  const bool is_address = a.word >= 0 || b.word >= 0;
  if (!a.is_known || !b.is_known || (a.word >= 0 && b.word >= 0) || (b.word >= 0 && times < 0)) return {};
  if (is_address && is_narrow) return {};
  Value value = a;
  value.word = std::max(a.word, b.word);
  value.form.add(b.form, times);
  value.is_narrow = is_narrow;
  value.widened.insert(value.widened.end(), b.widened.begin(), b.widened.end());
  return value;
}

// The product of a form and a value that is the same for all threads.
Value Symbolic::product(const PtxOperand& a, const PtxOperand& b, std::string_view type, bool is_wide) {
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    Value value = found(*one);
    const Value by = found(*other);
    if (!value.is_integer() || !by.is_uniform() || by.form.terms.size() > 1) continue;
    if (is_wide) value = widen(std::move(value));
    if (other->kind == Kind::kInteger) {
      value.form = value.form.times(wrapped(other->value, type));
    } else {
      value.form = value.form.times(factor_of(*other, type));
    }
    value.is_narrow = type_bytes(type) == 4 && !is_wide;
    return value;
  }
  return {};
}

}  // namespace thermocline
