// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/ptx_accesses.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <span>

namespace thermocline {
namespace {

using Kind = PtxOperand::Kind;
using Why = RerunRefusal::Why;

enum Origin : unsigned {
  kLoaded = 1,  // eight bytes that were in memory
  kOpaque = 2,  // it could be any address
  kSymbol = 4,  // the address of a variable of the module
  kOnChip = 8,  // shared or local memory
  kIndex = 16,  // four bytes or fewer that were in memory, perhaps widened, or a multiple of such a value
  kKept = 32,   // eight bytes that were in shared or local memory
};
constexpr unsigned kFound = unsigned{kLoaded} | kKept;

// All that a value may be, on one path or another. A number may be an address that was put together from parts.
enum Form : unsigned {
  kAddress = 1,   // it has a word of the parameters in it, or the address of a variable
  kConstant = 2,  // too small for an address: null, for example
  kNumber = 4,
};

struct Value {
  std::uint64_t words = 0;
  unsigned origins = 0;
  unsigned forms = 0;  // 0: it has not been written

  void join(const Value& other) {
    words |= other.words;
    origins |= other.origins;
    forms |= other.forms;
  }
  bool operator==(const Value&) const = default;
};

constexpr std::array<std::string_view, 53> kArithmetic = {
    "add",   "sub",  "mul",  "mad",   "mad24", "mul24", "div",  "rem",   "abs",  "neg",   "min",
    "max",   "fma",  "sqrt", "rsqrt", "rcp",   "sin",   "cos",  "lg2",   "ex2",  "tanh",  "copysign",
    "and",   "or",   "xor",  "not",   "shl",   "shr",   "shf",  "bfe",   "bfi",  "bfind", "brev",
    "clz",   "popc", "lop3", "prmt",  "cvt",   "mov",   "selp", "slct",  "setp", "set",   "sad",
    "testp", "cnot", "addc", "subc",  "madc",  "dp4a",  "dp2a", "szext", "cvta"};
// These exchange values between threads or order threads, and access no global memory.
constexpr std::array<std::string_view, 17> kOfThreads = {
    "bar", "barrier",  "membar", "fence", "shfl", "vote",      "match",    "redux",    "activemask",
    "mma", "ldmatrix", "bra",    "ret",   "exit", "nanosleep", "prefetch", "prefetchu"};

// The forms of what is computed from two values. On each path each of them has one form.
unsigned combined(unsigned a, unsigned b) {
  constexpr unsigned kPlain = unsigned{kConstant} | kNumber;
  unsigned forms = a & b & kConstant;
  if (((a | b) & kAddress) != 0 && a != 0 && b != 0) forms |= kAddress;
  if ((a & kPlain) != 0 && (b & kPlain) != 0 && ((a | b) & kNumber) != 0) forms |= kNumber;
  return forms;
}

unsigned forms_of_result(const PtxInstruction& one, std::span<const unsigned> operands) {
  if (operands.empty()) return kNumber;
  const bool chooses = one.root == "selp" || one.root == "slct" || one.root == "min" || one.root == "max";
  if (chooses && operands.size() > 1) return operands[0] | operands[1];
  unsigned forms = operands[0], each = operands[0];
  for (const unsigned operand : operands.subspan(1)) {
    forms = combined(forms, operand);
    each |= operand;
  }
  // A product of small numbers may be as large as an address.
  const bool multiplies = one.root == "mul" || one.root == "mad" || one.root == "shl";
  if (multiplies && each == kConstant) return kNumber;
  // A value that is added to an address is an index. Other instructions may put a number's bits in the place of the address's.
  const bool adds = one.root == "add" || one.root == "sub" || one.root == "mad";
  return adds ? forms : forms | (each & kNumber);
}

template <class List>
bool is_in(const List& list, std::string_view root) {
  return std::ranges::find(list, root) != list.end();
}

class Flow {
 public:
  explicit Flow(const PtxKernel& kernel) : kernel_(kernel), values_(kernel.bits.size()) {
    out_.through.resize(kernel.instructions.size());
  }

  PtxAccesses run() {
    for (bool again = true; again && !out_.unknown;) {
      again = false;
      for (std::size_t i = 0; i < kernel_.instructions.size() && !out_.unknown; ++i) again |= step(i);
    }
    for (std::size_t i = 0; i < kernel_.instructions.size() && !out_.unknown; ++i) note_access(i);
    note_waits();
    note_parts_of_words();
    return std::move(out_);
  }

