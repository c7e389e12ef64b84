// SPDX-License-Identifier: Apache-2.0
#include "tests/directions/kernel_writer.h"

#include <algorithm>
#include <cstring>

namespace directions {

// The parameters of the kernel, and the code that loads them.
class ParameterList {
 public:
  explicit ParameterList(KernelWriter& to) : to_(to) {}

  template <class T>
  std::string add(const char* declared, T value) {
    const std::string name = begin(declared, sizeof value, sizeof value);
    put(to_.kernel.places.back().offset, value);
    return name;
  }

  void add_pointer() {
    const std::uint64_t at = to_.place();
    const std::string name = add(to_.one_in(2) ? ".u64" : ".u64 .ptr .global .align 16", at);
    std::string reg = to_.wide();
    switch (to_.below(8)) {
      case 0:
        load_halves(name, "", reg);
        break;
      case 1:
        to_.line("ld.param.b64 " + reg + ", [" + name + "+0];");
        break;
      case 2: {  // this one, or the one before
        if (to_.pointers.empty()) return load_bytes(name, reg, at);
        const std::string p = to_.condition();
        to_.line("mov.u64 " + reg + ", " + to_.pointers.back().reg + ";\n@" + p + " ld.param.u64 " + reg + ", [" +
                 name + "];");
        return add_loaded(reg, at, to_.pointers.back().reach);
      }
      default:
        to_.line("ld.param.u64 " + reg + ", [" + name + "];");
    }
    add_loaded(reg, at);
  }
  // Pointers at 0 and 16, a number at 8.
  void add_structure() {
    const std::uint64_t first = to_.place(), second = to_.place();
    const std::string name = begin(".align 16 .b8", 32, 16, "[32]");
    const std::uint32_t offset = to_.kernel.places.back().offset;
    put(offset, first);
    put(offset + 8, std::uint64_t{1 + to_.below(60)});
    put(offset + 16, second);
    const std::string a = to_.wide(), b = to_.wide();
    if (to_.one_in(3)) {
      to_.line("ld.param.v2.u64 {" + a + ", " + to_.wide() + "}, [" + name + "];");
    } else {
      to_.line("ld.param.u64 " + a + ", [" + name + "];");
    }
    if (to_.one_in(6)) {
      load_halves(name, "+16", b);
    } else if (to_.one_in(8)) {
      const std::string at = to_.wide();
      to_.line("mov.b64 " + at + ", " + name + ";\nld.param.u64 " + b + ", [" + at + "+16];");
    } else {
      to_.line("ld.param.u64 " + b + ", [" + name + "+16];");
    }
    add_loaded(a, first);
    add_loaded(b, second);
  }
  // A pointer as two numbers.
  void add_halves() {
    const std::uint64_t at = to_.place();
    const std::string low = add(".u32", static_cast<std::uint32_t>(at));
    const std::string high = add(".u32", static_cast<std::uint32_t>(at >> 32));
    const std::string l = to_.word(), h = to_.word(), d = to_.wide();
    to_.line("ld.param.u32 " + l + ", [" + low + "];\nld.param.u32 " + h + ", [" + high + "];");
    if (to_.one_in(2)) {
      to_.line("mov.b64 " + d + ", {" + l + ", " + h + "};");
    } else {
      const std::string a = to_.wide(), b = to_.wide(), c = to_.wide();
      to_.line("cvt.u64.u32 " + a + ", " + l + ";\ncvt.u64.u32 " + b + ", " + h + ";\nshl.b64 " + c + ", " + b +
               ", 32;\nor.b64 " + d + ", " + c + ", " + a + ";");
    }
    to_.noted("passed as two numbers");
    choose_with_parameter(d, at);
  }
  void add_number() {
    const std::string name = add(".u32", static_cast<std::uint32_t>(to_.below(64)));
    const std::string reg = to_.word(), masked = to_.word();
    to_.line("ld.param.u32 " + reg + ", [" + name + "];\nand.b32 " + masked + ", " + reg + ", 63;");
    to_.numbers_.push_back(masked);
  }
  void add_size() {
    const std::string name = add(".u64", std::uint64_t{to_.below(64)});
    const std::string reg = to_.wide(), narrow = to_.word(), masked = to_.word();
    to_.line("ld.param.u64 " + reg + ", [" + name + "];\ncvt.u32.u64 " + narrow + ", " + reg + ";\nand.b32 " + masked +
             ", " + narrow + ", 63;");
    to_.numbers_.push_back(masked);
  }
  void add_to_pointer_page(std::uint64_t offset, std::vector<std::string>* list) {
    const std::string name = add(".u64", to_.page(kPointerPage) + offset);
    const std::string reg = to_.wide();
    to_.line("ld.param.u64 " + reg + ", [" + name + "];");
    list->push_back(reg);
  }

