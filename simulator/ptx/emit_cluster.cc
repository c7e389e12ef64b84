// SPDX-License-Identifier: Apache-2.0
// Clusters: blocks that wait for one another and access each other's shared memory. Addresses in the cluster's shared
// memory: see cluster.h. Source: PTX ISA 9.0, 9.7.9.23 (mapa), 9.7.9.24 (getctarank), 9.7.13.4 (barrier.cluster).
#include "simulator/ptx/cluster.h"
#include "simulator/ptx/emit.h"

namespace simulator::ptx {
namespace {

constexpr Type kWord{Kind::kBits, 32};

// The operand as 64 bits: a register, or a variable.
std::string address_of(Emitter& to, const Operand& operand, Type type) {
  if (operand.form == Operand::Form::kSymbol) {
    Space space = Space::kGeneric;
    std::uint64_t bytes = 0;
    const std::string address = to.address_of_symbol(operand, &space, &bytes);
    if (space != Space::kShared) to.refuse("the variable is in another space");
    return operand.value == 0 ? address : to.let("add i64 " + address + ", " + std::to_string(operand.value));
  }
  const std::string address = to.read_bits(operand, type.bits);
  return type.bits == 32 ? to.let("zext i32 " + address + " to i64") : address;
}

bool takes_shared(Modifiers& modifiers) { return modifiers.take("shared::cluster"); }

Type address_type(Emitter& to, Modifiers& modifiers, bool is_shared) {
  const Type type = modifiers.take_type();
  if (type.bits != 64 && !(type.bits == 32 && is_shared)) to.refuse("the type is not supported");
  return type;
}

// The same place in the shared memory of another block.
void emit_mapa(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 3, 3);
  const bool is_shared = takes_shared(modifiers);
  const Type type = address_type(to, modifiers, is_shared);
  to.shared().out.uses_clusters = true;
  to.shared().out.needs_fibers = true;
  const std::string address = address_of(to, instruction.operands[1], type);
  const std::string rank = to.read(instruction.operands[2], kWord);
  std::string mapped;
  if (is_shared) {
    const std::string offset = to.let("and i64 " + address + ", " + std::to_string(kOffsetMask));
    const std::string wide = to.let("zext i32 " + rank + " to i64");
    const std::string tag = to.let("shl i64 " + to.let("add i64 " + wide + ", 1") + ", " + std::to_string(kRankShift));
    mapped = to.let("or i64 " + offset + ", " + tag);
  } else {
    mapped = to.call("i64", "ptx_mapa",
                     "i8* %ctx, i64 " + address + ", i32 " + rank + ", i32 " + std::to_string(to.site(instruction)));
  }
  if (type.bits == 32) mapped = to.let("trunc i64 " + mapped + " to i32");
  to.write(instruction.operands[0], {Kind::kBits, type.bits}, mapped);
}

void emit_getctarank(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 2);
  const bool is_shared = takes_shared(modifiers);
  const Type type = address_type(to, modifiers, is_shared);
  to.shared().out.uses_clusters = true;
  const std::string address = address_of(to, instruction.operands[1], type);
  to.write(instruction.operands[0], kWord,
           to.call("i32", is_shared ? "ptx_rank_in_cluster" : "ptx_rank_of_generic",
                   "i8* %ctx, i64 " + address + ", i32 " + std::to_string(to.site(instruction))));
}

constexpr Opcode kTable[] = {{"mapa", emit_mapa}, {"getctarank", emit_getctarank}};

}  // namespace

void emit_cluster_barrier(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 0, 0);
  const std::string_view what = modifiers.take_any({"arrive", "wait"});
  modifiers.take_any({"release", "relaxed", "acquire"});
  modifiers.take("aligned");
  if (what.empty()) to.refuse("the form is not supported");
  to.shared().out.uses_clusters = true;
  to.shared().out.needs_fibers = true;
  to.call_void(what == "arrive" ? "ptx_cluster_arrive" : "ptx_cluster_wait", "i8* %ctx");
}

Handler find_cluster(std::string_view opcode) { return find_in(kTable, opcode); }

}  // namespace simulator::ptx