 private:
  bool set(const PtxOperand& to, const Value& value) {
    if (to.kind == Kind::kVector) {
      bool changed = false;
      for (const PtxOperand& part : to.parts) changed |= set(part, value);
      return changed;
    }
    if (to.kind != Kind::kRegister) return false;
    Value joined = values_[static_cast<std::size_t>(to.reg)];
    if (kernel_.bits[static_cast<std::size_t>(to.reg)] < 64) {
      use_as_value(value);
      // Halves of an address that are put together again are opaque (packs()).
      joined.join({0, value.origins & (kFound | kOpaque | kIndex) ? unsigned{kIndex} : 0u, kNumber});
    } else {
      joined.join(value);
    }
    Value& old = values_[static_cast<std::size_t>(to.reg)];
    const bool changed = !(old == joined);
    old = joined;
    return changed;
  }
  void note_waits() {
    bool goes_back = false, sees_others = false;
    for (std::size_t i = 0; i < kernel_.instructions.size(); ++i) {
      const PtxInstruction& one = kernel_.instructions[i];
      goes_back |= one.root == "bra" && one.target <= static_cast<int>(i);
      // Work that is submitted later does not write there.
      if (one.has("shared") || one.has("shared::cta")) continue;
      sees_others |= one.root == "atom" || one.root == "nanosleep" || one.root == "membar" || one.root == "fence";
      sees_others |=
          one.root == "ld" && (one.has("volatile") || one.has("relaxed") || one.has("acquire") || one.has("cv"));
    }
    out_.may_wait = goes_back && sees_others;
  }
  // A part of an address that is loaded by itself counts as a number.
  void note_parts_of_words() {
    for (const PtxInstruction& one : kernel_.instructions) {
      if (one.root != "ld" || !one.has("param") || one.operands.size() < 2) continue;
      const int parameter = kernel_.parameter(one.operands[1].text);
      const auto offset = static_cast<unsigned>(one.operands[1].value);
      const std::size_t parts = std::max<std::size_t>(one.operands[0].parts.size(), 1);
      const unsigned each = ptx_type_bytes(one.type()), end = offset + each * static_cast<unsigned>(parts);
      for (ParameterWord& word : out_.words) {
        const bool overlaps =
            static_cast<int>(word.parameter) == parameter && offset < word.offset + 8 && word.offset < end;
        const bool is_loaded_whole = each == 8 && (word.offset - offset) % 8 == 0;
        if (overlaps && !is_loaded_whole) word.is_value = true;
      }
    }
  }
  void use_as_value(const Value& value) {
    for (std::size_t i = 0; i < out_.words.size(); ++i) {
      if ((value.words >> i & 1) != 0) out_.words[i].is_value = true;
    }
  }
  void give_up(Why why, std::string_view what = {}) { out_.unknown = {why, what}; }

  Value of(const PtxOperand& operand) {
    Value value{.forms = kNumber};
    if (operand.kind == Kind::kVector) {
      for (const PtxOperand& part : operand.parts) value.join(of(part));
    } else if (operand.kind == Kind::kInteger) {
      constexpr std::int64_t kMost = std::int64_t{1} << 31;
      if (operand.value > -kMost && operand.value < kMost) value.forms = kConstant;
    } else if (operand.reg >= 0) {
      value = values_[static_cast<std::size_t>(operand.reg)];
    } else if (operand.kind == Kind::kOther && !operand.text.empty() && kernel_.parameter(operand.text) >= 0) {
      give_up(Why::kParameterAddress);
    } else if (operand.kind == Kind::kOther && is_name(operand.text)) {
      value.origins = is_in(kernel_.shared, operand.text) || is_in(kernel_.local, operand.text) ? kOnChip : kSymbol;
      value.forms = kAddress;
    }
    return value;
  }
  // A floating-point constant begins with a digit.
  static bool is_name(std::string_view text) { return !text.empty() && (text.front() < '0' || text.front() > '9'); }

  bool step(std::size_t index) {
    const PtxInstruction& one = kernel_.instructions[index];
    if (one.root == "ld" || one.root == "ldu") return load(one);
    if (one.root == "st" || one.root == "red") {
      for (std::size_t i = 1; i < one.operands.size(); ++i) use_as_value(of(one.operands[i]));
      return false;
    }
    if (one.root == "atom") {
      for (std::size_t i = 2; i < one.operands.size(); ++i) use_as_value(of(one.operands[i]));
      return set(one.operands[0], {0, unsigned{kLoaded} | kIndex, kNumber});
    }
    if (is_in(kOfThreads, one.root)) return exchange(one);
    if (!is_in(kArithmetic, one.root)) {
      give_up(Why::kUnknownInstruction, one.root);
      return false;
    }
    return compute(one);
  }

