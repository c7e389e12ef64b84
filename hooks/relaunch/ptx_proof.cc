// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/ptx_proof.h"

#include <algorithm>
#include <array>

namespace thermocline {
namespace {

using Kind = PtxOperand::Kind;
using Value = Symbolic::Value;
using Why = RerunRefusal::Why;

constexpr std::array<std::string_view, 45> kPure = {
    "add", "sub",  "mul",   "mad",  "mad24", "mul24",    "div",   "rem",  "abs",  "neg",  "min",  "max",
    "fma", "sqrt", "rsqrt", "rcp",  "sin",   "cos",      "lg2",   "ex2",  "tanh", "and",  "or",   "xor",
    "not", "shl",  "shr",   "shf",  "bfe",   "bfi",      "bfind", "brev", "clz",  "popc", "lop3", "prmt",
    "cvt", "mov",  "selp",  "setp", "cvta",  "copysign", "set",   "slct", "testp"};
// Of loads and stores; everything else (volatile, relaxed, mmio) is refused.
constexpr std::array<std::string_view, 10> kPlain = {"global", "nc", "ca", "cg",       "cs",
                                                     "wb",     "v2", "v4", "L2::128B", "L2::64B"};
constexpr std::array<std::string_view, 4> kSpecials = {"%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x"};
// The item is beyond a bound.
constexpr std::uint64_t kAtTheEnd = std::uint64_t{1} << 63;

template <class List>
bool is_in(const List& list, std::string_view one) {
  return std::ranges::find(list, one) != list.end();
}

unsigned bytes_of(const PtxInstruction& one, const PtxOperand& what) {
  const auto count = what.kind == Kind::kVector ? static_cast<unsigned>(what.parts.size()) : 1;
  return ptx_type_bytes(one.type()) * count;
}
bool is_plain(const PtxInstruction& one) {
  return std::ranges::all_of(
      one.modifiers, [](std::string_view modifier) { return is_in(kPlain, modifier) || ptx_type_bytes(modifier) > 0; });
}

}  // namespace

PtxProof::PtxProof(const PtxKernel& kernel, const PtxAccesses& accesses)
    : kernel_(kernel), accesses_(accesses), symbolic_(kernel, accesses), scales_(accesses.words.size()) {
  refused_ = accesses.unknown;
  if (accesses.words.size() >= 63) refuse(Why::kTooManyParameters);
  if (!refused_) check_instructions();
  if (!refused_) check_definitions();
  if (!refused_) check_accesses();
  if (!refused_) check_paths();
}

bool PtxProof::check_instruction(const PtxInstruction& one) {
  if (one.root == "atom" || one.root == "red") return refuse(Why::kAtomics, one.root), false;
  const bool is_shared = one.has("shared") || one.has("shared::cta") || one.has("local");
  if (is_shared) return refuse(Why::kSharedOrLocal), false;
  if (one.root == "bar" || one.root == "barrier" || one.root == "shfl" || one.root == "vote" || one.root == "match" ||
      one.root == "redux" || one.root == "activemask" || one.root == "mma")
    return refuse(Why::kThreadsExchange, one.root), false;
  if (one.root == "ld" || one.root == "st") {
    if (one.has("volatile") || one.has("relaxed") || one.has("acquire") || one.has("release"))
      return refuse(Why::kVolatile), false;
    if (one.has("const")) return refuse(Why::kVariables), false;
    if (!one.has("param") && !is_plain(one)) return refuse(Why::kOtherInstruction, one.root), false;
    return true;
  }
  if (one.root == "ret" || one.root == "exit") return true;
  if (one.root == "bra") return one.target >= 0;
  if (!is_in(kPure, one.root)) return refuse(Why::kOtherInstruction, one.root), false;
  // Two predicates at once, or a carry.
  if (one.has("cc") || (one.root == "setp" && one.operands.size() != 3))
    return refuse(Why::kOtherInstruction, one.root), false;
  return true;
}

void PtxProof::check_instructions() {
  const auto check = [this](const PtxOperand& operand) {
    if (operand.kind == Kind::kSpecial && !is_in(kSpecials, operand.text)) {
      const bool is_clock = operand.text.starts_with("%clock") || operand.text.starts_with("%globaltimer");
      refuse(is_clock ? Why::kClock : Why::kSpecialRegister, operand.text);
    }
  };
  for (std::size_t i = 0; i < kernel_.instructions.size(); ++i) {
    const PtxInstruction& one = kernel_.instructions[i];
    if (!check_instruction(one)) return refuse(Why::kOtherInstruction, one.root);
    for (const PtxOperand& operand : one.operands) {
      check(operand);
      for (const PtxOperand& part : operand.parts) check(part);
      const bool is_name = operand.kind == Kind::kOther && one.root != "bra" && !operand.text.empty() &&
                           (operand.text.front() < '0' || operand.text.front() > '9');
      const bool is_variable = operand.kind == Kind::kAddress && operand.reg < 0 && !one.has("param");
      if (is_name || is_variable) return refuse(Why::kVariables);
    }
    if (const std::uint64_t through = accesses_.through[i]; (through & (through - 1)) != 0)
      return refuse(Why::kSeveralParameters);
  }
}

template <class Visit>
void PtxProof::for_each_next(std::size_t index, Visit visit) const {
  const PtxInstruction& one = kernel_.instructions[index];
  const bool ends = one.root == "ret" || one.root == "exit";
  if (one.root == "bra") visit(static_cast<std::size_t>(one.target), true);
  if ((!ends && one.root != "bra") || one.guard >= 0) visit(index + 1, false);
}

// On every path a register is written before it is read: an undefined one may hold anything.
void PtxProof::check_definitions() {
  const std::size_t count = kernel_.instructions.size(), registers = kernel_.bits.size();
  std::vector<std::vector<bool>> written(count + 1);
  std::vector<std::size_t> due{0};
  written[0].assign(registers, false);
  while (!due.empty()) {
    const std::size_t index = due.back();
    due.pop_back();
    if (index >= count) continue;
    const PtxInstruction& one = kernel_.instructions[index];
    if (!reads_only(one, written[index])) return refuse(Why::kUnwrittenRegister);
    std::vector<bool> after = written[index];
    for (std::size_t r = 0; r < registers && static_cast<int>(index) == symbolic_.update(); ++r) {
      if (symbolic_.is_stale_after_update(static_cast<int>(r))) after[r] = false;
    }
    if (one.writes_first_operand() && one.guard < 0) {
      if (one.operands[0].reg >= 0) after[static_cast<std::size_t>(one.operands[0].reg)] = true;
      for (const PtxOperand& part : one.operands[0].parts) {
        if (part.reg >= 0) after[static_cast<std::size_t>(part.reg)] = true;
      }
    }
    for_each_next(index, [&](std::size_t next, bool) {
      std::vector<bool>& there = written[next];
      if (there.empty()) {
        there = after;
        there.resize(std::max<std::size_t>(registers, 1));
        due.push_back(next);
        return;
      }
      bool changed = false;
      for (std::size_t r = 0; r < registers; ++r) {
        if (there[r] && !after[r]) changed = true, there[r] = false;
      }
      if (changed) due.push_back(next);
    });
  }
}

bool PtxProof::reads_only(const PtxInstruction& one, const std::vector<bool>& written) const {
  const auto is_written = [&](int reg) { return reg < 0 || written[static_cast<std::size_t>(reg)]; };
  if (!is_written(one.guard)) return false;
  for (std::size_t i = one.writes_first_operand() ? 1 : 0; i < one.operands.size(); ++i) {
    if (!is_written(one.operands[i].reg)) return false;
    for (const PtxOperand& part : one.operands[i].parts) {
      if (!is_written(part.reg)) return false;
    }
  }
  return true;
}

// Stores are to the item's own place, and so are loads of what is stored to.
void PtxProof::check_accesses() {
  for (const PtxInstruction& one : kernel_.instructions) {
    if (one.root != "st") continue;
    const Value at = symbolic_.of(one.operands[0]);
    const std::int64_t bytes = bytes_of(one, one.operands[1]);
    const bool is_items = at.kind == Value::Kind::kAddress && at.counts == (symbolic_.counter() >= 0);
    if (!is_items || at.offset != 0 || at.scale != bytes || bytes == 0) return refuse(Why::kOtherPlace);
    std::int64_t& scale = scales_[static_cast<std::size_t>(at.word)];
    if (scale != 0 && scale != at.scale) return refuse(Why::kOtherPlace);
    scale = at.scale;
    must_ |= std::uint64_t{1} << at.word;
    if (at.is_narrow) largest_scale_ = std::max(largest_scale_, scale);
  }
  if (must_ == 0) return refuse(Why::kStoresNothing);
  for (std::size_t i = 0; i < kernel_.instructions.size(); ++i) {
    const PtxInstruction& one = kernel_.instructions[i];
    if (one.root != "ld" || (accesses_.through[i] & must_) == 0) continue;
    const Value at = symbolic_.of(one.operands[1]);
    const bool is_own = at.kind == Value::Kind::kAddress && at.offset >= 0 && at.counts == (symbolic_.counter() >= 0) &&
                        at.scale == scales_[static_cast<std::size_t>(at.word)] &&
                        at.offset + bytes_of(one, one.operands[0]) <= at.scale;
    if (!is_own) return refuse(Why::kReadsOthers);
  }
}

int PtxProof::leaves(const PtxInstruction& branch) {
  if (branch.root != "bra" || branch.guard < 0) return -1;
  const PtxInstruction* test = nullptr;
  for (const PtxInstruction& one : kernel_.instructions) {
    if (!one.writes_first_operand() || one.operands[0].reg != branch.guard) continue;
    if (test != nullptr) return -1;
    test = &one;
  }
  if (test == nullptr || test->root != "setp" || test->guard >= 0 || test->modifiers.size() != 2) return -1;
  const std::string_view how = test->modifiers[0], type = test->type();
  const Value left = symbolic_.of(test->operands[1]), right = symbolic_.of(test->operands[2]);
  const auto is_item = [](const Value& value) {
    return value.kind == Value::Kind::kItem && value.scale == 1 && value.offset == 0;
  };
  const bool is_forward = is_item(left) && right.kind == Value::Kind::kUniform;
  const bool is_backward = is_item(right) && left.kind == Value::Kind::kUniform;
  if (!is_forward && !is_backward) return -1;
  // item >= bound, or bound <= item.
  const bool is_beyond = how == (is_forward ? "ge" : "le"), is_before = how == (is_forward ? "lt" : "gt");
  if ((!is_beyond && !is_before) || (type != "s32" && type != "u32" && type != "s64" && type != "u64")) return -1;
  bounds_.push_back({test->operands[is_forward ? 2 : 1], ptx_type_bytes(type) == 8, type.front() == 's'});
  return is_beyond != branch.guard_is_negated ? 1 : 0;
}

// On every path all words have been stored through for each item that is not beyond a bound.
void PtxProof::check_paths() {
  const std::size_t count = kernel_.instructions.size();
  constexpr Stored kUnreached = ~Stored{0};
  std::vector<Stored> stored(count + 1, kUnreached);
  std::vector<int> leaving(count);
  for (std::size_t i = 0; i < count; ++i) leaving[i] = leaves(kernel_.instructions[i]);
  std::vector<std::size_t> due{0};
  stored[0] = 0;
  bool lacks = false;
  while (!due.empty()) {
    const std::size_t index = due.back();
    due.pop_back();
    const PtxInstruction* const one = index < count ? &kernel_.instructions[index] : nullptr;
    const bool ends = one == nullptr || one->root == "ret" || one->root == "exit";
    const bool counts = symbolic_.counter() >= 0;
    Stored after = stored[index];
    const bool is_complete = (after & must_) == must_;
    // A loop over items ends at its bound alone.
    if (ends && (!is_complete || (counts && (after & kAtTheEnd) == 0))) lacks = true;
    if (one == nullptr) continue;
    if (one->root == "st" && one->guard < 0) after |= std::uint64_t{1} << symbolic_.of(one->operands[0]).word;
    if (static_cast<int>(index) == symbolic_.update()) {
      if (!is_complete) lacks = true;
      after = 0;
    }
    for_each_next(index, [&](std::size_t next, bool is_taken) {
      const Stored there = leaving[index] == (is_taken ? 1 : 0) ? must_ | kAtTheEnd : after;
      if (const Stored met = stored[next] & there; met != stored[next]) {
        stored[next] = met;
        due.push_back(next);
      }
    });
  }
  if (lacks) refuse(Why::kNotOnEveryPath);
}

bool PtxProof::holds_for(const LaunchShape& shape, void* const* parameters, Result* out) const {
  constexpr std::uint64_t kMostItems = std::uint64_t{1} << 31;
  std::int64_t value = 0;
  for (const PtxOperand& size : symbolic_.block_sizes()) {
    if (!symbolic_.evaluate(size, shape, parameters, &value)) return false;
    if (value != static_cast<std::int64_t>(shape.threads_per_block)) return false;
  }
  const bool counts = symbolic_.counter() >= 0;
  if (counts) {
    if (!symbolic_.evaluate(symbolic_.step(), shape, parameters, &value)) return false;
    if (value != static_cast<std::int64_t>(shape.threads())) return false;
  }
  if (shape.threads() >= kMostItems || (counts && bounds_.empty())) return false;
  std::uint64_t items = counts ? kMostItems : shape.threads();
  for (const Bound& bound : bounds_) {
    if (!symbolic_.evaluate(bound.what, shape, parameters, &value)) return false;
    if (!bound.is_wide && bound.is_signed) value = static_cast<std::int32_t>(value);
    if (!bound.is_wide && !bound.is_signed) value = static_cast<std::uint32_t>(value);
    // Unsigned numbers as large as that are no bounds.
    if (value < 0 && !bound.is_signed) return false;
    items = std::min(items, static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0)));
  }
  // No index wraps around.
  if ((items + shape.threads()) * static_cast<std::uint64_t>(largest_scale_) >= kMostItems) return false;
  out->written_bytes.assign(scales_.size(), 0);
  for (std::size_t i = 0; i < scales_.size(); ++i)
    out->written_bytes[i] = items * static_cast<std::uint64_t>(scales_[i]);
  return true;
}

}  // namespace thermocline
