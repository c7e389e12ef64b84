// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/spans.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>

#include "simulator/ptx/emit.h"

namespace simulator::ptx {
namespace {

// The range of instructions whose branches lead to an instruction; none: first > last.
struct Arrivals {
  unsigned first = ~0u, last = 0;
};

std::map<unsigned, Arrivals> arrivals_of(const Function& function) {
  std::map<unsigned, Arrivals> all;
  const auto arrives = [&](unsigned target, unsigned from) {
    Arrivals& at = all[target];
    at.first = std::min(at.first, from);
    at.last = std::max(at.last, from);
  };
  for (unsigned i = 0; i < function.code.size(); ++i) {
    for (const Operand& operand : function.code[i].operands) {
      if (operand.form == Operand::Form::kLabel) arrives(operand.index, i);
    }
  }
  // Arrivals from anywhere.
  for (const auto& [name, targets] : function.branch_targets) {
    for (const unsigned target : targets) arrives(target, 0), arrives(target, ~0u);
  }
  return all;
}

// Whether it only calculates or accesses memory, and then continues with the next instruction.
bool goes_on(const Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  if (opcode == "ld" || opcode == "st") return !has_order(instruction);
  if (opcode == "cvta") return true;
  return find_arithmetic(opcode) != nullptr || find_float(opcode) != nullptr || find_logic(opcode) != nullptr ||
         find_conversion(opcode) != nullptr || find_comparison(opcode) != nullptr;
}

// The instruction to which it may jump forward, if it is a branch that can do nothing else than that or go on.
std::optional<unsigned> skips_to(const Function& function, unsigned index) {
  const Instruction& instruction = function.code[index];
  if (instruction.opcode != "bra" || instruction.guard < 0 || instruction.operands.size() != 1) return std::nullopt;
  const Operand& target = instruction.operands[0];
  if (target.form != Operand::Form::kLabel || target.index <= index) return std::nullopt;
  return target.index;
}

struct Shape {
  Space space;
  unsigned bytes;
};

// No value: it belongs to another space.
std::optional<Shape> shape_of(const Instruction& instruction) {
  Modifiers modifiers(instruction);
  const Space space = take_space(modifiers);
  if (space != Space::kGlobal && space != Space::kGeneric) return std::nullopt;
  const std::string_view vector = modifiers.take_any({"v2", "v4", "v8"});
  const unsigned bytes = modifiers.take_type().bytes() * (vector.empty() ? 1u : static_cast<unsigned>(vector[1] - '0'));
  if (!std::has_single_bit(bytes)) return std::nullopt;
  return Shape{space, bytes};
}

class Search {
 public:
  explicit Search(const Function& function) : function_(function), arrivals_(arrivals_of(function)) {}

  std::map<unsigned, Span> run() {
    for (unsigned i = 0; i < function_.code.size(); ++i) visit(i);
    end_all();
    return std::move(found_);
  }

 private:
  void visit(unsigned i) {
    const Instruction& instruction = function_.code[i];
    if (const auto at = arrivals_.find(i); at != arrivals_.end()) {
      if (at->second.first < begin_ || at->second.last >= i) begin_at(i);
    }
    if (const auto target = skips_to(function_, i)) {
      skipped_until_ = std::max(skipped_until_, *target);
      return;
    }
    if (!goes_on(instruction)) return begin_at(i + 1);
    if (i >= skipped_until_ && instruction.guard < 0) add(i);
    if (instruction.opcode != "st" && !instruction.operands.empty()) end_what_is_written(instruction.operands[0]);
  }

  // No instruction before `i` is known to lead here.
  void begin_at(unsigned i) {
    end_all();
    begin_ = i;
    skipped_until_ = i;
  }

  void add(unsigned i) {
    const Instruction& instruction = function_.code[i];
    const bool writes = instruction.opcode == "st";
    if ((!writes && instruction.opcode != "ld") || instruction.operands.size() != 2) return;
    const Operand& address = instruction.operands[writes ? 0 : 1];
    if (address.form != Operand::Form::kAddress || address.parts.size() != 1) return;
    const Operand& base = address.parts[0];
    if (base.form != Operand::Form::kRegister || function_.registers[base.index].type.bits != 64) return;
    const std::optional<Shape> shape = shape_of(instruction);
    if (!shape) return;
    const auto offset = static_cast<std::int64_t>(address.value);
    if (offset < -kMostSpanBytes || offset > kMostSpanBytes) return;
    const SpanMember member{i, offset, shape->bytes, shape->space, writes};
    Span& span = open_[base.index];
    if (!span.members.empty() && !fits(span, member)) {
      end(std::move(span));
      span = {};
    }
    extend(&span, base.index, member);
  }

  static bool fits(const Span& span, const SpanMember& member) {
    const std::int64_t low = std::min(span.low, member.offset);
    const std::int64_t high = std::max(span.high, member.offset + static_cast<std::int64_t>(member.bytes));
    if (high - low > kMostSpanBytes) return false;
    const auto is_aligned = [low](const SpanMember& of) {
      return (of.offset - low) % static_cast<std::int64_t>(of.bytes) == 0;
    };
    return is_aligned(member) && std::ranges::all_of(span.members, is_aligned);
  }

  static void extend(Span* span, unsigned base, const SpanMember& member) {
    const std::int64_t end = member.offset + static_cast<std::int64_t>(member.bytes);
    const bool is_first = span->members.empty();
    span->base = base;
    span->low = is_first ? member.offset : std::min(span->low, member.offset);
    span->high = is_first ? end : std::max(span->high, end);
    span->alignment = std::max(span->alignment, member.bytes);
    span->members.push_back(member);
  }

  void end_what_is_written(const Operand& operand) {
    if (operand.form == Operand::Form::kRegister) {
      const auto span = open_.find(operand.index);
      if (span == open_.end()) return;
      end(std::move(span->second));
      open_.erase(span);
    }
    for (const Operand& part : operand.parts) end_what_is_written(part);
  }

  void end(Span span) {
    if (span.members.size() > 1) found_.emplace(span.members.front().instruction, std::move(span));
  }

  void end_all() {
    for (auto& [base, span] : open_) end(std::move(span));
    open_.clear();
  }

  const Function& function_;
  const std::map<unsigned, Arrivals> arrivals_;
  // Control reaches every instruction from begin_ on that is not below skipped_until_, or was not when it was visited,
  // once it has reached begin_.
  unsigned begin_ = 0, skipped_until_ = 0;
  std::map<unsigned, Span> open_;  // by register
  std::map<unsigned, Span> found_;
};

}  // namespace

bool has_order(const Instruction& instruction) {
  return std::ranges::any_of(instruction.modifiers, [](std::string_view modifier) {
    return modifier == "volatile" || modifier == "relaxed" || modifier == "acquire" || modifier == "release" ||
           modifier == "mmio";
  });
}

std::map<unsigned, Span> find_spans(const Function& function) { return Search(function).run(); }

}  // namespace simulator::ptx
