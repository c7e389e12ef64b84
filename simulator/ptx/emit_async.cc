// SPDX-License-Identifier: Apache-2.0
// mbarrier objects, and asynchronous copies that signal them; here copies complete at once. Source: PTX ISA 9.0,
// 9.7.9.25 and 9.7.13.15.
#include "simulator/ptx/emit.h"
#include "simulator/ptx/mbarrier.h"

namespace simulator::ptx {
namespace {

constexpr Type kWord{Kind::kBits, 32};
constexpr Type kLong{Kind::kBits, 64};

std::string call(Emitter& to, const Instruction& instruction, const std::string& address, MbarrierOperation operation,
                 const std::string& argument) {
  to.shared().out.needs_fibers = true;
  to.shared().out.is_ordered = true;
  return to.call("i64", "ptx_mbarrier",
                 "i8* %ctx, i32 " + std::to_string(to.site(instruction)) + ", i64 " + address + ", i32 " +
                     std::to_string(static_cast<unsigned>(operation)) + ", i64 " + argument);
}

std::string widened(Emitter& to, const Operand& operand) {
  return to.let("zext i32 " + to.read(operand, kWord) + " to i64");
}

// `state, [address] {, count}`, or `_` for the state, which may also be left out if it is not used.
void emit_arrive(Emitter& to, const Instruction& instruction, const Space space, MbarrierOperation operation) {
  to.expect_operands(instruction, 1, 3);
  const bool has_state = instruction.operands[0].form != Operand::Form::kAddress;
  const std::size_t at = has_state ? 1 : 0;
  if (at >= instruction.operands.size()) to.refuse("expected an address");
  const std::string address = to.generic_address(instruction.operands[at], space);
  std::string count = "1";
  if (operation == MbarrierOperation::kArriveExpecting && instruction.operands.size() != at + 2)
    to.refuse("expected a number of bytes");
  if (instruction.operands.size() == at + 2) count = widened(to, instruction.operands[at + 1]);
  const std::string state = call(to, instruction, address, operation, count);
  if (has_state) to.write(instruction.operands[0], kLong, state);
}

void emit_wait(Emitter& to, const Instruction& instruction, const Space space, bool by_parity, bool suspends) {
  to.expect_operands(instruction, 3, suspends ? 4 : 3);
  const std::string address = to.generic_address(instruction.operands[1], space);
  const std::string which = by_parity ? widened(to, instruction.operands[2]) : to.read(instruction.operands[2], kLong);
  const std::string done =
      call(to, instruction, address, by_parity ? MbarrierOperation::kTestParity : MbarrierOperation::kTest, which);
  to.write(instruction.operands[0], {Kind::kPredicate, 1}, to.let("icmp ne i64 " + done + ", 0"));
}

void emit_one(Emitter& to, const Instruction& instruction, const Space space, MbarrierOperation operation,
              bool has_argument) {
  const std::size_t count = has_argument ? 2 : 1;
  to.expect_operands(instruction, count, count);
  const std::string argument = has_argument ? widened(to, instruction.operands[1]) : "0";
  call(to, instruction, to.generic_address(instruction.operands[0], space), operation, argument);
}

void emit_mbarrier(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const std::string_view what = modifiers.take_any(
      {"init", "inval", "arrive", "arrive_drop", "test_wait", "try_wait", "expect_tx", "complete_tx", "pending_count"});
  const bool expects = what.starts_with("arrive") && modifiers.take("expect_tx");
  const bool by_parity = modifiers.take("parity");
  modifiers.take("noComplete");
  modifiers.take_any({"relaxed", "release", "acquire"});
  modifiers.take_any({"cta", "cluster"});
  const Space space = take_space(modifiers);
  if (modifiers.take_type() != kLong) to.refuse("the form is not supported");
  using Operation = MbarrierOperation;
  if (what == "init") return emit_one(to, instruction, space, Operation::kInit, true);
  if (what == "inval") return emit_one(to, instruction, space, Operation::kInvalidate, false);
  if (what == "expect_tx") return emit_one(to, instruction, space, Operation::kExpect, true);
  if (what == "complete_tx") return emit_one(to, instruction, space, Operation::kComplete, true);
  if (what == "test_wait" || what == "try_wait")
    return emit_wait(to, instruction, space, by_parity, what == "try_wait");
  if (what == "arrive_drop") {
    if (expects) to.refuse("the form is not supported");
    return emit_arrive(to, instruction, space, Operation::kDrop);
  }
  if (what == "arrive")
    return emit_arrive(to, instruction, space, expects ? Operation::kArriveExpecting : Operation::kArrive);
  if (what != "pending_count") to.refuse("the form is not supported");
  to.expect_operands(instruction, 2, 2);
  const std::string state = to.read(instruction.operands[1], kLong);
  to.write(instruction.operands[0], kWord,
           to.let("trunc i64 " + to.let("and i64 " + state + ", " + std::to_string(kMostArrivals)) + " to i32"));
}

constexpr Opcode kTable[] = {{"mbarrier", emit_mbarrier}};

}  // namespace

Handler find_async(std::string_view opcode) { return find_in(kTable, opcode); }

// cp.async.mbarrier.arrive: the thread's copies are complete, so it arrives now; without .noinc one arrival was added
// first.
void emit_copies_arrive(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const bool counts = modifiers.take("noinc");
  const Space space = take_space(modifiers);
  if (!modifiers.take("arrive") || modifiers.take_type() != kLong) to.refuse("the form is not supported");
  to.expect_operands(instruction, 1, 1);
  const std::string address = to.generic_address(instruction.operands[0], space);
  if (counts) call(to, instruction, address, MbarrierOperation::kArrive, "1");
}

void emit_bulk_copy(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (modifiers.take("commit_group") || modifiers.take("wait_group")) {
    modifiers.take("read");
    return;
  }
  if (modifiers.take("tensor")) to.refuse("copies of tensors are not supported");
  if (modifiers.take("prefetch")) {
    modifiers.take("L2");
    modifiers.take("global");
    modifiers.take("L2::cache_hint");
    return;
  }
  const bool to_shared =
      !instruction.modifiers.empty() && !modifiers.left().empty() && modifiers.left().front().starts_with("shared");
  const std::string_view shared = modifiers.take_any({"shared::cta", "shared::cluster"});
  const Space space = shared == "shared::cluster" ? Space::kSharedCluster : Space::kShared;
  const bool is_within_cluster = to_shared && space == Space::kSharedCluster && modifiers.take("shared::cta");
  if (!is_within_cluster && !modifiers.take("global")) to.refuse("the form is not supported");
  if (!to_shared) modifiers.take("shared::cta");
  const bool tells = modifiers.take("mbarrier::complete_tx::bytes");
  if (tells != to_shared || (!tells && !modifiers.take("bulk_group"))) to.refuse("the form is not supported");
  const bool hinted = modifiers.take("L2::cache_hint");
  const std::size_t count = (tells ? 4u : 3u) + (hinted ? 1u : 0u);
  to.expect_operands(instruction, count, count);
  const std::string into = to.generic_address(instruction.operands[0], to_shared ? space : Space::kGlobal);
  const std::string from =
      to.generic_address(instruction.operands[1], to_shared && !is_within_cluster ? Space::kGlobal : Space::kShared);
  const std::string bytes = to.read(instruction.operands[2], kWord);
  to.call_void("ptx_copy", "i8* %ctx, i32 " + std::to_string(to.site(instruction)) + ", i64 " + into + ", i64 " + from +
                               ", i32 " + bytes);
  if (!tells) return;
  const std::string barrier = to.generic_address(instruction.operands[3], space);
  call(to, instruction, barrier, MbarrierOperation::kComplete, to.let("zext i32 " + bytes + " to i64"));
}

}  // namespace simulator::ptx
