// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/costs.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace simulator::ptx {
namespace {

constexpr std::uint32_t kLanes = 32;

bool has(const Instruction& instruction, std::string_view name) {
  return std::ranges::find(instruction.modifiers, name) != instruction.modifiers.end();
}

Type first_type(const Instruction& instruction, bool of_numbers) {
  for (const std::string_view modifier : instruction.modifiers) {
    const Type type = type_of(modifier);
    if (of_numbers ? type.is_float() : type.bits >= 8) return type;
  }
  return {};
}

std::uint32_t operations(std::string_view opcode) {
  if (opcode == "fma" || opcode == "mad") return 2;
  for (const std::string_view name :
       {"add", "sub", "mul", "div", "sqrt", "rcp", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"}) {
    if (opcode == name) return 1;
  }
  return 0;
}

// "m16n8k16": the numbers' product; 0 if it is no shape.
std::uint32_t volume(std::string_view shape) {
  std::uint32_t product = 1;
  for (const char letter : {'m', 'n', 'k'}) {
    if (shape.empty() || shape.front() != letter) return 0;
    std::uint32_t extent = 0;
    const auto [end, error] = std::from_chars(shape.data() + 1, shape.data() + shape.size(), extent);
    if (error != std::errc() || extent > 1024) return 0;
    product *= extent;
    shape.remove_prefix(static_cast<std::size_t>(end - shape.data()));
  }
  return product;
}

// All lanes compute the product together.
Costs product(const Instruction& instruction) {
  Costs costs;
  for (const std::string_view modifier : instruction.modifiers) {
    const std::uint32_t each = 2 * volume(modifier) / kLanes;
    (has(instruction, "f64") ? costs.doubles : costs.tensor_flops) += each;
  }
  return costs;
}

std::uint32_t elements(const Instruction& instruction) {
  return has(instruction, "v2") ? 2 : has(instruction, "v4") ? 4 : has(instruction, "v8") ? 8 : 1;
}

bool copies_to_shared(const Instruction& instruction) {
  return instruction.opcode == "cp" && has(instruction, "async") && !has(instruction, "bulk") &&
         instruction.operands.size() >= 3;
}

}  // namespace

bool counts_bytes(const Instruction& instruction) {
  if (copies_to_shared(instruction)) return true;
  const auto elsewhere = [](std::string_view modifier) {
    return modifier.starts_with("shared") || modifier.starts_with("const") || modifier.starts_with("local") ||
           modifier.starts_with("param");
  };
  const std::string_view opcode = instruction.opcode;
  const bool accesses = opcode == "ld" || opcode == "ldu" || opcode == "st" || reads_and_writes(instruction);
  return accesses && std::ranges::none_of(instruction.modifiers, elsewhere);
}

bool reads_and_writes(const Instruction& instruction) {
  return instruction.opcode == "atom" || instruction.opcode == "red";
}

Costs costs_of(const Instruction& instruction) {
  if (instruction.opcode == "mma" || (instruction.opcode == "wmma" && has(instruction, "mma")))
    return product(instruction);
  Costs costs;
  if (const std::uint32_t each = operations(instruction.opcode); each != 0) {
    const Type type = first_type(instruction, true);
    if (type.bits == 0) return costs;  // integers
    const std::uint32_t count = each * (type.packed ? 2 : 1);
    (type.bits == 64 && !type.packed ? costs.doubles : costs.flops) += count;
    return costs;
  }
  if (!counts_bytes(instruction)) return costs;
  if (instruction.opcode == "cp") {
    costs.accessed = static_cast<std::uint32_t>(std::min<std::uint64_t>(instruction.operands[2].value, 16));
    return costs;
  }
  const std::uint32_t bytes = first_type(instruction, false).bytes() * elements(instruction);
  costs.accessed = reads_and_writes(instruction) ? 2 * bytes : bytes;
  return costs;
}

}  // namespace simulator::ptx
