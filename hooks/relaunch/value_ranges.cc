// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/value_ranges.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>
#include <utility>

namespace thermocline {
namespace {

using Kind = PtxOperand::Kind;

// A loop's values are widened when they have grown as often as this.
constexpr unsigned kGrowsBeforeWidening = 3;
constexpr unsigned kMostPasses = 64, kNarrowingPasses = 4;

// The name of the comparison if its sides are exchanged, and if it does not hold.
std::string_view exchanged(std::string_view how) {
  return how == "lt" ? "gt" : how == "le" ? "ge" : how == "gt" ? "lt" : how == "ge" ? "le" : how;
}
std::string_view opposite(std::string_view how) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOpposites = {
      {{"lt", "ge"}, {"le", "gt"}, {"gt", "le"}, {"ge", "lt"}, {"eq", "ne"}, {"ne", "eq"}}};
  const auto* const found = std::ranges::find(kOpposites, how, &std::pair<std::string_view, std::string_view>::first);
  return found == kOpposites.end() ? std::string_view() : found->second;
}

// The part of `value` that compares like this with the other one. Both are read as integers, or, if `is_unsigned`, as
// unsigned ones.
Interval bounded(Interval value, std::string_view how, const Interval& other, bool is_unsigned) {
  if (!value.is_number() || !other.is_number()) return value;
  // Below an unsigned number that is not negative as a signed one either: then it is not negative.
  const bool bounds_above = how == "lt" || how == "le" || how == "eq";
  if (is_unsigned && (other.least < 0 || (value.least < 0 && !bounds_above))) return value;
  if (is_unsigned) value.least = std::max<std::int64_t>(value.least, 0);
  if (how == "lt") value.most = std::min(value.most, other.most - 1);
  if (how == "le") value.most = std::min(value.most, other.most);
  if (how == "gt") value.least = std::max(value.least, other.least + 1);
  if (how == "ge") value.least = std::max(value.least, other.least);
  if (how == "eq") {
    value.least = std::max(value.least, other.least);
    value.most = std::min(value.most, other.most);
  }
  if (how == "ne" && other.least == other.most) {
    if (value.least == other.least) ++value.least;
    if (value.most == other.least) --value.most;
  }
  return value;
}

// Whether the instruction writes one register, always, and does not read it: then what it computes stays true of it until
// one of these registers is written.
bool is_followed(const PtxInstruction& one) {
  if (one.guard >= 0 || !one.writes_first_operand() || one.operands[0].reg < 0 || one.also_writes() >= 0) return false;
  bool reads_itself = false;
  for_each_read(one, [&](int read) { reads_itself = reads_itself || read == one.operands[0].reg; });
  return !reads_itself;
}

// The type with which an instruction reads its operands: whether one is signed matters to these alone.
std::string read_type(const PtxInstruction& one) {
  std::string type(one.type());
  const bool is_low = one.root == "add" || one.root == "sub" || one.root == "and" || one.root == "or" ||
                      one.root == "xor" || one.root == "not" || one.root == "shl" || one.has("lo");
  type[0] = is_low ? 's' : type[0] == 's' ? 's' : 'u';
  return type;
}

}  // namespace

ValueRanges::ValueRanges(const PtxKernel& kernel, const PtxAccesses& accesses, const PtxBlocks& blocks,
                         const LaunchShape& shape, void* const* parameters, UsedParameters* used)
    : kernel_(kernel), accesses_(accesses), blocks_(blocks), shape_(shape), parameters_(parameters), used_(used) {
  State entry;
  for (std::size_t reg = 0; reg < kernel.bits.size(); ++reg)
    entry.registers.push_back(Interval::any(bytes_of(static_cast<int>(reg))));
  entry.written_by.assign(kernel.bits.size(), -1);
  readers_.resize(kernel.bits.size());
  for (std::size_t i = 0; i < kernel.instructions.size(); ++i) {
    if (!is_followed(kernel.instructions[i])) continue;
    for_each_read(kernel.instructions[i], [&](int read) { readers_[index_of(read)].push_back(static_cast<int>(i)); });
  }
  find_edges();
  // More would take milliseconds.
  constexpr std::size_t kMost = std::size_t{1} << 15;
  is_solved_ = blocks.size() * kernel.bits.size() <= kMost && grow(entry);
  if (is_solved_) narrow(entry);
}

