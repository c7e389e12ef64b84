// SPDX-License-Identifier: Apache-2.0
// Video instructions: arithmetic on selected parts of words, or on their halves and bytes side by side. Source: PTX ISA
// 9.0, 9.7.17.
#include <optional>

#include "simulator/ptx/emit.h"
#include "simulator/ptx/video.h"

namespace simulator::ptx {
namespace {

constexpr Type kWord{Kind::kBits, 32};

std::string number(std::uint32_t value) { return std::to_string(value); }

bool take_sign(Emitter& to, Modifiers& modifiers) {
  const Type type = modifiers.take_type();
  if (type.bits != 32 || (type.kind != Kind::kSigned && type.kind != Kind::kUnsigned))
    to.refuse("the type is not supported");
  return type.is_signed();
}

std::string whole_word(Emitter& to, Operand operand) {
  operand.part = {};
  return to.read(operand, kWord);
}

// ---- one lane

struct Part {
  unsigned at = 0, bits = 32;
};

// `.b2`, `.h1`, or the whole word.
Part part_of(Emitter& to, const Operand& operand) {
  const std::string_view name = operand.part;
  if (name.empty()) return {};
  const unsigned bits = name[0] == 'b' ? 8 : 16;
  const unsigned index = name.size() == 2 ? static_cast<unsigned>(name[1] - '0') : 4;
  if ((name[0] != 'b' && name[0] != 'h') || index >= 32 / bits) to.refuse("the part of the operand is not known");
  return {bits * index, bits};
}

// Extended to 64 bits.
std::string selected(Emitter& to, const Operand& operand, bool is_signed) {
  const Part part = part_of(to, operand);
  const std::string top = to.let("shl i32 " + whole_word(to, operand) + ", " + number(32 - part.at - part.bits));
  const std::string low = to.let((is_signed ? "ashr i32 " : "lshr i32 ") + top + ", " + number(32 - part.bits));
  return to.let((is_signed ? "sext i32 " : "zext i32 ") + low + " to i64");
}

VideoSecond take_second(Modifiers& modifiers) {
  const std::string_view name = modifiers.take_any({"add", "min", "max"});
  return name == "add"   ? VideoSecond::kAdd
         : name == "min" ? VideoSecond::kMin
         : name == "max" ? VideoSecond::kMax
                         : VideoSecond::kNone;
}

void emit_one_lane(Emitter& to, const Instruction& instruction, Modifiers& modifiers, Video video) {
  to.expect_operands(instruction, 3, 4);
  video.second = take_second(modifiers);
  Operand into = instruction.operands[0];
  const Part part = part_of(to, into);
  const bool merges = !into.part.empty();
  if (merges && video.second != VideoSecond::kNone) to.refuse("the form is not supported");
  const std::size_t count = merges || video.second != VideoSecond::kNone ? 4 : 3;
  to.expect_operands(instruction, count, count);
  video.part_at = part.at;
  video.part_bits = part.bits;
  const std::string a = selected(to, instruction.operands[1], video.a_is_signed);
  const std::string b = selected(to, instruction.operands[2], video.b_is_signed);
  const std::string c = count == 4 ? to.read(instruction.operands[3], kWord) : "0";
  into.part = {};
  to.write(into, kWord,
           to.call("i32", "ptx_video", "i64 " + a + ", i64 " + b + ", i32 " + c + ", i32 " + number(video.packed())));
}

// ---- two or four lanes

// `.h10`, `.b7654`: the digit of the highest lane comes first.
std::uint32_t parts_of(Emitter& to, const Operand& operand, unsigned lanes, std::uint32_t usual) {
  const std::string_view name = operand.part;
  if (name.empty()) return usual;
  if (name.size() != lanes + 1 || name[0] != (lanes == 2 ? 'h' : 'b'))
    to.refuse("the parts of the operand are not known");
  std::uint32_t parts = 0;
  for (const char digit : name.substr(1)) {
    const auto index = static_cast<unsigned>(digit - '0');
    if (index >= 2 * lanes) to.refuse("the parts of the operand are not known");
    parts = parts << 4 | index;
  }
  return parts;
}

unsigned mask_of(Emitter& to, const Operand& operand, unsigned lanes) {
  const std::string_view name = operand.part;
  if (name.empty()) return 15;
  if (name[0] != (lanes == 2 ? 'h' : 'b')) to.refuse("the parts of the destination are not known");
  unsigned mask = 0;
  for (const char digit : name.substr(1)) {
    const auto lane = static_cast<unsigned>(digit - '0');
    if (lane >= lanes) to.refuse("the parts of the destination are not known");
    mask |= 1u << lane;
  }
  return mask;
}

void emit_lanes(Emitter& to, const Instruction& instruction, Modifiers& modifiers, Video video) {
  if (modifiers.take("add")) video.second = VideoSecond::kAdd;
  to.expect_operands(instruction, 4, 4);
  Operand into = instruction.operands[0];
  video.mask = mask_of(to, into, video.lanes);
  into.part = {};
  const bool pairs = video.lanes == 2;
  const std::uint32_t a_parts = parts_of(to, instruction.operands[1], video.lanes, pairs ? 0x10 : 0x3210);
  const std::uint32_t b_parts = parts_of(to, instruction.operands[2], video.lanes, pairs ? 0x32 : 0x7654);
  const std::string a = whole_word(to, instruction.operands[1]), b = whole_word(to, instruction.operands[2]);
  const std::string c = to.read(instruction.operands[3], kWord);
  to.write(into, kWord,
           to.call("i32", "ptx_video_lanes",
                   "i32 " + a + ", i32 " + b + ", i32 " + c + ", i32 " + number(video.packed()) + ", i32 " +
                       number(a_parts) + ", i32 " + number(b_parts)));
}

// ---- opcodes

struct Name {
  std::string_view name;
  VideoOperation operation;
  bool has_one_lane;
  bool has_more;
};

constexpr Name kNames[] = {
    {"vadd", VideoOperation::kAdd, true, true},        {"vsub", VideoOperation::kSub, true, true},
    {"vmin", VideoOperation::kMin, true, true},        {"vmax", VideoOperation::kMax, true, true},
    {"vshl", VideoOperation::kShiftLeft, true, false}, {"vshr", VideoOperation::kShiftRight, true, false},
    {"vavrg", VideoOperation::kAverage, false, true},  {"vabsdiff", VideoOperation::kDifference, true, true}};

void emit_video(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  Video video;
  std::string_view name = instruction.opcode;
  if (name.back() == '2' || name.back() == '4') {
    video.lanes = static_cast<unsigned>(name.back() - '0');
    name.remove_suffix(1);
  }
  for (const Name& entry : kNames) {
    if (entry.name == name) video.operation = entry.operation;
  }
  video.saturates = modifiers.take("sat");
  video.wraps = modifiers.take_any({"clamp", "wrap"}) == "wrap";
  video.d_is_signed = take_sign(to, modifiers);
  video.a_is_signed = take_sign(to, modifiers);
  video.b_is_signed = take_sign(to, modifiers);
  video.lanes == 1 ? emit_one_lane(to, instruction, modifiers, video) : emit_lanes(to, instruction, modifiers, video);
}

void emit_vset(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  Video video;
  if (instruction.opcode != "vset") video.lanes = static_cast<unsigned>(instruction.opcode.back() - '0');
  video.a_is_signed = take_sign(to, modifiers);
  video.b_is_signed = take_sign(to, modifiers);
  const std::string_view order = modifiers.take_any({"eq", "ne", "lt", "le", "gt", "ge"});
  if (order.empty()) to.refuse("compares in no way that is known");
  video.operation = order == "eq"   ? VideoOperation::kEqual
                    : order == "ne" ? VideoOperation::kNotEqual
                    : order == "lt" ? VideoOperation::kLess
                    : order == "le" ? VideoOperation::kLessOrEqual
                    : order == "gt" ? VideoOperation::kGreater
                                    : VideoOperation::kGreaterOrEqual;
  video.lanes == 1 ? emit_one_lane(to, instruction, modifiers, video) : emit_lanes(to, instruction, modifiers, video);
}

void emit_vmad(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 4, 4);
  const bool saturates = modifiers.take("sat"), adds_one = modifiers.take("po");
  const std::string_view scale = modifiers.take_any({"shr7", "shr15"});
  take_sign(to, modifiers);  // the result's own sign follows from those of the operands
  const bool a_is_signed = take_sign(to, modifiers), b_is_signed = take_sign(to, modifiers);
  const std::string a = selected(to, instruction.operands[1], a_is_signed);
  const std::string b = selected(to, instruction.operands[2], b_is_signed);
  const std::uint32_t flags = (a_is_signed || b_is_signed ? 1u : 0u) | (saturates ? 2u : 0u) | (adds_one ? 4u : 0u);
  const std::uint32_t shift = scale == "shr7" ? 7 : scale == "shr15" ? 15 : 0;
  to.write(instruction.operands[0], kWord,
           to.call("i32", "ptx_vmad",
                   "i64 " + a + ", i64 " + b + ", i32 " + to.read(instruction.operands[3], kWord) + ", i32 " +
                       number(shift) + ", i32 " + number(flags)));
}

constexpr Opcode kOthers[] = {{"vmad", emit_vmad}, {"vset", emit_vset}, {"vset2", emit_vset}, {"vset4", emit_vset}};

}  // namespace

Handler find_video(std::string_view opcode) {
  if (const Handler found = find_in(kOthers, opcode); found != nullptr) return found;
  for (const Name& entry : kNames) {
    if (!opcode.starts_with(entry.name)) continue;
    const std::string_view lanes = opcode.substr(entry.name.size());
    if (lanes.empty() ? entry.has_one_lane : entry.has_more && (lanes == "2" || lanes == "4")) return emit_video;
  }
  return nullptr;
}

}  // namespace simulator::ptx
