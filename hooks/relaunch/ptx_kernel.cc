// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/ptx_kernel.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <utility>

#include "hooks/relaunch/ptx_reader.h"

namespace thermocline {
namespace {

// Special registers are not declared; that tells `%warpid` and the like from registers.
class Parser : private PtxReader {
 public:
  Parser(std::string_view text, const PtxIndex& index, PtxKernel* out) : PtxReader(text), index_(index), out_(*out) {}

  bool parse(std::string_view name) {
    at_ = index_.behind_name_of(name);
    if (at_ == PtxIndex::kNone || !read_parameters()) return false;
    // Performance directives: .maxntid and so on.
    while (at_ < text_.size() && text_[at_] != '{' && text_[at_] != ';') ++at_;
    if (at_ >= text_.size() || text_[at_] != '{') return false;
    ++at_;
    return read_body() && resolve_labels() && find_shared_of_module();
  }
  // The last opcode or directive that was read.
  std::string_view last() const { return last_; }

 private:
  // .param [.align 8] .b8 name[16] [, ...]
  bool read_parameters() {
    if (!accept('(')) return true;
    if (accept(')')) return true;
    do {
      unsigned bytes = 0;
      std::string_view name;
      for (skip(); at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')'; skip()) {
        if (accept('[')) {
          unsigned count = 0;
          if (!number(word(false), &count) || !accept(']')) return false;
          bytes *= count;
          continue;
        }
        const std::string_view next = word(true);
        if (next.empty()) return false;
        if (next.front() != '.') {
          unsigned ignored = 0;
          if (!number(next, &ignored)) name = next;  // else: an alignment
        } else if (const unsigned of_type = ptx_type_bytes(next.substr(1)); of_type > 0) {
          bytes = of_type;
        }
      }
      if (name.empty() || bytes == 0) return false;
      out_.parameters.push_back({name, bytes});
    } while (accept(','));
    return accept(')');
  }

  bool read_body() {
    scopes_.emplace_back();
    for (;;) {
      skip();
      if (at_ >= text_.size()) return false;
      if (accept('{')) {
        scopes_.emplace_back();
        continue;
      }
      if (accept('}')) {
        scopes_.pop_back();
        if (scopes_.empty()) return true;
        continue;
      }
      if (text_[at_] == '.') {
        if (!read_directive()) return false;
      } else if (!read_statement()) {
        return false;
      }
    }
  }

  bool read_directive() {
    const std::size_t begin = at_;
    std::string_view name = word(true);
    // Inline assembly may have no space in ".reg.b32".
    if (name.starts_with(".reg.")) {
      name = name.substr(0, 4);
      at_ = begin + name.size();
    }
    last_ = name;
    if (name == ".loc") {
      at_ = std::min(text_.size(), text_.find('\n', at_));
      return true;
    }
    const std::size_t end = text_.find(';', at_);
    if (end == std::string_view::npos) return false;
    bool is_read = name == ".pragma";
    if (name == ".reg") is_read = read_registers();
    std::uint64_t bytes = 0;
    if (name == ".local") is_read = read_variable(&out_.local.emplace_back(), &bytes);
    if (name == ".shared") {
      is_read = read_variable(&out_.shared.emplace_back(), &bytes);
      // Variables of the same name in inner scopes may be several: they are not supported.
      out_.shared_bytes.push_back(scopes_.size() > 1 ? 0 : bytes);
    }
    at_ = end + 1;
    return is_read;
  }
  // Finds variables of shared memory that several kernels share, among those that this kernel names.
  bool find_shared_of_module() {
    std::vector<std::string_view> named;
    for (const PtxInstruction& one : out_.instructions) {
      for (const PtxOperand& operand : one.operands) {
        if (operand.reg < 0 && one.root != "bra" && !operand.text.empty() && is_of_name(operand.text.front()) &&
            std::isdigit(static_cast<unsigned char>(operand.text.front())) == 0 && out_.parameter(operand.text) < 0)
          named.push_back(operand.text);
      }
    }
    if (named.empty()) return true;
    for (const PtxIndex::Variable& one : index_.shared()) {
      const auto name = std::ranges::find(named, one.name);
      if (name == named.end() || std::ranges::count(out_.shared, *name) > 0) continue;
      out_.shared.push_back(*name);
      out_.shared_bytes.push_back(one.bytes);
    }
    return index_.has_all_shared();
  }
  bool read_registers() {
    const std::string_view type = word(true);
    const unsigned bytes = type.empty() ? 0 : ptx_type_bytes(type.substr(1));
    const unsigned bits = type == ".pred" ? 1 : 8 * bytes;
    if (bits == 0) return false;
    do {
      const std::string_view name = word(false);
      unsigned count = 0;
      if (!accept('<')) {
        declare(name, bits, &scopes_.back());
        continue;
      }
      if (!number(word(false), &count) || !accept('>') || count > 1u << 20) return false;
      scopes_.back().families.push_back({name, bits, count});
    } while (accept(','));
    return true;
  }
  struct Family {
    std::string_view prefix;
    unsigned bits = 0, count = 0;
  };
  // A scope between braces: its registers hide those of the same name outside of it.
  struct Scope {
    std::map<std::string_view, int> registers;
    std::vector<Family> families;
  };

