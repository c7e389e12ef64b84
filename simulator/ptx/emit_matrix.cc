// SPDX-License-Identifier: Apache-2.0
// Matrices distributed over a warp: each lane stores its registers in words of its own, waits for the others, and finds
// its part of the result there (matrix.h). Source: PTX ISA 9.0, 9.7.14 (wmma, mma, ldmatrix, stmatrix).
#include <optional>

#include "simulator/ptx/emit.h"
#include "simulator/ptx/matrix.h"
#include "simulator/ptx/warp_operation.h"

namespace simulator::ptx {
namespace {

struct Named {
  std::string_view name;
  Element element;
};

constexpr Named kElements[] = {
    {"f16", Element::kF16},   {"bf16", Element::kBf16}, {"tf32", Element::kTf32}, {"f32", Element::kF32},
    {"f64", Element::kF64},   {"s8", Element::kS8},     {"u8", Element::kU8},     {"s4", Element::kS4},
    {"u4", Element::kU4},     {"b1", Element::kB1},     {"s32", Element::kS32},   {"e4m3", Element::kE4m3},
    {"e5m2", Element::kE5m2},
};

// The first modifier that is the name of an element type.
std::optional<Element> take_element(Modifiers& modifiers) {
  for (const std::string_view modifier : modifiers.left()) {
    for (const Named& named : kElements) {
      if (modifier != named.name) continue;
      modifiers.take(modifier);
      return named.element;
    }
  }
  return std::nullopt;
}

// `m16n8k16`
bool read_extents(std::string_view text, MatrixShape* out) {
  unsigned* const into[] = {&out->m, &out->n, &out->k};
  std::size_t at = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    if (at >= text.size() || text[at] != "mnk"[i]) return false;
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9' && *into[i] < 1000; ++at)
      *into[i] = *into[i] * 10 + static_cast<unsigned>(text[at] - '0');
  }
  return at == text.size() && out->m != 0 && out->n != 0 && out->k != 0;
}

void take_extents(Emitter& to, Modifiers& modifiers, MatrixShape* out) {
  for (const std::string_view modifier : modifiers.left()) {
    if (!modifier.starts_with('m') || !read_extents(modifier, out)) continue;
    modifiers.take(modifier);
    if (out->m > 32 || out->n > 32 || out->k > 256) to.refuse("the shape is not supported");
    return;
  }
  to.refuse("the shape is not supported");
}

// Number of registers for this many elements.
unsigned registers_for(unsigned elements, Element element) {
  return element == Element::kF64 ? elements : elements * bits_of(element) / 32;
}

// For mma: every element is in one lane.
void lay_out(Emitter& to, MatrixShape* shape) {
  const bool is_known = shape->n == 8 && (shape->m == 8 || shape->m == 16);
  const auto set = [](Fragment& fragment, unsigned elements) {
    fragment.registers = registers_for(elements / 32, fragment.element);
  };
  set(shape->a, shape->m * shape->k);
  set(shape->b, shape->k * shape->n);
  set(shape->c, shape->m * shape->n);
  set(shape->d, shape->m * shape->n);
  const bool has_all = shape->a.registers != 0 && shape->b.registers != 0 && shape->c.registers != 0 &&
                       shape->d.registers != 0 && shape->a.registers <= 8;
  // The only shape of the oldest devices has a different grouping of lanes.
  const bool is_oldest = shape->m == 8 && shape->a.element == Element::kF16;
  if (!is_known || !has_all || is_oldest) to.refuse("the shape is not supported");
}

// For wmma: halves are stored twice where the ISA gives them 8 registers.
void lay_out_wmma(Emitter& to, MatrixShape* shape) {
  const auto count = [&](Fragment& fragment, unsigned elements, bool is_factor) {
    fragment.registers = registers_for(elements / 32, fragment.element);
    if (is_factor && fragment.element == Element::kF16) fragment.registers = 8;
  };
  count(shape->a, shape->m * shape->k, true);
  count(shape->b, shape->k * shape->n, true);
  count(shape->c, shape->m * shape->n, false);
  count(shape->d, shape->m * shape->n, false);
  for (const Fragment* const fragment : {&shape->a, &shape->b, &shape->c, &shape->d}) {
    if (fragment->registers == 0 || fragment->registers > 8) to.refuse("the shape is not supported");
  }
}

std::vector<Operand> registers_of(const Operand& operand) {
  return operand.form == Operand::Form::kVector ? operand.parts : std::vector<Operand>{operand};
}

std::string word_at(Emitter& to, unsigned word, unsigned bits) {
  const std::string at = to.let("getelementptr i8, i8* %words, i64 " + std::to_string(4 * word));
  return to.let("bitcast i8* " + at + " to " + integer_type(bits) + "*");
}

void put(Emitter& to, const Operand& operand, const Fragment& fragment, unsigned word) {
  const unsigned bits = fragment.element == Element::kF64 ? 64 : 32;
  const std::vector<Operand> registers = registers_of(operand);
  if (registers.size() != fragment.registers) to.refuse("another number of registers than the shape has");
  for (std::size_t i = 0; i < registers.size(); ++i) {
    const std::string value = to.read_bits(registers[i], bits);
    const std::string at = word_at(to, word + static_cast<unsigned>(i) * bits / 32, bits);
    to.line("store " + integer_type(bits) + " " + value + ", " + integer_type(bits) + "* " + at);
  }
}

void get(Emitter& to, const Operand& operand, const Fragment& fragment, unsigned word) {
  const unsigned bits = fragment.element == Element::kF64 ? 64 : 32;
  const std::vector<Operand> registers = registers_of(operand);
  if (registers.size() != fragment.registers) to.refuse("another number of registers than the shape has");
  for (std::size_t i = 0; i < registers.size(); ++i) {
    const std::string at = word_at(to, word + static_cast<unsigned>(i) * bits / 32, bits);
    const std::string value = to.let("load " + integer_type(bits) + ", " + integer_type(bits) + "* " + at);
    to.write(registers[i], {Kind::kBits, static_cast<std::uint16_t>(bits)}, value);
  }
}

void exchange(Emitter& to, WarpOperation operation, std::uint64_t what) {
  to.shared().out.needs_fibers = true;
  const std::string words = to.let("ptrtoint i8* %words to i64");
  to.call("i64", "ptx_warp",
          "i8* %ctx, i32 " + std::to_string(static_cast<unsigned>(operation)) + ", i32 -1, i64 " + words + ", i64 " +
              std::to_string(what) + ", i32 0");
}

void multiply(Emitter& to, const Instruction& instruction, const MatrixShape& shape) {
  to.expect_operands(instruction, 4, 4);
  put(to, instruction.operands[1], shape.a, kWordsOfA);
  put(to, instruction.operands[2], shape.b, kWordsOfB);
  put(to, instruction.operands[3], shape.c, kWordsOfC);
  exchange(to, WarpOperation::kMultiply, shape.packed());
  get(to, instruction.operands[0], shape.d, kWordsOfD);
}

// Sums of integers wrap unless they saturate; for floating-point numbers the modifier changes nothing.
void take_operation(Emitter& to, Modifiers& modifiers, MatrixShape* shape) {
  shape->saturates = modifiers.take("satfinite");
  if (modifiers.take("xor")) shape->bits = '^';
  if (modifiers.take("and")) shape->bits = '&';
  modifiers.take("popc");
  if ((shape->bits != 0) != (shape->a.element == Element::kB1)) to.refuse("the form is not supported");
}

void take_four(Emitter& to, Modifiers& modifiers, MatrixShape* shape) {
  for (Fragment* const fragment : {&shape->d, &shape->a, &shape->b, &shape->c}) {
    const auto element = take_element(modifiers);
    if (!element) to.refuse("the types are not supported");
    fragment->element = *element;
  }
  const bool sums_integers = shape->d.element == Element::kS32;
  const bool has_sums = sums_integers || shape->d.element == Element::kF32 || shape->d.element == Element::kF16 ||
                        shape->d.element == Element::kF64;
  if (!has_sums || sums_integers != (shape->c.element == Element::kS32)) to.refuse("the types are not supported");
}

void emit_mma(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  modifiers.take("sync");
  modifiers.take("aligned");
  for (const std::string_view sparse : {"sp", "sp::ordered_metadata"}) {
    if (modifiers.take(sparse)) to.refuse("'." + std::string(sparse) + "' is not supported");
  }
  MatrixShape shape;
  take_extents(to, modifiers, &shape);
  // Instructions for which only one layout exists.
  if (!modifiers.take("row") || !modifiers.take("col")) to.refuse("the layout is not supported");
  take_four(to, modifiers, &shape);
  take_operation(to, modifiers, &shape);
  lay_out(to, &shape);
  multiply(to, instruction, shape);
}

// ---- wmma

// The other extents of the shape do not matter for one matrix, so other matrices' element types are set to its own.
void emit_wmma_memory(Emitter& to, const Instruction& instruction, Modifiers& modifiers, bool stores) {
  const std::string_view which = modifiers.take_any({"a", "b", "c", "d"});
  modifiers.take("sync");
  modifiers.take("aligned");
  const std::string_view layout = modifiers.take_any({"row", "col"});
  MatrixShape shape;
  shape.is_wmma = true;
  take_extents(to, modifiers, &shape);
  const Space space = take_space(modifiers);
  const auto element = take_element(modifiers);
  if (which.empty() || layout.empty() || !element) to.refuse("the form is not supported");
  to.expect_operands(instruction, 2, 3);
  for (Fragment* const fragment : {&shape.a, &shape.b, &shape.c, &shape.d}) fragment->element = *element;
  const bool is_factor = which == "a" || which == "b";
  const unsigned rows = which == "b" ? shape.k : shape.m, columns = which == "a" ? shape.k : shape.n;
  Fragment fragment{*element, registers_for(rows * columns / 32, *element)};
  if (is_factor && *element == Element::kF16) fragment.registers = 8;
  if (fragment.registers == 0 || fragment.registers > 8) to.refuse("the shape is not supported");
  const std::size_t at = stores ? 0 : 1;
  const std::string address = to.generic_address(instruction.operands[at], space);
  std::string stride = std::to_string(layout == "row" ? columns : rows);
  if (instruction.operands.size() == 3) stride = to.read_bits(instruction.operands[2], 32);
  const auto wait = [&] {
    to.shared().out.needs_fibers = true;
    to.call("i64", "ptx_warp",
            "i8* %ctx, i32 " + std::to_string(static_cast<unsigned>(WarpOperation::kSync)) +
                ", i32 -1, i64 0, i64 0, i32 0");
  };
  if (stores) put(to, instruction.operands[1], fragment, kWordsOfD);
  if (!stores) wait();
  const unsigned what =
      static_cast<unsigned>(*element) | fragment.registers << 4 | (layout == "row" ? 256u : 0u) | (stores ? 512u : 0u);
  to.call_void("ptx_wmma_move", "i8* %ctx, i32 " + std::to_string(to.site(instruction)) + ", i64 " + address +
                                    ", i32 " + stride + ", i32 " + std::to_string(what) + ", i32 " +
                                    std::to_string(rows) + ", i32 " + std::to_string(columns) + ", i8* %words");
  if (stores) return wait();
  get(to, instruction.operands[0], fragment, kWordsOfD);
}

void emit_wmma(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (modifiers.take("load")) return emit_wmma_memory(to, instruction, modifiers, false);
  if (modifiers.take("store")) return emit_wmma_memory(to, instruction, modifiers, true);
  if (!modifiers.take("mma")) to.refuse("the form is not supported");
  modifiers.take("sync");
  modifiers.take("aligned");
  MatrixShape shape;
  shape.is_wmma = true;
  // The layout of the factors in memory matters only for the loads.
  modifiers.take_any({"row", "col"});
  modifiers.take_any({"row", "col"});
  take_extents(to, modifiers, &shape);
  modifiers.take_any({"rn"});
  std::vector<Element> elements;
  while (const auto element = take_element(modifiers)) elements.push_back(*element);
  if (elements.size() == 2) elements = {elements[0], Element::kF16, Element::kF16, elements[1]};
  if (elements.size() != 4) to.refuse("the types are not supported");
  Fragment* const fragments[] = {&shape.d, &shape.a, &shape.b, &shape.c};
  for (std::size_t i = 0; i < 4; ++i) fragments[i]->element = elements[i];
  take_operation(to, modifiers, &shape);
  lay_out_wmma(to, &shape);
  multiply(to, instruction, shape);
}

// ---- rows of 8 x 8 halves between shared memory and the lanes

void emit_rows(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  Rows rows;
  rows.stores = instruction.opcode == "stmatrix";
  modifiers.take("sync");
  modifiers.take("aligned");
  const std::string_view count = modifiers.take_any({"x1", "x2", "x4"});
  if (count.empty() || !modifiers.take("m8n8")) to.refuse("the shape is not supported");
  rows.matrices = static_cast<unsigned>(count[1] - '0');
  rows.transposes = modifiers.take("trans");
  const Space space = take_space(modifiers);
  if (!modifiers.take("b16") || (space != Space::kShared && space != Space::kGeneric))
    to.refuse("the form is not supported");
  to.expect_operands(instruction, 2, 2);
  const Operand& memory = instruction.operands[rows.stores ? 0 : 1];
  const Operand& registers = instruction.operands[rows.stores ? 1 : 0];
  const Fragment fragment{Element::kF16, rows.matrices};
  if (rows.stores) put(to, registers, fragment, kWordsOfD);
  const std::string address = to.generic_address(memory, space);
  const std::string checked = to.call("i64", "ptx_row",
                                      "i8* %ctx, i32 " + std::to_string(to.site(instruction)) + ", i64 " + address +
                                          ", i32 " + std::to_string(rows.packed()));
  to.line("store i64 " + checked + ", i64* " + word_at(to, 0, 64));
  exchange(to, WarpOperation::kRows, rows.packed());
  if (!rows.stores) get(to, registers, fragment, kWordsOfD);
}

constexpr Opcode kTable[] = {
    {"mma", emit_mma},
    {"wmma", emit_wmma},
    {"ldmatrix", emit_rows},
    {"stmatrix", emit_rows},
};

}  // namespace

Handler find_matrix(std::string_view opcode) { return find_in(kTable, opcode); }

}  // namespace simulator::ptx
