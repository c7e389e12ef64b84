// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/block_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>

namespace thermocline {
namespace {

using Kind = PtxOperand::Kind;

constexpr unsigned kLanes = 32;
// The most instructions that are interpreted for a kernel, over all its launches.
constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 22;
// The most for one launch, so that a long one leaves some for others.
constexpr std::uint64_t kMostStepsOfOne = kMostSteps / 8;
constexpr std::size_t kMostFound = 32;
// Each variable of shared memory has an address space of its own: so results hold wherever the variables are.
constexpr unsigned kVariableBits = 24;
constexpr std::size_t kMostVariables = (std::size_t{1} << (32 - kVariableBits)) - 2;
// The cost of finding regions grows with the square of the number of blocks, and more.
constexpr std::size_t kMostBlocks = 512;

struct Value {
  bool is_known = false;
  bool is_address = false;  // in shared memory
  std::uint64_t bits = 0;
  std::uint64_t loads = 0;  // the parameters that it is computed from
};

bool is_signed(std::string_view type) { return type[0] == 's'; }
std::uint64_t truncated(std::uint64_t bits, unsigned bytes) {
  return bytes >= 8 ? bits : bits & ((std::uint64_t{1} << (8 * bytes)) - 1);
}
// The bits as an integer of the type.
std::int64_t number(std::uint64_t bits, std::string_view type) {
  return wrapped(static_cast<std::int64_t>(bits), type);
}

std::optional<bool> compared(std::string_view how, std::uint64_t a, std::uint64_t b, std::string_view type) {
  const bool less = is_signed(type) ? number(a, type) < number(b, type) : a < b;
  if (how == "eq") return a == b;
  if (how == "ne") return a != b;
  if (how == "lt") return less;
  if (how == "ge") return !less;
  if (how == "le") return less || a == b;
  if (how == "gt") return !less && a != b;
  return std::nullopt;
}

// Shifts integers and predicates; nothing: the instruction is not supported.
std::optional<std::uint64_t> shifted(const PtxInstruction& one, std::uint64_t a, std::uint64_t by) {
  const unsigned bits = 8 * ptx_type_bytes(one.type());
  by = truncated(by, 4);
  if (one.root == "shl") return by >= bits ? 0 : a << by;
  if (!is_signed(one.type())) return by >= bits ? 0 : a >> by;
  return static_cast<std::uint64_t>(number(a, one.type()) >> std::min<std::uint64_t>(by, bits - 1));
}
std::optional<std::uint64_t> divided(const PtxInstruction& one, std::uint64_t a, std::uint64_t b) {
  if (b == 0) return std::nullopt;
  if (!is_signed(one.type())) return one.root == "div" ? a / b : a % b;
  const std::int64_t x = number(a, one.type()), y = number(b, one.type());
  if (y == -1) return std::nullopt;
  return static_cast<std::uint64_t>(one.root == "div" ? x / y : x % y);
}
std::optional<std::uint64_t> extreme(const PtxInstruction& one, std::uint64_t a, std::uint64_t b) {
  const bool less = is_signed(one.type()) ? number(a, one.type()) < number(b, one.type()) : a < b;
  return less == (one.root == "min") ? a : b;
}
std::optional<std::uint64_t> multiplied(const PtxInstruction& one, std::uint64_t a, std::uint64_t b) {
  if (one.has("lo")) return a * b;
  if (!one.has("wide")) return std::nullopt;
  if (!is_signed(one.type())) return a * b;
  return static_cast<std::uint64_t>(number(a, one.type())) * static_cast<std::uint64_t>(number(b, one.type()));
}

std::optional<std::uint64_t> computed(const PtxInstruction& one, const std::array<std::uint64_t, 3>& v) {
  if (one.root == "mov" || one.root == "cvta") return v[0];
  if (one.root == "add") return v[0] + v[1];
  if (one.root == "sub") return v[0] - v[1];
  if (one.root == "mul") return multiplied(one, v[0], v[1]);
  if (one.root == "mad") {
    const std::optional<std::uint64_t> product = multiplied(one, v[0], v[1]);
    return product ? std::optional(*product + v[2]) : std::nullopt;
  }
  if (one.root == "and") return v[0] & v[1];
  if (one.root == "or") return v[0] | v[1];
  if (one.root == "xor") return v[0] ^ v[1];
  if (one.root == "not") return ~v[0];
  if (one.root == "neg") return 0 - v[0];
  if (one.root == "shl" || one.root == "shr") return shifted(one, v[0], v[1]);
  if (one.root == "min" || one.root == "max") return extreme(one, v[0], v[1]);
  if (one.root == "div" || one.root == "rem") return divided(one, v[0], v[1]);
  return std::nullopt;
}

bool is_followed(const PtxInstruction& one) {
  const bool is_predicate = one.type() == "pred";
  const bool is_plain = std::ranges::none_of(one.modifiers, [](std::string_view modifier) {
    return modifier == "cc" || modifier == "sat" || modifier == "hi" || modifier == "x";
  });
  return is_plain && one.operands.size() >= 2 && one.operands.size() <= 4 && one.operands[0].kind == Kind::kRegister &&
         (is_predicate || is_integer_type(one.type()));
}

}  // namespace

bool exchanges_values(const PtxInstruction& one) {
  return one.root == "bar" || one.root == "shfl" || one.has("shared") || one.has("shared::cta");
}

// A block of threads, from one barrier to the next.
class BlockRuns::Run {
 public:
  Run(const BlockRuns& of, const LaunchShape& shape, void* const* parameters)
      : of_(of), kernel_(of.kernel_), shape_(shape), parameters_(parameters) {
    count_ = shape.threads[0] * shape.threads[1] * shape.threads[2];
    for (const std::uint64_t bytes : kernel_.shared_bytes) {
      begins_.push_back(all_bytes_);
      sizes_.push_back(bytes == PtxKernel::kOfTheLaunch ? shape.shared_bytes : bytes);
      all_bytes_ += sizes_.back();
    }
  }