  int declare(std::string_view name, unsigned bits, Scope* scope) {
    const auto [at, is_new] = scope->registers.try_emplace(name, static_cast<int>(out_.bits.size()));
    if (is_new) out_.bits.push_back(bits);
    return at->second;
  }
  // -1: it is not a register.
  int register_of(std::string_view name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto known = scope->registers.find(name); known != scope->registers.end()) return known->second;
      for (const Family& family : scope->families) {
        unsigned index = 0;
        const bool is_of_it = name.starts_with(family.prefix) && number(name.substr(family.prefix.size()), &index);
        if (is_of_it && index < family.count) return declare(name, family.bits, &*scope);
      }
    }
    return -1;
  }

  bool read_statement() {
    PtxInstruction one;
    if (accept('@')) {
      one.guard_is_negated = accept('!');
      one.guard = register_of(word(false));
      if (one.guard < 0) return false;
    }
    const std::string_view opcode = word(true);
    if (opcode.empty()) return false;
    last_ = opcode;
    // A label, whose colon word() has taken.
    if (opcode.back() == ':') {
      // Two scopes may have a label of the same name: that is not supported.
      const std::string_view label = opcode.substr(0, opcode.size() - 1);
      return labels_.try_emplace(label, static_cast<int>(out_.instructions.size())).second && one.guard < 0;
    }
    split(opcode, &one);
    if (!accept(';')) {
      do {
        PtxOperand operand;
        if (!read_operand(&operand)) return false;
        one.operands.push_back(std::move(operand));
      } while (accept(',') || accept('|'));
      if (!accept(';')) return false;
    }
    out_.instructions.push_back(std::move(one));
    return true;
  }
  static void split(std::string_view opcode, PtxInstruction* out) {
    std::size_t dot = opcode.find('.');
    out->root = opcode.substr(0, dot);
    while (dot != std::string_view::npos) {
      const std::size_t next = opcode.find('.', dot + 1);
      out->modifiers.push_back(opcode.substr(dot + 1, next - dot - 1));
      dot = next;
    }
  }

