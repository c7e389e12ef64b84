// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/uniform.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "hooks/relaunch/symbolic.h"

namespace thermocline {
namespace {

using Kind = PtxOperand::Kind;

constexpr std::array<std::string_view, 12> kSpecials = {"%tid.x",   "%tid.y",    "%tid.z",    "%ctaid.x",
                                                        "%ctaid.y", "%ctaid.z",  "%ntid.x",   "%ntid.y",
                                                        "%ntid.z",  "%nctaid.x", "%nctaid.y", "%nctaid.z"};
constexpr int kFirstUniform = 6;

int number_of(std::string_view special) {
  const auto* const found = std::ranges::find(kSpecials, special);
  return found == kSpecials.end() ? -1 : static_cast<int>(found - kSpecials.begin());
}

std::int64_t low_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t low_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

// Computes an instruction that is neither a load nor a conversion; `values` are as the instruction reads them.
bool apply(const PtxInstruction& one, const std::int64_t* values, std::int64_t* out) {
  const bool is_wide = one.has("wide"), is_unsigned = one.type()[0] == 'u';
  const std::int64_t a = values[0], b = values[1];
  if (one.root == "mov") return *out = a, true;
  if (one.root == "neg") return *out = low_product(a, -1), true;
  if (one.root == "add") return *out = low_sum(a, b), true;
  if (one.root == "sub") return *out = low_sum(a, low_product(b, -1)), true;
  if (one.root == "mul" && (is_wide || one.has("lo"))) return *out = low_product(a, b), true;
  if (one.root == "mad" && !is_wide && one.has("lo")) return *out = low_sum(low_product(a, b), values[2]), true;
  if (one.root == "and") return *out = a & b, true;
  if (one.root == "shl" && b >= 0 && b < 32) return *out = low_product(a, std::int64_t{1} << b), true;
  const bool is_plain = (a >= 0 && b >= 0) || !is_unsigned;
  if (one.root == "min" && is_plain) return *out = std::min(a, b), true;
  if (one.root == "max" && is_plain) return *out = std::max(a, b), true;
  // From here on signed and unsigned numbers have to agree.
  if (a < 0 || b <= 0) return false;
  if (one.root == "div") return *out = a / b, true;
  if (one.root == "rem") return *out = a % b, true;
  if (one.root == "shr" && b < 32) return *out = a >> b, true;
  return false;
}

}  // namespace

bool is_integer_type(std::string_view type) {
  return type == "s32" || type == "u32" || type == "b32" || type == "s64" || type == "u64" || type == "b64";
}

std::int64_t wrapped(std::int64_t value, std::string_view type) {
  if (type == "s32" || type == "b32") return static_cast<std::int32_t>(value);
  if (type == "u32") return static_cast<std::uint32_t>(value);
  return value;
}

int axis_of(std::string_view special) {
  const int number = number_of(special);
  return number < kFirstUniform ? number : -1;
}

bool is_uniform_special(std::string_view special) { return number_of(special) >= kFirstUniform; }

int part_of(const PtxInstruction& one, int reg) {
  const auto& parts = one.operands[0].parts;
  const auto found = std::ranges::find(parts, reg, &PtxOperand::reg);
  return found == parts.end() ? 0 : static_cast<int>(found - parts.begin());
}

bool can_evaluate(const PtxInstruction& one) {
  static constexpr std::array<std::string_view, 13> kRoots = {"mov", "cvt", "neg", "add", "sub", "mul", "mad",
                                                              "and", "shl", "shr", "min", "max", "div"};
  const bool is_listed = std::ranges::find(kRoots, one.root) != kRoots.end() || one.root == "rem";
  return is_listed && one.guard < 0 && one.operands.size() >= 2 && one.operands.size() <= 4 &&
         one.operands[0].kind == Kind::kRegister && is_integer_type(one.type()) && !one.has("cc") && !one.has("hi") &&
         !one.has("sat") && (one.root != "mad" || !one.has("wide")) &&
         (one.root != "cvt" || (one.modifiers.size() == 2 && is_integer_type(one.modifiers[0])));
}

bool Uniform::of_special(std::string_view special, std::int64_t* out) const {
  if (!is_uniform_special(special)) return false;
  const int number = number_of(special) - kFirstUniform;
  *out = static_cast<std::int64_t>(number < 3 ? shape_.threads[number] : shape_.blocks[number - 3]);
  return true;
}

bool Uniform::load_parameter(const PtxInstruction& one, int reg, std::int64_t* out) const {
  const int parameter = one.has("param") ? kernel_.parameter(one.operands[1].text) : -1;
  const unsigned bytes = type_bytes(one.type());
  const std::int64_t offset = one.operands[1].value + std::int64_t{part_of(one, reg)} * bytes;
  if (parameter < 0 || offset < 0 || offset + bytes > kernel_.parameters[static_cast<std::size_t>(parameter)].bytes)
    return false;
  if (used_ != nullptr) used_->add({static_cast<std::uint32_t>(parameter), static_cast<std::uint32_t>(offset), bytes});
  std::uint64_t value = 0;
  std::memcpy(&value, static_cast<const unsigned char*>(parameters_[parameter]) + offset, bytes);
  *out = wrapped(static_cast<std::int64_t>(value), one.type());
  return true;
}

bool Uniform::evaluate(const PtxOperand& operand, unsigned depth, std::int64_t* out) const {
  constexpr unsigned kDeepest = 32;
  if (depth > kDeepest) return false;
  if (operand.kind == Kind::kInteger) return *out = operand.value, true;
  if (operand.kind == Kind::kSpecial) return of_special(operand.text, out);
  const int definition = operand.kind == Kind::kRegister ? symbolic_.definition(operand.reg) : -1;
  if (definition < 0) return false;
  const PtxInstruction& one = kernel_.instructions[static_cast<std::size_t>(definition)];
  if (one.root == "ld") return one.guard < 0 && is_integer_type(one.type()) && load_parameter(one, operand.reg, out);
  if (!can_evaluate(one)) return false;
  std::int64_t values[3] = {};
  for (std::size_t i = 1; i < one.operands.size(); ++i) {
    if (!evaluate(one.operands[i], depth + 1, &values[i - 1])) return false;
    if (one.root != "cvt" && (one.root != "shl" || i == 1)) values[i - 1] = wrapped(values[i - 1], one.type());
  }
  if (one.root == "cvt") {
    *out = wrapped(wrapped(values[0], one.modifiers[1]), one.modifiers[0]);
    return true;
  }
  if (!apply(one, values, out)) return false;
  *out = wrapped(*out, one.has("wide") ? std::string_view("s64") : one.type());
  return true;
}

bool Uniform::evaluate(const LinearForm::Factor& factor, std::int64_t* out) const {
  if (!factor.special.empty()) return of_special(factor.special, out);
  PtxOperand operand;
  operand.kind = Kind::kRegister;
  operand.reg = factor.reg;
  if (!evaluate(operand, 0, out)) return false;
  if (factor.bytes == 4) *out = wrapped(*out, factor.is_signed ? "s32" : "u32");
  return true;
}

bool Uniform::evaluate(const LinearForm::Term& term, std::int64_t* out) const {
  *out = term.number;
  for (const LinearForm::Factor& factor : term.factors) {
    std::int64_t value = 0;
    if (!evaluate(factor, &value) || __builtin_mul_overflow(*out, value, out)) return false;
  }
  return true;
}

}  // namespace thermocline
