// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/symbolic.h"

#include <cstring>
#include <tuple>
#include <utility>

namespace thermocline {
namespace {

using Kind = PtxOperand::Kind;
using Value = Symbolic::Value;

std::size_t index_of(const PtxOperand& reg) { return static_cast<std::size_t>(reg.reg); }
bool is_integer(std::string_view type) {
  return type == "s32" || type == "u32" || type == "b32" || type == "s64" || type == "u64" || type == "b64";
}
bool is_narrow(std::string_view type) { return ptx_type_bytes(type) == 4; }

// As an instruction of this type leaves it.
std::int64_t wrapped(std::int64_t value, std::string_view type) {
  if (type == "s32" || type == "b32") return static_cast<std::int32_t>(value);
  if (type == "u32") return static_cast<std::uint32_t>(value);
  return value;
}

std::int64_t low_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
std::int64_t low_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace

Symbolic::Symbolic(const PtxKernel& kernel, const PtxAccesses& accesses)
    : kernel_(kernel), accesses_(accesses), defined_(kernel.bits.size()), values_(kernel.bits.size()) {
  const auto define = [this](const PtxOperand& to, int at) {
    if (to.kind != Kind::kRegister) return;
    Defined& defined = defined_[index_of(to)];
    (defined.count++ == 0 ? defined.first : defined.second) = at;
  };
  for (std::size_t i = 0; i < kernel.instructions.size(); ++i) {
    const PtxInstruction& one = kernel.instructions[i];
    if (!one.writes_first_operand()) continue;
    define(one.operands[0], static_cast<int>(i));
    for (const PtxOperand& part : one.operands[0].parts) define(part, static_cast<int>(i));
  }
  // Definitions come before uses in the text, nearly always; what does not is unknown.
  for (std::size_t i = 0; i < kernel.instructions.size(); ++i) {
    const PtxInstruction& one = kernel.instructions[i];
    if (!one.writes_first_operand() || one.operands[0].kind != Kind::kRegister) continue;
    const Defined& defined = defined_[index_of(one.operands[0])];
    const bool is_first_of_two = defined.count == 2 && defined.first == static_cast<int>(i);
    if (one.guard >= 0 || (defined.count != 1 && !is_first_of_two)) continue;
    Value value = computed(one);
    if (defined.count == 1) {
      values_[index_of(one.operands[0])] = std::move(value);
      continue;
    }
    const bool is_item = value.kind == Value::Kind::kItem && value.scale == 1 && value.offset == 0;
    if (!is_item || counter_ >= 0) continue;
    const PtxInstruction& update = kernel.instructions[static_cast<std::size_t>(defined.second)];
    if (update.root != "add" || update.guard >= 0 || update.operands.size() != 3 || !is_integer(update.type()))
      continue;
    const bool is_left = update.operands[1].reg == one.operands[0].reg;
    if (!is_left && update.operands[2].reg != one.operands[0].reg) continue;
    counter_ = one.operands[0].reg;
    update_ = defined.second;
    step_ = update.operands[is_left ? 2 : 1];
    value.counts = true;
    values_[index_of(one.operands[0])] = std::move(value);
  }
}

Value Symbolic::of(const PtxOperand& operand) const {
  Value value;
  if (operand.kind == Kind::kInteger) {
    value.kind = Value::Kind::kUniform;
  } else if (operand.kind == Kind::kSpecial) {
    if (operand.text == "%tid.x") value.kind = Value::Kind::kThread;
    if (operand.text == "%ntid.x" || operand.text == "%nctaid.x") value.kind = Value::Kind::kUniform;
    if (operand.text == "%ctaid.x") {
      value.kind = Value::Kind::kBlock;
      value.of_block.kind = Kind::kInteger;
      value.of_block.value = 1;
    }
  } else if (operand.reg >= 0) {
    value = values_[index_of(operand)];
    if (operand.kind == Kind::kAddress && value.kind == Value::Kind::kAddress) value.offset += operand.value;
  }
  return value;
}

Value Symbolic::sum(const Value& a, const Value& b, bool narrow) {
  using K = Value::Kind;
  if (a.kind == K::kUniform && b.kind == K::kUniform) return {.kind = K::kUniform};
  for (const auto& [left, right] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (left->kind == K::kBlock && right->kind == K::kThread) {
      block_sizes_.push_back(left->of_block);
      return {.kind = K::kItem, .scale = 1, .is_narrow = narrow || left->is_narrow};
    }
    if (left->kind == K::kAddress && right->kind == K::kItem) {
      return {.kind = K::kAddress,
              .word = left->word,
              .scale = left->scale + right->scale,
              .offset = left->offset + right->offset,
              .is_narrow = left->is_narrow || right->is_narrow,
              .counts = left->counts || right->counts};
    }
  }
  return {};
}

// Of an index and a number, or of blockIdx.x and what has to be blockDim.x.
Value Symbolic::product(const PtxOperand& a, const PtxOperand& b, bool narrow) {
  using K = Value::Kind;
  const Value left = of(a), right = of(b);
  if (left.kind == K::kUniform && right.kind == K::kUniform) return {.kind = K::kUniform};
  for (const auto& [value, operand, other] : {std::tuple(&left, &b, &right), std::tuple(&right, &a, &left)}) {
    const bool is_plain_block =
        value->kind == K::kBlock && value->of_block.kind == Kind::kInteger && value->of_block.value == 1;
    if (is_plain_block && other->kind == K::kUniform)
      return {.kind = K::kBlock, .of_block = *operand, .is_narrow = narrow};
    if (value->kind == K::kItem && operand->kind == Kind::kInteger && operand->value > 0 && operand->value < 4096) {
      return {.kind = K::kItem,
              .scale = value->scale * operand->value,
              .offset = value->offset * operand->value,
              .is_narrow = value->is_narrow || narrow,
              .counts = value->counts};
    }
  }
  return {};
}

Value Symbolic::computed(const PtxInstruction& one) {
  using K = Value::Kind;
  const auto& operands = one.operands;
  if (one.root == "ld" && one.has("param") && operands[0].kind == Kind::kRegister && is_integer(one.type())) {
    const int parameter = operands[1].reg >= 0 ? -1 : kernel_.parameter(operands[1].text);
    for (std::size_t i = 0; i < accesses_.words.size(); ++i) {
      const ParameterWord& word = accesses_.words[i];
      const bool is_this = static_cast<int>(word.parameter) == parameter && word.offset == operands[1].value;
      if (is_this && ptx_type_bytes(one.type()) == 8 && (word.reads || word.writes))
        return {.kind = K::kAddress, .word = static_cast<int>(i)};
    }
    return {.kind = parameter >= 0 ? K::kUniform : K::kUnknown};
  }
  if (operands.size() < 2 || !is_integer(one.type())) return {};
  const bool narrow = is_narrow(one.type());
  if (one.root == "mov" || one.root == "cvta") return of(operands[1]);
  if (one.root == "cvt") {
    // Widening alone: .s64.s32 and the like. Items are no negative numbers.
    const bool widens = one.modifiers.size() == 2 && is_integer(one.modifiers[0]) &&
                        ptx_type_bytes(one.modifiers[0]) == 8 && ptx_type_bytes(one.modifiers[1]) == 4;
    return widens ? of(operands[1]) : Value();
  }
  if (operands.size() < 3) return {};
  const bool is_wide = one.has("wide");
  if (one.root == "add") return sum(of(operands[1]), of(operands[2]), narrow);
  if (one.root == "mul" && (is_wide || one.has("lo"))) return product(operands[1], operands[2], narrow && !is_wide);
  if (one.root == "mad" && operands.size() == 4 && (is_wide || one.has("lo")))
    return sum(product(operands[1], operands[2], narrow && !is_wide), of(operands[3]), narrow && !is_wide);
  if (one.root == "shl" && operands[2].kind == Kind::kInteger && operands[2].value >= 0 && operands[2].value < 12) {
    PtxOperand factor = operands[2];
    factor.value = std::int64_t{1} << factor.value;
    return product(operands[1], factor, narrow);
  }
  return {};
}

bool Symbolic::evaluate(const PtxOperand& operand, const LaunchShape& shape, void* const* parameters,
                        std::int64_t* out) const {
  return evaluate_at(operand, shape, parameters, 0, out);
}

bool Symbolic::load_parameter(const PtxInstruction& one, void* const* parameters, std::int64_t* out) const {
  const int parameter = kernel_.parameter(one.operands[1].text);
  const unsigned bytes = ptx_type_bytes(one.type());
  const auto offset = static_cast<unsigned>(one.operands[1].value);
  if (parameter < 0 || one.operands[1].value < 0 ||
      offset + bytes > kernel_.parameters[static_cast<std::size_t>(parameter)].bytes)
    return false;
  const auto* const at = static_cast<const unsigned char*>(parameters[parameter]) + offset;
  std::uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  *out = wrapped(static_cast<std::int64_t>(value), one.type());
  return true;
}

bool Symbolic::evaluate_at(const PtxOperand& operand, const LaunchShape& shape, void* const* parameters, unsigned depth,
                           std::int64_t* out) const {
  constexpr unsigned kDeepest = 32;
  if (depth > kDeepest) return false;
  if (operand.kind == Kind::kInteger) return *out = operand.value, true;
  if (operand.kind == Kind::kSpecial) {
    if (operand.text == "%ntid.x") return *out = static_cast<std::int64_t>(shape.threads_per_block), true;
    if (operand.text == "%nctaid.x") return *out = static_cast<std::int64_t>(shape.blocks), true;
    return false;
  }
  if (operand.kind != Kind::kRegister || defined_[index_of(operand)].count != 1) return false;
  const PtxInstruction& one = kernel_.instructions[static_cast<std::size_t>(defined_[index_of(operand)].first)];
  if (one.guard >= 0 || one.operands.size() < 2 || one.operands[0].kind != Kind::kRegister || !is_integer(one.type()))
    return false;
  if (one.root == "ld") return one.has("param") && load_parameter(one, parameters, out);
  std::int64_t values[3] = {};
  if (one.operands.size() > 4) return false;
  for (std::size_t i = 1; i < one.operands.size(); ++i) {
    if (!evaluate_at(one.operands[i], shape, parameters, depth + 1, &values[i - 1])) return false;
    // As an instruction of this type reads it.
    if (one.root != "cvt") values[i - 1] = wrapped(values[i - 1], one.type());
  }
  const bool is_wide = one.has("wide");
  const std::string_view type = is_wide ? std::string_view("s64") : one.type();
  if (one.root == "mov") {
    *out = values[0];
  } else if (one.root == "cvt" && one.modifiers.size() == 2) {
    *out = wrapped(wrapped(values[0], one.modifiers[1]), one.modifiers[0]);
    return is_integer(one.modifiers[0]);
  } else if (one.root == "add") {
    *out = low_sum(values[0], values[1]);
  } else if (one.root == "mul" && (is_wide || one.has("lo"))) {
    *out = low_product(values[0], values[1]);
  } else if (one.root == "mad" && !is_wide && one.has("lo")) {
    *out = low_sum(low_product(values[0], values[1]), values[2]);
  } else if (one.root == "shl" && one.operands[2].kind == Kind::kInteger && values[1] >= 0 && values[1] < 32) {
    *out = low_product(values[0], std::int64_t{1} << values[1]);
  } else {
    return false;
  }
  *out = wrapped(*out, type);
  return true;
}

}  // namespace thermocline