 private:
  std::string begin(const char* declared, unsigned bytes, unsigned alignment, const char* behind = "") {
    std::vector<unsigned char>& all = to_.kernel.parameters;
    all.resize((all.size() + alignment - 1) / alignment * alignment);
    std::string name = "k_param_" + std::to_string(to_.kernel.places.size());
    to_.kernel.places.push_back({.offset = static_cast<std::uint32_t>(all.size()), .bytes = bytes});
    all.resize(all.size() + bytes);
    to_.parameters_ +=
        (to_.parameters_.empty() ? ".param " : ",\n.param ") + std::string(declared) + " " + name + behind;
    return name;
  }
  template <class T>
  void put(std::size_t offset, T value) {
    std::memcpy(to_.kernel.parameters.data() + offset, &value, sizeof value);
  }
  void load_halves(const std::string& name, const std::string& behind, const std::string& reg) {
    const std::string l = to_.word(), h = to_.word();
    if (to_.one_in(2)) {
      to_.line("ld.param.v2.u32 {" + l + ", " + h + "}, [" + name + behind + "];");
    } else {
      const std::string at = behind.empty() ? "+4" : "+20";
      to_.line("ld.param.u32 " + l + ", [" + name + behind + "];\nld.param.u32 " + h + ", [" + name + at + "];");
    }
    to_.line("mov.b64 " + reg + ", {" + l + ", " + h + "};");
    to_.noted("halves of a parameter");
  }
  std::uint64_t reach_of(std::uint64_t at) const {
    const std::uint64_t in_page = at % kPageBytes;
    return in_page > kMiddle ? in_page - kMiddle : kMiddle - in_page;
  }
  // In eight pieces.
  void load_bytes(const std::string& name, const std::string& reg, std::uint64_t at) {
    to_.noted("pieces of a parameter");
    to_.line("mov.u64 " + reg + ", 0;");
    for (int i = 7; i >= 0; --i) {
      const std::string b = to_.word(), w = to_.wide(), s = to_.wide();
      to_.line("ld.param.u8 " + b + ", [" + name + "+" + std::to_string(i) + "];\ncvt.u64.u32 " + w + ", " + b +
               ";\nshl.b64 " + s + ", " + reg + ", 8;\nor.b64 " + reg + ", " + s + ", " + w + ";");
    }
    choose_with_parameter(reg, at);
  }
  void add_loaded(std::string reg, std::uint64_t at, std::uint64_t also = 0) {
    if (to_.one_in(2)) {
      const std::string global = to_.wide();
      to_.line("cvta.to.global.u64 " + global + ", " + reg + ";");
      reg = global;
    }
    to_.pointers.push_back({reg, std::max(reach_of(at), also)});
  }
  // The pointer, or one of those so far.
  void choose_with_parameter(const std::string& reg, std::uint64_t at) {
    to_.pointers.push_back({reg, reach_of(at)});
    if (to_.pointers.size() < 2 || to_.one_in(4)) return;
    const Pointer other = to_.pointers.front();
    const std::string p = to_.condition(), d = to_.wide();
    to_.line("selp.b64 " + d + ", " + reg + ", " + other.reg + ", " + p + ";");
    to_.pointers.back() = {d, std::max(reach_of(at), other.reach)};
  }