  bool run(std::uint64_t* steps_left) {
    constexpr std::uint64_t kMostThreads = 1024;
    // More than any device has.
    constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;
    constexpr std::size_t kMostRegisters = std::size_t{1} << 20;
    if (count_ == 0 || count_ > kMostThreads || all_bytes_ > kMostBytes) return false;
    if (count_ * kernel_.bits.size() > kMostRegisters || sizes_.size() > kMostVariables) return false;
    bytes_.resize(all_bytes_);
    threads_.resize(count_);
    for (Thread& thread : threads_) thread.registers.resize(kernel_.bits.size());
    steps_left_ = steps_left;
    while (!threads_[0].is_over) {
      if (!run_to_barrier()) return false;
    }
    return true;
  }
  std::uint64_t loads() const { return loads_; }

 private:
  struct Thread {
    std::vector<Value> registers;
    std::size_t at = 0;  // index of the next instruction
    bool is_over = false;
    std::vector<std::size_t> shuffles;  // since the barrier
  };
  static constexpr int kNobody = -1, kSeveral = -2;
  // A byte of shared memory, since the last barrier.
  struct Byte {
    int writer = kNobody, reader = kNobody;
    bool is_written = false;  // before the barrier
  };
  enum class Step : std::uint8_t { kGoesOn, kBarrier, kEnds, kUnknown };