bool ValueRanges::is_never_below(std::size_t word) const {
  if (!is_solved_) return false;
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    if (!at_[block].has_value()) continue;
    State state = *at_[block];
    for (std::size_t i = blocks_.begin_of(block); i < blocks_.end_of(block); ++i) {
      const PtxInstruction& one = kernel_.instructions[i];
      if ((accesses_.through[i] >> word & 1) != 0) {
        State there = state;
        if (one.guard >= 0 && !learn(one.guard, !one.guard_is_negated, &there)) continue;
        const auto address = std::ranges::find(one.operands, Kind::kAddress, &PtxOperand::kind);
        if (address == one.operands.end()) return false;
        const Interval at = of(*address, there);
        if (!at.is_known || at.word != static_cast<int>(word) || at.least < 0) return false;
      }
      step(i, &state);
    }
  }
  return true;
}

void ValueRanges::find_edges() {
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    const PtxInstruction& last = kernel_.instructions[blocks_.end_of(block) - 1];
    const bool jumps = last.root == "bra" || ends_kernel(last);
    const std::size_t end = blocks_.size();
    const std::size_t target = last.root == "bra" ? blocks_.block_of(static_cast<std::size_t>(last.target)) : end;
    if (jumps) edges_.push_back({.from = block, .to = target, .is_taken = true, .state = {}});
    if (!jumps || last.guard >= 0) edges_.push_back({.from = block, .to = block + 1, .is_taken = false, .state = {}});
  }
}

bool ValueRanges::grow(const State& entry) {
  at_.resize(blocks_.size() + 1);
  at_[0] = entry;
  std::vector<unsigned> grows(at_.size());
  bool grew = true;
  for (unsigned pass = 0; grew; ++pass) {
    if (pass == kMostPasses) return false;
    grew = false;
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      if (!at_[block].has_value()) continue;
      leave(block);
      for (const Edge& edge : edges_) {
        if (edge.from != block || !edge.state.has_value()) continue;
        std::optional<State>& to = at_[edge.to];
        State all = to.value_or(*edge.state);
        merge(&all, *edge.state, edge.to <= block && grows[edge.to] >= kGrowsBeforeWidening);
        if (to.has_value() && all == *to) continue;
        to = std::move(all);
        grows[edge.to] += edge.to <= block ? 1 : 0;
        grew = true;
      }
    }
  }
  return true;
}

void ValueRanges::narrow(const State& entry) {
  for (unsigned pass = 0; pass < kNarrowingPasses; ++pass) {
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      std::optional<State> next;
      if (block == 0) next = entry;
      for (const Edge& edge : edges_) {
        if (edge.to != block || !edge.state.has_value()) continue;
        next.has_value() ? merge(&*next, *edge.state, false) : void(next = edge.state);
      }
      at_[block] = std::move(next);
      leave(block);
    }
  }
}

void ValueRanges::leave(std::size_t block) {
  std::optional<State> state = at_[block];
  for (std::size_t i = blocks_.begin_of(block); i < blocks_.end_of(block) && state.has_value(); ++i) step(i, &*state);
  const PtxInstruction& last = kernel_.instructions[blocks_.end_of(block) - 1];
  for (Edge& edge : edges_) {
    if (edge.from != block) continue;
    edge.state = state;
    if (!state.has_value() || last.guard < 0) continue;
    if (!learn(last.guard, edge.is_taken != last.guard_is_negated, &*edge.state)) edge.state.reset();
  }
}

void ValueRanges::merge(State* to, const State& from, bool widens) const {
  for (std::size_t reg = 0; reg < to->registers.size(); ++reg) {
    Interval& one = to->registers[reg];
    one = widens ? widened(one, from.registers[reg], bytes_of(static_cast<int>(reg))) : hull(one, from.registers[reg]);
  }
  for (std::size_t i = 0; i < to->written_by.size(); ++i) {
    if (to->written_by[i] != from.written_by[i]) to->written_by[i] = -1;
  }
}

void ValueRanges::step(std::size_t instruction, State* state) const {
  const PtxInstruction& one = kernel_.instructions[instruction];
  if (!one.writes_first_operand()) return;
  const auto set = [&](int reg) {
    if (reg >= 0) write(reg, computed(one, reg, *state), one.guard < 0, state);
  };
  set(one.operands[0].reg);
  for (const PtxOperand& part : one.operands[0].parts) set(part.reg);
  set(one.also_writes());
  if (is_followed(one)) state->written_by[index_of(one.operands[0].reg)] = static_cast<int>(instruction);
}

void ValueRanges::write(int reg, const Interval& value, bool is_certain, State* state) const {
  Interval& of_register = state->registers[index_of(reg)];
  of_register = is_certain ? value : hull(of_register, value);
  state->written_by[index_of(reg)] = -1;
  for (const int reader : readers_[index_of(reg)]) {
    int& writer = state->written_by[index_of(kernel_.instructions[static_cast<std::size_t>(reader)].operands[0].reg)];
    if (writer == reader) writer = -1;
  }
}