  KernelWriter& to_;
};

std::uint64_t KernelWriter::place() {
  return page(below(kBuffers)) + kMiddle + 16 * below(64) - (one_in(4) ? 16 * below(64) : 0);
}

void KernelWriter::add_parameters() {
  ParameterList list(*this);
  // Where a number for a condition is needed, the thread's is there.
  const std::string thread = word(), masked = word();
  line("mov.u32 " + thread + ", %tid.x;\nand.b32 " + masked + ", " + thread + ", 63;");
  numbers_.push_back(masked);
  const unsigned few = 1 + static_cast<unsigned>(below(3));
  for (unsigned i = 0; i < few; ++i) list.add_pointer();
  if (one_in(2)) list.add_number();
  if (one_in(3)) list.add_structure();
  if (one_in(3)) list.add_size();
  if (one_in(3)) list.add_pointer();
  if (one_in(16)) list.add_halves();
  if (one_in(4)) list.add_to_pointer_page(kTable, &tables);
  if (one_in(4)) list.add_to_pointer_page(kSlots, &slots);
}

std::string KernelWriter::add_parameter(std::uint64_t address) {
  const std::string name = ParameterList(*this).add(".u64", address), loaded = wide();
  line("ld.param.u64 " + loaded + ", [" + name + "];");
  if (one_in(3)) return loaded;
  const std::string global = wide();
  line("cvta.to.global.u64 " + global + ", " + loaded + ";");
  return global;
}

std::string KernelWriter::add_parameter(std::uint32_t number) {
  const std::string name = ParameterList(*this).add(".u32", number), loaded = word();
  line("ld.param.u32 " + loaded + ", [" + name + "];");
  return loaded;
}

std::string KernelWriter::number() {
  const std::string d = word();
  const std::string a = numbers_[below(numbers_.size())], b = numbers_[below(numbers_.size())];
  switch (below(6)) {
    case 0:
      line("mad.lo.u32 " + d + ", " + a + ", " + std::to_string(below(~std::uint32_t{0})) + ", " + b + ";");
      break;
    case 1:  // below zero, and around
      line("sub.u32 " + d + ", " + a + ", " + std::to_string(below(1000)) + ";");
      break;
    case 2:
      line("add.s32 " + d + ", " + a + ", 2147483647;");
      break;
    case 3: {
      const std::string t = word();
      line("mov.u32 " + t + ", %ctaid.x;\nxor.b32 " + d + ", " + t + ", " + b + ";");
      break;
    }
    default:
      return a;
  }
  const std::string masked = word();
  line("and.b32 " + masked + ", " + d + ", 63;");
  return masked;
}

std::string KernelWriter::condition() {
  static constexpr const char* kHow[] = {"lt.u32", "ge.s32", "eq.u32", "ne.u32", "gt.u32"};
  const std::string p = predicate(), a = number();
  line("setp." + std::string(kHow[below(5)]) + " " + p + ", " + a + ", " +
       (one_in(2) ? number() : std::to_string(below(8))) + ";");
  return p;
}

std::string KernelWriter::maybe_guard() {
  if (!one_in(4)) return "";
  return (one_in(2) ? "@" : "@!") + condition() + " ";
}

Pointer KernelWriter::pointer(std::uint64_t by) {
  std::vector<const Pointer*> near;
  for (const Pointer& one : pointers) {
    if (one.reach + by <= kMostReach - 64) near.push_back(&one);
  }
  return near.empty() ? pointers.front() : *near[below(near.size())];
}

RandomKernel KernelWriter::finish() {
  const auto family = [](const char* type, const char* prefix, unsigned count) {
    return count == 0 ? std::string()
                      : ".reg ." + std::string(type) + " " + prefix + "<" + std::to_string(count) + ">;\n";
  };
  std::string decoy;
  // Comments are no code; a kernel whose name begins with this one's is another one.
  if (one_in(8)) decoy += "// .entry k()\n/* .visible .entry k(.param .u64 a)\n{\nret;\n} */\n";
  if (one_in(8)) decoy += ".visible .entry k2(.param .u64 k2_param_0)\n{\nret;\n}\n";
  kernel.text =
      ".version 8.4\n.target sm_90\n.address_size 64\n.global .align 16 .b8 variable[256];\n"
      ".const .align 16 .b8 constant[256];\n" +
      functions_ + decoy + ".visible .entry k(\n" + parameters_ + "\n)\n{\n" +
      ".local .align 16 .b8 depot[512];\n.shared .align 16 .b8 tile[2048];\n" + family("pred", "%p", predicates_) +
      family("b32", "%r", words_) + family("b64", "%rd", wides_) + family("f64", "%fd", reals_) + body_ + "ret;\n}\n";
  kernel.variables = {{.name = "variable", .address = page(kVariablePage) + kMiddle},
                      {.name = "constant", .address = page(kVariablePage) + kMiddle + 4096}};
  kernel.steps = steps_;
  return std::move(kernel);
}

RandomKernel random_kernel(std::uint64_t seed, std::uint64_t memory) {
  KernelWriter writer(seed, memory);
  if (writer.one_in(4)) {
    write_simple_kernel(writer);
  } else {
    writer.kernel.block[0] = 1u << writer.below(6);
    writer.kernel.grid[0] = 1 + static_cast<std::uint32_t>(writer.below(3));
    writer.add_parameters();
    add_steps(writer, 3 + static_cast<unsigned>(writer.below(14)));
  }
  return writer.finish();
}

}  // namespace directions