  bool read_operand(PtxOperand* out) {
    if (accept('[')) {
      if (!read_operand(out)) return false;
      out->kind = PtxOperand::Kind::kAddress;
      skip();
      if (accept('+')) {
        PtxOperand offset;
        if (!read_operand(&offset) || offset.kind != PtxOperand::Kind::kInteger) return false;
        out->value = offset.value;
      }
      return accept(']');
    }
    if (accept('{')) {
      out->kind = PtxOperand::Kind::kVector;
      do {
        if (!read_operand(&out->parts.emplace_back())) return false;
      } while (accept(','));
      return accept('}');
    }
    const bool is_negated = accept('!') || accept('-');
    const std::string_view text = word(true);
    if (text.empty()) return false;
    out->text = text;
    out->reg = register_of(text);
    if (out->reg >= 0) {
      out->kind = PtxOperand::Kind::kRegister;
    } else if (text.front() == '%') {
      out->kind = PtxOperand::Kind::kSpecial;
    } else if (read_integer(text, &out->value)) {
      out->kind = PtxOperand::Kind::kInteger;
      if (is_negated) out->value = -out->value;
    }
    return true;
  }
  static bool read_integer(std::string_view text, std::int64_t* out) {
    if (text.back() == 'U') text.remove_suffix(1);
    std::uint64_t value = 0;
    if (text.starts_with("0x") || text.starts_with("0X")) {
      const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
      if (error != std::errc() || end != text.data() + text.size()) return false;
    } else if ((text.size() > 1 && text.front() == '0') || !number(text, &value)) {  // 010 is octal
      return false;
    }
    *out = static_cast<std::int64_t>(value);
    return true;
  }

  bool resolve_labels() {
    for (PtxInstruction& one : out_.instructions) {
      if (one.root != "bra") continue;
      if (one.operands.size() != 1) return false;
      const auto label = labels_.find(one.operands[0].text);
      if (label == labels_.end()) return false;
      one.target = label->second;
    }
    return true;
  }

  const PtxIndex& index_;
  std::string_view last_;
  PtxKernel& out_;
  std::vector<Scope> scopes_;  // the innermost last
  std::map<std::string_view, int> labels_;
};

}  // namespace

bool PtxInstruction::has(std::string_view modifier) const {
  return std::ranges::find(modifiers, modifier) != modifiers.end();
}

bool PtxInstruction::writes_first_operand() const {
  static constexpr std::array<std::string_view, 16> kNone = {
      "st",    "red",      "bra",       "ret",  "exit",  "bar",       "barrier", "membar",
      "fence", "prefetch", "prefetchu", "trap", "brkpt", "nanosleep", "pmevent", "bar.warp"};
  return std::ranges::find(kNone, root) == kNone.end() && !operands.empty();
}

int PtxKernel::parameter(std::string_view name) const {
  const auto found = std::ranges::find(parameters, name, &Parameter::name);
  return found == parameters.end() ? -1 : static_cast<int>(found - parameters.begin());
}

unsigned ptx_type_bytes(std::string_view type) {
  static constexpr std::array<std::pair<std::string_view, unsigned>, 18> kTypes = {{{"b8", 1},
                                                                                    {"u8", 1},
                                                                                    {"s8", 1},
                                                                                    {"b16", 2},
                                                                                    {"u16", 2},
                                                                                    {"s16", 2},
                                                                                    {"f16", 2},
                                                                                    {"bf16", 2},
                                                                                    {"f16x2", 4},
                                                                                    {"bf16x2", 4},
                                                                                    {"b32", 4},
                                                                                    {"u32", 4},
                                                                                    {"s32", 4},
                                                                                    {"f32", 4},
                                                                                    {"b64", 8},
                                                                                    {"u64", 8},
                                                                                    {"s64", 8},
                                                                                    {"f64", 8}}};
  const auto* const found = std::ranges::find(kTypes, type, &std::pair<std::string_view, unsigned>::first);
  return found == kTypes.end() ? 0 : found->second;
}

std::optional<PtxKernel> parse_ptx_kernel(std::string_view text, const PtxIndex& index, std::string_view name,
                                          std::string_view* not_understood) {
  PtxKernel kernel;
  Parser parser(text, index, &kernel);
  if (!parser.parse(name)) {
    if (not_understood != nullptr) *not_understood = parser.last();
    return std::nullopt;
  }
  return kernel;
}

}  // namespace thermocline