  bool run_to_barrier() {
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      threads_[i].shuffles.clear();
      Step step = Step::kGoesOn;
      while (step == Step::kGoesOn) {
        if (*steps_left_ == 0) return false;
        --*steps_left_;
        step = advance(i);
      }
      if (step == Step::kUnknown) return false;
      threads_[i].is_over = step == Step::kEnds;
      if (threads_[i].at != threads_[0].at || threads_[i].is_over != threads_[0].is_over) return false;
    }
    for (const std::size_t at : accessed_) {
      bytes_[at].is_written |= bytes_[at].writer != kNobody;
      bytes_[at].writer = bytes_[at].reader = kNobody;
    }
    accessed_.clear();
    return are_shuffles_alike();
  }
  bool are_shuffles_alike() const {
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      if (threads_[i].shuffles != threads_[i - i % kLanes].shuffles) return false;
      if (!threads_[i].shuffles.empty() && threads_.size() % kLanes != 0) return false;
    }
    return true;
  }

  Value special(std::string_view name, std::size_t thread) const {
    const std::uint64_t* const n = shape_.threads;
    const std::uint64_t place[3] = {thread % n[0], thread / n[0] % n[1], thread / n[0] / n[1]};
    const auto axis = static_cast<std::size_t>(name.back() - 'x');
    Value value{.is_known = true};
    if (name.starts_with("%tid.") && axis < 3) return value.bits = place[axis], value;
    if (name.starts_with("%ntid.") && axis < 3) return value.bits = n[axis], value;
    if (name.starts_with("%nctaid.") && axis < 3) return value.bits = shape_.blocks[axis], value;
    return {};
  }
  Value of_variable(std::string_view name) const {
    const auto found = std::ranges::find(kernel_.shared, name);
    if (found == kernel_.shared.end()) return {};
    const auto index = static_cast<std::uint64_t>(found - kernel_.shared.begin());
    return {.is_known = true, .is_address = true, .bits = (index + 1) << kVariableBits, .loads = 0};
  }
  Value of(const PtxOperand& operand, std::size_t thread) const {
    if (operand.reg >= 0 && operand.kind != Kind::kVector) return threads_[thread].registers[index_of(operand.reg)];
    if (operand.kind == Kind::kInteger)
      return {.is_known = true, .is_address = false, .bits = static_cast<std::uint64_t>(operand.value), .loads = 0};
    if (operand.kind == Kind::kSpecial) return special(operand.text, thread);
    return operand.kind == Kind::kVector ? Value() : of_variable(operand.text);
  }

  void set(const PtxInstruction& one, const Value& value, std::size_t thread) {
    const auto write = [&](int reg) {
      if (reg >= 0) threads_[thread].registers[index_of(reg)] = value;
    };
    if (one.operands[0].kind == Kind::kRegister) write(one.operands[0].reg);
    for (const PtxOperand& part : one.operands[0].parts) write(part.reg);
    write(one.also_writes());
  }

  // Goes on at the block.
  Step go_to(std::size_t block, std::size_t thread) {
    threads_[thread].at = of_.blocks_.begin_of(block);
    return block == of_.blocks_.size() ? Step::kEnds : Step::kGoesOn;
  }
  Step advance(std::size_t thread) {
    std::size_t& at = threads_[thread].at;
    if (at == kernel_.instructions.size()) return Step::kEnds;
    const PtxInstruction& one = kernel_.instructions[at];
    const bool jumps = one.root == "bra", ends = ends_kernel(one);
    Value guard{.is_known = true, .is_address = false, .bits = 1, .loads = 0};
    if (one.guard >= 0) guard = threads_[thread].registers[index_of(one.guard)];
    const bool holds = ((guard.bits & 1) != 0) != one.guard_is_negated;
    if (jumps || ends) {
      const std::size_t block = of_.blocks_.block_of(at);
      const Region& region = of_.regions_[block];
      if (one.guard >= 0 && !region.exchanges && (!guard.is_known || region.comes_around)) {
        for (const int reg : region.written) threads_[thread].registers[index_of(reg)] = {};
        return go_to(region.end, thread);
      }
      if (!guard.is_known) return Step::kUnknown;
      loads_ |= guard.loads;
      if (!holds) return go_to(block + 1, thread);
      return go_to(jumps ? of_.blocks_.block_of(static_cast<std::size_t>(one.target)) : of_.blocks_.size(), thread);
    }
    ++at;
    if (exchanges_values(one)) {
      if (!guard.is_known) return Step::kUnknown;
      loads_ |= guard.loads;
      return holds ? exchange(one, thread) : Step::kGoesOn;
    }
    if (!one.writes_first_operand()) return Step::kGoesOn;
    if (!guard.is_known) return set(one, {}, thread), Step::kGoesOn;
    Value value = holds ? evaluate(one, thread) : of(one.operands[0], thread);
    value.loads |= guard.loads;
    return set(one, value, thread), Step::kGoesOn;
  }

  Step exchange(const PtxInstruction& one, std::size_t thread) {
    const auto index = static_cast<std::size_t>(&one - kernel_.instructions.data());
    if (one.root == "bar") return Step::kBarrier;
    if (one.root == "shfl") {
      threads_[thread].shuffles.push_back(index);
      // The shuffle has to include all lanes.
      const Value lanes = of(one.operands.back(), thread);
      if (!lanes.is_known || lanes.is_address || truncated(lanes.bits, 4) != 0xffffffff) return Step::kUnknown;
      loads_ |= lanes.loads;
    } else if (!access(one, thread)) {
      return Step::kUnknown;
    }
    if (one.root != "st") set(one, {}, thread);
    return Step::kGoesOn;
  }
  bool access(const PtxInstruction& one, std::size_t thread) {
    const bool stores = one.root == "st";
    const PtxOperand &address = one.operands[stores ? 0 : 1], &what = one.operands[stores ? 1 : 0];
    const Value at = of(address, thread);
    if (!at.is_known || !at.is_address) return false;
    loads_ |= at.loads;
    const std::uint64_t parts = what.kind == Kind::kVector ? what.parts.size() : 1;
    const std::uint64_t bytes = ptx_type_bytes(one.type()) * parts;
    const std::uint64_t place = truncated(at.bits + static_cast<std::uint64_t>(address.value), 4);
    const std::uint64_t variable = (place >> kVariableBits) - 1, offset = place & ((1u << kVariableBits) - 1);
    if (variable >= begins_.size() || bytes == 0 || offset + bytes > sizes_[variable]) return false;
    for (std::uint64_t i = 0; i < bytes; ++i) {
      if (!(stores ? write(begins_[variable] + offset + i, static_cast<int>(thread))
                   : read(begins_[variable] + offset + i, static_cast<int>(thread))))
        return false;
    }
    return true;
  }
  bool write(std::size_t at, int thread) {
    Byte& byte = bytes_[at];
    if ((byte.writer != kNobody && byte.writer != thread) || (byte.reader != kNobody && byte.reader != thread))
      return false;
    byte.writer = thread;
    accessed_.push_back(at);
    return true;
  }
  bool read(std::size_t at, int thread) {
    Byte& byte = bytes_[at];
    if (byte.writer != kNobody ? byte.writer != thread : !byte.is_written) return false;
    byte.reader = byte.reader == kNobody || byte.reader == thread ? thread : kSeveral;
    accessed_.push_back(at);
    return true;
  }

  Value evaluate(const PtxInstruction& one, std::size_t thread) const {
    if (one.root == "ld") return one.has("param") ? load(one) : Value();
    if (!is_followed(one)) return {};
    std::array<Value, 3> values;
    for (std::size_t i = 1; i < one.operands.size(); ++i) values[i - 1] = of(one.operands[i], thread);
    const std::size_t count = one.operands.size() - 1;
    if (one.root == "selp") return count == 3 ? selected(values) : Value();
    Value value{.is_known = true};
    for (std::size_t i = 0; i < count; ++i) {
      value.is_known = value.is_known && values[i].is_known;
      value.loads |= values[i].loads;
    }
    if (!value.is_known) return {};
    if (one.root == "setp") return tested(one, values, value.loads);
    std::array<std::uint64_t, 3> bits{};
    const bool is_conversion = one.root == "cvt";
    if (is_conversion && (one.modifiers.size() != 2 || !is_integer_type(one.modifiers[0]))) return {};
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_whole = one.has("wide") && i == 2;
      bits[i] = is_whole ? values[i].bits : truncated(values[i].bits, width_of(one));
    }
    if (!keeps_address(one, values, &value.is_address)) return {};
    const std::optional<std::uint64_t> result =
        is_conversion ? std::optional(static_cast<std::uint64_t>(number(bits[0], one.type()))) : computed(one, bits);
    if (!result) return {};
    value.bits = truncated(*result, result_width_of(one));
    return value;
  }
  static unsigned width_of(const PtxInstruction& one) { return one.type() == "pred" ? 1 : ptx_type_bytes(one.type()); }
  static unsigned result_width_of(const PtxInstruction& one) {
    if (one.has("wide")) return 8;
    return one.root == "cvt" ? ptx_type_bytes(one.modifiers[0]) : width_of(one);
  }
  static Value selected(const std::array<Value, 3>& values) {
    if (!values[2].is_known) return {};
    Value value = (values[2].bits & 1) != 0 ? values[0] : values[1];
    value.loads |= values[2].loads;
    return value;
  }
  // Addresses are compared only within a variable: then its place makes no difference.
  static Value tested(const PtxInstruction& one, const std::array<Value, 3>& values, std::uint64_t loads) {
    if (one.operands.size() != 3 || one.modifiers.size() != 2) return {};
    const unsigned bytes = ptx_type_bytes(one.type());
    const std::uint64_t a = truncated(values[0].bits, bytes), b = truncated(values[1].bits, bytes);
    if (values[0].is_address != values[1].is_address) return {};
    if (values[0].is_address && a >> kVariableBits != b >> kVariableBits) return {};
    const std::optional<bool> holds = compared(one.modifiers[0], a, b, one.type());
    if (!holds) return {};
    return {.is_known = true, .is_address = false, .bits = *holds ? 1u : 0u, .loads = loads};
  }
  // False: the result depends on the place of a variable.
  static bool keeps_address(const PtxInstruction& one, const std::array<Value, 3>& values, bool* is_address) {
    const bool first = values[0].is_address, second = values[1].is_address, third = values[2].is_address;
    *is_address = first || second || third;
    if (!*is_address) return true;
    if (one.root == "mov" || one.root == "cvt") return true;
    if (one.root == "add") return first != second;
    if (one.root == "sub") return first && !second;
    return one.root == "mad" && !first && !second;
  }
  Value load(const PtxInstruction& one) const {
    const auto index = static_cast<std::size_t>(&one - kernel_.instructions.data());
    if (of_.load_bits_[index] == 0) return {};
    const unsigned bits = kernel_.bits[index_of(one.operands[0].reg)];
    Value value{.is_known = true, .is_address = false, .bits = 0, .loads = of_.load_bits_[index]};
    value.bits = of_.parameter_at(index, parameters_);
    if (is_signed(one.type())) value.bits = static_cast<std::uint64_t>(number(value.bits, one.type()));
    return value.bits = truncated(value.bits, bits / 8), value;
  }

  const BlockRuns& of_;
  const PtxKernel& kernel_;
  LaunchShape shape_;
  void* const* parameters_;
  std::uint64_t count_ = 0;
  std::uint64_t loads_ = 0;
  std::uint64_t* steps_left_ = nullptr;
  std::vector<std::size_t> begins_, sizes_, accessed_;
  std::size_t all_bytes_ = 0;
  std::vector<Byte> bytes_;
  std::vector<Thread> threads_;
};