  bool exchange(const PtxInstruction& one) {
    Value all;
    for (std::size_t i = 1; i < one.operands.size(); ++i) all.join(of(one.operands[i]));
    use_as_value(all);
    if (!one.writes_first_operand()) return false;
    return set(one.operands[0], {0, unsigned{kIndex}, kNumber});
  }

  bool load(const PtxInstruction& one) {
    if (one.operands.size() < 2) return give_up(Why::kUnknownInstruction, one.root), false;
    const PtxOperand& from = one.operands[1];
    if (one.has("param")) return load_parameter(one, from);
    const bool is_kept = one.has("shared") || one.has("local");
    const unsigned found = is_kept ? unsigned{kKept} : unsigned{kLoaded};
    return set(one.operands[0], {0, ptx_type_bytes(one.type()) >= 8 ? found : unsigned{kIndex}, kNumber});
  }
  bool load_parameter(const PtxInstruction& one, const PtxOperand& from) {
    const int parameter = from.reg >= 0 ? -1 : kernel_.parameter(from.text);
    if (parameter < 0) return give_up(Why::kParameterAddress), false;
    const unsigned bytes = ptx_type_bytes(one.type());
    const PtxOperand& to = one.operands[0];
    if (bytes < 8) return set(to, {0, 0, kNumber});
    bool changed = false;
    const std::size_t count = to.kind == Kind::kVector ? to.parts.size() : 1;
    for (std::size_t i = 0; i < count; ++i) {
      const int word =
          word_at(static_cast<unsigned>(parameter), static_cast<unsigned>(from.value) + 8 * static_cast<unsigned>(i));
      if (word < 0) return give_up(Why::kTooManyParameters), false;
      changed |= set(to.kind == Kind::kVector ? to.parts[i] : to, {std::uint64_t{1} << word, 0, kAddress});
    }
    return changed;
  }
  int word_at(unsigned parameter, unsigned offset) {
    for (std::size_t i = 0; i < out_.words.size(); ++i) {
      if (out_.words[i].parameter == parameter && out_.words[i].offset == offset) return static_cast<int>(i);
    }
    if (out_.words.size() == PtxAccesses::kMostWords) return -1;
    out_.words.push_back({parameter, offset});
    return static_cast<int>(out_.words.size()) - 1;
  }