Interval ValueRanges::of(const PtxOperand& operand, const State& state) const {
  if (operand.kind == Kind::kInteger) {
    const bool is_near = operand.value >= -Interval::kFar && operand.value < Interval::kFar;
    return is_near ? Interval::number(operand.value) : Interval::unknown();
  }
  if (operand.kind == Kind::kSpecial) return of_special(operand.text);
  if (operand.reg < 0) return Interval::unknown();
  const Interval value = state.registers[index_of(operand.reg)];
  return operand.kind == Kind::kAddress ? sum(value, Interval::number(operand.value)) : value;
}

Interval ValueRanges::of_special(std::string_view special) const {
  const auto extent = [&](int axis) {
    return static_cast<std::int64_t>(axis < 3 ? shape_.threads[axis] : shape_.blocks[axis - 3]);
  };
  if (const int axis = axis_of(special); axis >= 0) return Interval::between(0, extent(axis) - 1);
  constexpr std::array<std::string_view, 6> kExtents = {"%ntid.x",   "%ntid.y",   "%ntid.z",
                                                        "%nctaid.x", "%nctaid.y", "%nctaid.z"};
  const auto* const found = std::ranges::find(kExtents, special);
  if (found != kExtents.end()) return Interval::number(extent(static_cast<int>(found - kExtents.begin())));
  return special == "%laneid" ? Interval::between(0, 31) : Interval::unknown();
}

Interval ValueRanges::of_parameter(const PtxInstruction& one, int reg) const {
  const int parameter = one.operands[1].reg >= 0 ? -1 : kernel_.parameter(one.operands[1].text);
  const unsigned bytes = type_bytes(one.type());
  const std::int64_t offset = one.operands[1].value + std::int64_t{part_of(one, reg)} * bytes;
  if (parameter < 0 || offset < 0 || offset + bytes > kernel_.parameters[static_cast<std::size_t>(parameter)].bytes)
    return Interval::any(bytes_of(reg));
  for (std::size_t i = 0; i < accesses_.words.size(); ++i) {
    const ParameterWord& word = accesses_.words[i];
    const bool is_address = static_cast<int>(word.parameter) == parameter && (word.reads || word.writes);
    if (!is_address || offset >= word.offset + 8 || offset + bytes <= word.offset) continue;
    // Nothing depends on the bytes of an address.
    return word.offset == offset && bytes == 8 ? Interval::address(static_cast<int>(i)) : Interval::any(bytes);
  }
  if (used_ != nullptr) used_->add({static_cast<std::uint32_t>(parameter), static_cast<std::uint32_t>(offset), bytes});
  std::uint64_t value = 0;
  std::memcpy(&value, static_cast<const unsigned char*>(parameters_[parameter]) + offset, bytes);
  const std::int64_t number =
      bytes == 8 ? static_cast<std::int64_t>(value) : wrapped(static_cast<std::int64_t>(value), "s32");
  if (number <= -Interval::kFar || number >= Interval::kFar) return Interval::unknown();
  return Interval::number(number);
}

// The value that the instruction writes to the register.
Interval ValueRanges::computed(const PtxInstruction& one, int reg, const State& state) const {
  const Interval any = Interval::any(bytes_of(reg));
  if (!is_integer_type(one.type()) || one.operands.size() < 2) return any;
  if (one.root == "cvt") {
    const bool is_followed =
        one.modifiers.size() == 2 && is_integer_type(one.modifiers[0]) && type_bytes(one.modifiers[0]) == bytes_of(reg);
    if (!is_followed) return any;
    return written_as(read_as(of(one.operands[1], state), one.modifiers[1]), one.modifiers[0]);
  }
  const unsigned bytes = type_bytes(one.type()) * (one.has("wide") ? 2 : 1);
  if (bytes != bytes_of(reg)) return any;
  if (one.root == "ld") return one.has("param") ? of_parameter(one, reg) : any;
  if (one.operands[0].reg != reg) return any;
  return bytes == 4 ? written_as(calculated(one, state), "s32") : calculated(one, state);
}