BlockRuns::BlockRuns(const PtxKernel& kernel, const PtxBlocks& blocks)
    : kernel_(kernel), blocks_(blocks), load_bits_(kernel.instructions.size()), steps_left_(kMostSteps) {
  for (std::size_t i = 0; i < kernel.instructions.size(); ++i) {
    const PtxInstruction& one = kernel.instructions[i];
    if (one.root != "ld" || !one.has("param") || one.operands.size() < 2) continue;
    const PtxOperand &to = one.operands[0], &from = one.operands[1];
    const int parameter = from.reg >= 0 ? -1 : kernel.parameter(from.text);
    const unsigned bytes = ptx_type_bytes(one.type());
    if (parameter < 0 || to.kind != Kind::kRegister || bytes == 0 || bytes > 8 || from.value < 0) continue;
    if (static_cast<std::uint64_t>(from.value) + bytes > kernel.parameters[index_of(parameter)].bytes) continue;
    // The last bit stands for all remaining loads.
    load_bits_[i] = std::uint64_t{1} << std::min<std::size_t>(parameter_loads_.size(), 63);
    parameter_loads_.push_back(i);
  }
  find_regions();
}

std::vector<std::size_t> BlockRuns::successors(std::size_t block) const {
  const PtxInstruction& last = kernel_.instructions[blocks_.end_of(block) - 1];
  const bool jumps = last.root == "bra", ends = ends_kernel(last);
  std::vector<std::size_t> next;
  if (jumps) next.push_back(blocks_.block_of(static_cast<std::size_t>(last.target)));
  if (ends) next.push_back(blocks_.size());
  if ((!jumps && !ends) || last.guard >= 0) next.push_back(block + 1);
  return next;
}