  // A multiple of an address is not an address: it is an index.
  static bool multiplies(const PtxInstruction& one, std::size_t operand) {
    if (one.root == "mul" || (one.root == "mad" && one.operands.size() == 4)) return operand < 3;
    return one.root == "shl" && one.operands[2].kind == Kind::kInteger && one.operands[2].value > 0;
  }
  // Whether the register is a parameter as it was passed, on every path.
  bool is_parameter(int reg) const {
    const PtxInstruction* only = nullptr;
    for (const PtxInstruction& one : kernel_.instructions) {
      if (!one.writes_first_operand()) continue;
      const bool writes =
          one.operands[0].reg == reg || std::ranges::count(one.operands[0].parts, reg, &PtxOperand::reg);
      if (writes && only != nullptr) return false;
      if (writes) only = &one;
    }
    return only != nullptr && only->root == "ld" && only->has("param") && only->guard < 0;
  }
  // Whether the instruction tests a pointer for null. The place of the buffer makes no difference to that.
  bool tests_for_null(const PtxInstruction& one) const {
    if (one.root != "setp" || one.operands.size() != 3 || one.modifiers.size() != 2 || ptx_type_bytes(one.type()) != 8)
      return false;
    if (one.modifiers[0] != "eq" && one.modifiers[0] != "ne") return false;
    const PtxOperand &pointer = one.operands[1], &null = one.operands[2];
    return null.kind == Kind::kInteger && null.value == 0 && pointer.kind == Kind::kRegister &&
           is_parameter(pointer.reg);
  }
  // A sum keeps the words that it is computed from; every other instruction makes values of them.
  bool compute(const PtxInstruction& one) {
    if (tests_for_null(one)) return false;
    Value all;
    boost::container::small_vector<unsigned, 5> forms;
    for (std::size_t i = 1; i < one.operands.size(); ++i) {
      Value value = of(one.operands[i]);
      if (multiplies(one, i)) {
        use_as_value(value);
        value.words = 0;
        if ((value.origins & kFound) != 0) value.origins = (value.origins & ~kFound) | kIndex;
        if (value.forms != kConstant) value.forms = value.forms == 0 ? 0 : unsigned{kNumber};
      }
      forms.push_back(value.forms);
      all.join(value);
    }
    if (out_.unknown) return false;
    all.forms = forms_of_result(one, {forms.data(), forms.size()});
    const bool is_address = one.root == "mov" || one.root == "add" || one.root == "sub" || one.root == "cvta" ||
                            (one.root == "selp" && one.operands.size() == 4);
    const bool is_summed = one.root == "mad" && one.operands.size() == 4;
    if (!is_address && !is_summed) use_as_value(all);
    const bool is_opaque = packs(one) || mixes_words(one) || subtracts_from_a_number(one, {forms.data(), forms.size()});
    if (is_opaque) all.origins |= kOpaque;
    return set(one.operands[0], all);
  }
  // The number may be an address that was put together. Added to the other one, the difference is that address.
  static bool subtracts_from_a_number(const PtxInstruction& one, std::span<const unsigned> forms) {
    return one.root == "sub" && forms.size() > 1 && (forms[0] & kNumber) != 0 && (forms[1] & kAddress) != 0;
  }
  // The bits of two words of the parameters together may be any address: of a buffer that neither of them leads to.
  bool mixes_words(const PtxInstruction& one) {
    constexpr std::array<std::string_view, 7> kOfBits = {"and", "or", "xor", "lop3", "shf", "prmt", "bfi"};
    if (!is_in(kOfBits, one.root)) return false;
    std::uint64_t words = 0;
    for (std::size_t i = 1; i < one.operands.size(); ++i) {
      const std::uint64_t here = of(one.operands[i]).words;
      if (words != 0 && here != 0 && here != words) return true;
      words |= here;
    }
    return false;
  }
  // Whether the instruction may compose any address from smaller values.
  bool packs(const PtxInstruction& one) {
    const PtxOperand& to = one.operands[0];
    if (to.kind != Kind::kRegister || kernel_.bits[static_cast<std::size_t>(to.reg)] < 64) return false;
    if (one.root == "mov") return one.operands.size() == 2 && one.operands[1].kind == Kind::kVector;
    if (one.root == "add" || one.root == "sub" || one.root == "cvt" || one.root == "cvta" || one.root == "selp" ||
        one.root == "min" || one.root == "max")
      return false;
    unsigned from_memory = 0;
    for (std::size_t i = 1; i < one.operands.size(); ++i) from_memory += (of(one.operands[i]).origins & kIndex) != 0;
    if (one.root == "mul" || one.root == "mad") return from_memory > 1;
    if (one.root == "shl") {
      constexpr std::int64_t kLargestElement = 12;
      return from_memory > 0 && !(one.operands[2].kind == Kind::kInteger && one.operands[2].value <= kLargestElement);
    }
    return from_memory > 0 && one.root != "shr" && one.root != "and" && one.root != "div" && one.root != "rem";
  }

  void note_access(std::size_t index) {
    const PtxInstruction& one = kernel_.instructions[index];
    const bool loads = one.root == "ld" || one.root == "ldu" || one.root == "atom" || one.root == "red";
    const bool stores = one.root == "st" || one.root == "red" || one.root == "atom";
    if (!loads && !stores) return;
    for (const std::string_view elsewhere : {"shared", "shared::cta", "shared::cluster", "local", "param", "const"}) {
      if (one.has(elsewhere)) return;
    }
    const std::size_t at = one.root == "ld" || one.root == "ldu" || one.root == "atom" ? 1 : 0;
    if (one.operands.size() <= at || one.operands[at].kind != Kind::kAddress)
      return give_up(Why::kUnknownInstruction, one.root);
    const PtxOperand& address = one.operands[at];
    Value value = of(address);
    // A number, as from a compiler that knows where a buffer is, may be any address.
    if (address.reg < 0) value = {0, is_name(address.text) ? unsigned{kSymbol} : unsigned{kOpaque}, kAddress};
    if ((value.origins & kLoaded) != 0) return give_up(Why::kFollowsPointers);
    if ((value.origins & kKept) != 0) return give_up(Why::kKeepsPointers);
    if ((value.origins & kOpaque) != 0) return give_up(Why::kUnknownAddress);
    // On some path a number, perhaps put together from parts of an address.
    if ((value.forms & kNumber) != 0 || (value.forms & kAddress) == 0) return give_up(Why::kUnknownAddress);
    out_.through[index] = value.words;
    for (std::size_t i = 0; i < out_.words.size(); ++i) {
      if ((value.words >> i & 1) == 0) continue;
      out_.words[i].reads |= loads;
      out_.words[i].writes |= stores;
    }
  }

  const PtxKernel& kernel_;
  std::vector<Value> values_;
  PtxAccesses out_;
};

}  // namespace

PtxAccesses find_accesses(const PtxKernel& kernel) { return Flow(kernel).run(); }

}  // namespace thermocline