Interval ValueRanges::calculated(const PtxInstruction& one, const State& state) const {
  if (one.has("cc") || one.has("hi") || one.has("sat") || one.has("rn") || one.has("relu")) return Interval::unknown();
  const std::string type = read_type(one);
  const auto operand = [&](std::size_t i) {
    return i < one.operands.size() ? read_as(of(one.operands[i], state), type) : Interval::unknown();
  };
  const Interval a = operand(1);
  if (one.root == "mov" || one.root == "cvta") return of(one.operands[1], state);
  if (one.root == "neg") return difference(Interval::number(0), of(one.operands[1], state));
  if (one.root == "not") return difference(Interval::number(-1), a);
  if (one.root == "abs") return a.is_number() ? greater(a, difference(Interval::number(0), a)) : Interval::unknown();
  if (one.operands.size() < 3) return Interval::unknown();
  const Interval b = operand(2);
  if (one.root == "add") return sum(a, b);
  if (one.root == "sub") return difference(a, b);
  if (one.root == "mul") return product(a, b);
  // The sum of a wide product is one of wide numbers.
  if (one.root == "mad")
    return one.operands.size() == 4 ? sum(product(a, b), of(one.operands[3], state)) : Interval::unknown();
  if (one.root == "div") return quotient(a, b);
  if (one.root == "rem") return remainder(a, b);
  if (one.root == "shl") return shifted_left(a, of(one.operands[2], state));
  if (one.root == "shr") return shifted_right(a, of(one.operands[2], state));
  if (one.root == "and") return bits_in_both(a, b);
  if (one.root == "or" || one.root == "xor") return bits_in_either(a, b);
  if (one.root == "min") return lesser(a, b);
  if (one.root == "max") return greater(a, b);
  if (one.root == "selp") return hull(of(one.operands[1], state), of(one.operands[2], state));
  return Interval::unknown();
}

bool ValueRanges::learn(int predicate, bool value, State* state) const {
  const int instruction = state->written_by[index_of(predicate)];
  if (instruction < 0) return true;
  const PtxInstruction& one = kernel_.instructions[static_cast<std::size_t>(instruction)];
  if (one.root == "setp") return learn_from_comparison(one, value, state);
  const auto is_predicate = [](const PtxOperand& operand) { return operand.kind == Kind::kRegister; };
  if (one.root == "not" && is_predicate(one.operands[1])) return learn(one.operands[1].reg, !value, state);
  // Both hold, or neither does.
  if ((one.root == "and" && value) || (one.root == "or" && !value)) {
    for (std::size_t i = 1; i < one.operands.size(); ++i) {
      if (is_predicate(one.operands[i]) && !learn(one.operands[i].reg, value, state)) return false;
    }
  }
  return true;
}

bool ValueRanges::learn_from_comparison(const PtxInstruction& one, bool holds, State* state) const {
  if (one.modifiers.size() != 2 || one.operands.size() != 3 || !is_integer_type(one.type())) return true;
  std::string_view how = one.modifiers[0];
  if (!holds) how = opposite(how);
  const bool is_unsigned = one.type()[0] == 'u';
  // As signed numbers: those are in the registers.
  const std::string_view type = type_bytes(one.type()) == 4 ? "s32" : "s64";
  const Interval left = read_as(of(one.operands[1], *state), type), right = read_as(of(one.operands[2], *state), type);
  const auto note = [&](const PtxOperand& side, const Interval& is) {
    if (is.is_empty()) return false;
    if (side.kind != Kind::kRegister || bytes_of(side.reg) != type_bytes(one.type())) return true;
    Interval& known = state->registers[index_of(side.reg)];
    const Interval before = std::exchange(known, in_both(known, is));
    return known == before || recompute(side.reg, state);
  };
  return note(one.operands[1], bounded(left, how, right, is_unsigned)) &&
         note(one.operands[2], bounded(right, exchanged(how), left, is_unsigned));
}

// In the order of the code, so that mostly each instruction is computed once, behind all that it reads. Each time that
// one is computed again, as a loop may have it, more is known than before: to stop anywhere is right.
bool ValueRanges::recompute(int reg, State* state) const {
  const auto& first = readers_[index_of(reg)];
  std::set<int> left(first.begin(), first.end());
  for (std::size_t steps = kernel_.instructions.size(); steps > 0 && !left.empty(); --steps) {
    const int reader = left.extract(left.begin()).value();
    const PtxInstruction& one = kernel_.instructions[static_cast<std::size_t>(reader)];
    const int to = one.operands[0].reg;
    if (state->written_by[index_of(to)] != reader) continue;
    Interval& known = state->registers[index_of(to)];
    const Interval now = in_both(known, computed(one, to, *state));
    if (now == known) continue;
    known = now;
    if (now.is_empty()) return false;
    left.insert(readers_[index_of(to)].begin(), readers_[index_of(to)].end());
  }
  return true;
}

}  // namespace thermocline