// Finds each region from the blocks through which all paths from its first block to the end lead.
void BlockRuns::find_regions() {
  const std::size_t count = blocks_.size();
  if (count > kMostBlocks) {
    const MutexLock lock(mutex_);
    steps_left_ = 0;
    return;
  }
  std::vector<std::vector<bool>> behind(count + 1, std::vector<bool>(count + 1, true));
  behind[count].assign(count + 1, false);
  behind[count][count] = true;
  for (bool again = true; again;) {
    again = false;
    for (std::size_t block = count; block-- > 0;) {
      std::vector<bool> all(count + 1, true);
      for (const std::size_t next : successors(block)) {
        for (std::size_t i = 0; i <= count; ++i) all[i] = all[i] && behind[next][i];
      }
      all[block] = true;
      again |= all != behind[block];
      behind[block] = std::move(all);
    }
  }
  std::vector<std::size_t> sizes;
  sizes.reserve(behind.size());
  for (const std::vector<bool>& all : behind) sizes.push_back(static_cast<std::size_t>(std::ranges::count(all, true)));
  for (std::size_t block = 0; block < count; ++block) {
    // The nearest is the one that has all others behind it.
    std::size_t nearest = count, most = 0;
    for (std::size_t i = 0; i <= count; ++i) {
      if (i == block || !behind[block][i]) continue;
      if (sizes[i] > most) most = sizes[i], nearest = i;
    }
    regions_.push_back(region_of(block, nearest));
  }
}

