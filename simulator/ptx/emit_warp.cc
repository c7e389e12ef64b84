// SPDX-License-Identifier: Apache-2.0
// Operations that threads of a warp or a block do together: calls to the running block (block.h), which runs the other
// threads until they have reached the same point. Source: PTX ISA 9.0, 9.7.9 (shfl), 9.7.13 (barriers, votes, match,
// redux).
#include "simulator/ptx/emit.h"

#include "simulator/ptx/warp_operation.h"

namespace simulator::ptx {
namespace {

constexpr Type kWord{Kind::kBits, 32};
constexpr Type kPredicate{Kind::kPredicate, 1};

std::string number(WarpOperation operation) { return std::to_string(static_cast<unsigned>(operation)); }

// The result: 64 bits, with a predicate in the upper word if the operation has one.
std::string exchange(Emitter& to, WarpOperation operation, const std::string& mask, const std::string& value,
                     const std::string& second = "0") {
  to.shared().out.needs_fibers = true;
  return to.call("i64", "ptx_warp",
                 "i8* %ctx, i32 " + number(operation) + ", i32 " + mask + ", i64 " + value + ", i64 " + second +
                     ", i32 " + std::to_string(to.current_line()));
}

std::string low(Emitter& to, const std::string& value) { return to.let("trunc i64 " + value + " to i32"); }

std::string flag(Emitter& to, const std::string& value) {
  return to.let("icmp ne i64 " + to.let("lshr i64 " + value + ", 32") + ", 0");
}

std::string widen(Emitter& to, const std::string& value) { return to.let("zext i32 " + value + " to i64"); }

void write_pair(Emitter& to, const Operand& into, const std::string& result) {
  if (into.form != Operand::Form::kPair) return to.write(into, kWord, low(to, result));
  to.write(into.parts[0], kWord, low(to, result));
  to.write(into.parts[1], kPredicate, flag(to, result));
}

void emit_shfl(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const bool has_mask = modifiers.take("sync");
  to.expect_operands(instruction, has_mask ? 5 : 4, has_mask ? 5 : 4);
  const std::string_view mode = modifiers.take_any({"up", "down", "bfly", "idx"});
  if (mode.empty() || modifiers.take_type() != kWord) to.refuse("the form is not supported");
  const std::string value = widen(to, to.read(instruction.operands[1], kWord));
  const std::string lane = widen(to, to.read(instruction.operands[2], kWord));
  const std::string clamp = widen(to, to.read(instruction.operands[3], kWord));
  const std::string mask = has_mask ? to.read(instruction.operands[4], kWord) : "-1";
  const std::string which = to.let("or i64 " + lane + ", " + to.let("shl i64 " + clamp + ", 32"));
  const WarpOperation operation = mode == "up"     ? WarpOperation::kShuffleUp
                                  : mode == "down" ? WarpOperation::kShuffleDown
                                  : mode == "bfly" ? WarpOperation::kShuffleXor
                                                   : WarpOperation::kShuffleIndex;
  write_pair(to, instruction.operands[0], exchange(to, operation, mask, value, which));
}

void emit_vote(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const bool has_mask = modifiers.take("sync");
  to.expect_operands(instruction, has_mask ? 3 : 2, has_mask ? 3 : 2);
  const std::string_view how = modifiers.take_any({"all", "any", "uni", "ballot"});
  modifiers.take_type();
  const std::string value = to.let("zext i1 " + to.read(instruction.operands[1], kPredicate) + " to i64");
  const std::string mask = has_mask ? to.read(instruction.operands[2], kWord) : "-1";
  if (how == "ballot")
    return to.write(instruction.operands[0], kWord, low(to, exchange(to, WarpOperation::kBallot, mask, value)));
  const WarpOperation operation = how == "all"   ? WarpOperation::kAll
                                  : how == "any" ? WarpOperation::kAny
                                                 : WarpOperation::kUniform;
  if (how.empty()) to.refuse("the form is not supported");
  const std::string result = exchange(to, operation, mask, value);
  to.write(instruction.operands[0], kPredicate, to.let("icmp ne i64 " + result + ", 0"));
}

void emit_match(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  modifiers.take("sync");
  to.expect_operands(instruction, 3, 3);
  const std::string_view how = modifiers.take_any({"any", "all"});
  const Type type = modifiers.take_type();
  if (how.empty() || (type.bits != 32 && type.bits != 64)) to.refuse("the form is not supported");
  std::string value = to.read(instruction.operands[1], type);
  if (type.bits == 32) value = widen(to, value);
  const std::string mask = to.read(instruction.operands[2], kWord);
  write_pair(to, instruction.operands[0],
             exchange(to, how == "any" ? WarpOperation::kMatchAny : WarpOperation::kMatchAll, mask, value));
}

void emit_redux(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  modifiers.take("sync");
  to.expect_operands(instruction, 3, 3);
  const std::string_view op = modifiers.take_any({"add", "min", "max", "and", "or", "xor"});
  const Type type = modifiers.take_type();
  if (type.bits != 32 || type.is_float()) to.refuse("the type is not supported");
  WarpOperation operation = WarpOperation::kSum;
  if (op == "min") operation = type.is_signed() ? WarpOperation::kSignedMin : WarpOperation::kUnsignedMin;
  if (op == "max") operation = type.is_signed() ? WarpOperation::kSignedMax : WarpOperation::kUnsignedMax;
  if (op == "and") operation = WarpOperation::kAnd;
  if (op == "or") operation = WarpOperation::kOr;
  if (op == "xor") operation = WarpOperation::kXor;
  if (op.empty()) to.refuse("the operation is not supported");
  const std::string value = widen(to, to.read(instruction.operands[1], type));
  const std::string mask = to.read(instruction.operands[2], kWord);
  to.write(instruction.operands[0], kWord, low(to, exchange(to, operation, mask, value)));
}

void emit_activemask(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 1, 1);
  modifiers.take_type();
  to.write(instruction.operands[0], kWord, low(to, exchange(to, WarpOperation::kActive, "0", "0")));
}

void emit_elect(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  modifiers.take("sync");
  to.expect_operands(instruction, 2, 2);
  write_pair(to, instruction.operands[0],
             exchange(to, WarpOperation::kElect, to.read(instruction.operands[1], kWord), "0"));
}

// ---- barriers of the block

void emit_bar(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (modifiers.take("cluster")) return emit_cluster_barrier(to, instruction, modifiers);
  modifiers.take("cta");
  if (modifiers.take("warp")) {
    modifiers.take("sync");
    to.expect_operands(instruction, 1, 1);
    exchange(to, WarpOperation::kSync, to.read(instruction.operands[0], kWord), "0");
    return;
  }
  const std::string_view what = modifiers.take_any({"sync", "arrive", "red"});
  modifiers.take("aligned");
  if (what.empty()) to.refuse("the form is not supported");
  to.shared().out.needs_fibers = true;
  std::size_t at = 0;
  std::string operation = what == "arrive" ? "1" : "0", value = "0";
  if (what == "red") {
    const std::string_view op = modifiers.take_any({"popc", "and", "or"});
    modifiers.take_type();
    operation = op == "popc" ? "2" : op == "and" ? "3" : "4";
    at = 1;
    to.expect_operands(instruction, 3, 4);
    value = to.let("zext i1 " + to.read(instruction.operands.back(), kPredicate) + " to i32");
  } else {
    to.expect_operands(instruction, 1, 2);
  }
  const std::string id = to.read(instruction.operands[at], kWord);
  const bool has_count = instruction.operands.size() > at + (what == "red" ? 2u : 1u);
  const std::string count = has_count ? to.read(instruction.operands[at + 1], kWord) : "0";
  const std::string result = to.call("i32", "ptx_barrier",
                                     "i8* %ctx, i32 " + id + ", i32 " + count + ", i32 " + operation + ", i32 " +
                                         value + ", i32 " + std::to_string(to.site(instruction)));
  if (what != "red") return;
  if (operation == "2") return to.write(instruction.operands[0], kWord, result);
  to.write(instruction.operands[0], kPredicate, to.let("icmp ne i32 " + result + ", 0"));
}

void emit_nanosleep(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 1, 1);
  modifiers.take_type();
  to.shared().out.needs_fibers = true;
  to.call_void("ptx_yield", "i8* %ctx");
}

constexpr Opcode kTable[] = {
    {"shfl", emit_shfl},
    {"vote", emit_vote},
    {"match", emit_match},
    {"redux", emit_redux},
    {"activemask", emit_activemask},
    {"elect", emit_elect},
    {"bar", emit_bar},
    {"barrier", emit_bar},
    {"nanosleep", emit_nanosleep},
};

}  // namespace

Handler find_warp(std::string_view opcode) { return find_in(kTable, opcode); }

}  // namespace simulator::ptx