BlockRuns::Region BlockRuns::region_of(std::size_t block, std::size_t end) const {
  Region region{.end = end, .exchanges = false, .comes_around = false, .written = {}};
  std::vector<bool> is_in(blocks_.size() + 1, false);
  std::vector<std::size_t> due = successors(block);
  while (!due.empty()) {
    const std::size_t one = due.back();
    due.pop_back();
    if (one == end || one == blocks_.size() || is_in[one]) continue;
    is_in[one] = true;
    for (std::size_t i = blocks_.begin_of(one); i < blocks_.end_of(one); ++i) {
      const PtxInstruction& instruction = kernel_.instructions[i];
      region.exchanges |= exchanges_values(instruction);
      if (!instruction.writes_first_operand()) continue;
      if (instruction.operands[0].reg >= 0) region.written.push_back(instruction.operands[0].reg);
      for (const PtxOperand& part : instruction.operands[0].parts) {
        if (part.reg >= 0) region.written.push_back(part.reg);
      }
      if (instruction.also_writes() >= 0) region.written.push_back(instruction.also_writes());
    }
    for (const std::size_t next : successors(one)) {
      region.comes_around |= next <= one && (is_in[next] || next == block);
      due.push_back(next);
    }
  }
  return region;
}

std::uint64_t BlockRuns::parameter_at(std::size_t load, void* const* parameters) const {
  const PtxInstruction& one = kernel_.instructions[load];
  const PtxOperand& from = one.operands[1];
  std::uint64_t value = 0;
  std::memcpy(&value, static_cast<const unsigned char*>(parameters[kernel_.parameter(from.text)]) + from.value,
              ptx_type_bytes(one.type()));
  return value;
}

std::vector<std::uint64_t> BlockRuns::values_of(std::uint64_t loads, void* const* parameters) const {
  std::vector<std::uint64_t> values;
  for (const std::size_t i : parameter_loads_) {
    if ((load_bits_[i] & loads) != 0) values.push_back(parameter_at(i, parameters));
  }
  return values;
}

void BlockRuns::add_used(std::uint64_t loads, UsedParameters* used) const {
  for (const std::size_t i : parameter_loads_) {
    if ((load_bits_[i] & loads) == 0) continue;
    const PtxInstruction& one = kernel_.instructions[i];
    used->add({static_cast<std::uint32_t>(kernel_.parameter(one.operands[1].text)),
               static_cast<std::uint32_t>(one.operands[1].value), ptx_type_bytes(one.type())});
  }
}

bool BlockRuns::hold_for(const LaunchShape& shape, void* const* parameters, UsedParameters* used) const {
  const MutexLock lock(mutex_);
  for (const Found& one : found_) {
    if (std::ranges::equal(one.shape.threads, shape.threads) && std::ranges::equal(one.shape.blocks, shape.blocks) &&
        one.shape.shared_bytes == shape.shared_bytes && one.values == values_of(one.loads, parameters)) {
      add_used(one.loads, used);
      return one.holds;
    }
  }
  if (steps_left_ == 0) return false;
  Run run(*this, shape, parameters);
  const std::uint64_t given = std::min(steps_left_, kMostStepsOfOne);
  std::uint64_t left = given;
  const bool holds = run.run(&left);
  steps_left_ -= given - left;
  if (found_.size() == kMostFound) found_.erase(found_.begin());
  add_used(run.loads(), used);
  found_.push_back({shape, run.loads(), values_of(run.loads(), parameters), holds});
  return holds;
}

}  // namespace thermocline
