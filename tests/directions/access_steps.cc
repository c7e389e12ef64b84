// SPDX-License-Identifier: Apache-2.0
// Loads, stores, atomic operations, and what else accesses memory.
#include <array>

#include "tests/directions/kernel_writer.h"

namespace directions {
namespace {

struct Type {
  const char* name;
  unsigned bytes;
};
constexpr std::array<Type, 8> kTypes = {
    {{"u8", 1}, {"s16", 2}, {"u32", 4}, {"f32", 4}, {"b32", 4}, {"u64", 8}, {"f64", 8}, {"b64", 8}}};

std::string place(KernelWriter& to, unsigned bytes) {
  const Pointer a = to.pointer();
  const std::string offset = std::to_string(bytes * to.below(64 / bytes));
  if (to.one_in(4)) return "[" + a.reg + "+-" + offset + "]";
  return to.one_in(2) ? "[" + a.reg + "]" : "[" + a.reg + "+" + offset + "]";
}

std::string register_for(KernelWriter& to, const Type& type) {
  if (type.name[0] == 'f' && type.bytes == 8) return to.real();
  return type.bytes == 8 ? to.wide() : to.word();
}

// A register with a value; the pointer's number is a value, too.
std::string value_for(KernelWriter& to, const Type& type) {
  if (type.bytes == 8 && type.name[0] != 'f' && to.one_in(2)) return to.pointer().reg;
  const std::string reg = register_for(to, type);
  to.line(type.bytes < 8        ? "mov.b32 " + reg + ", " + to.number() + ";"
          : type.name[0] == 'f' ? "mov.f64 " + reg + ", 0d3FF0000000000000;"
                                : "mov.u64 " + reg + ", 5;");
  return reg;
}

void load(KernelWriter& to) {
  static constexpr std::array<const char*, 11> kHow = {"ld",
                                                       "ld.global",
                                                       "ld.global",
                                                       "ld.global",
                                                       "ld.global.nc",
                                                       "ld.global.ca",
                                                       "ld.global.cg",
                                                       "ld.volatile.global",
                                                       "ld.relaxed.gpu.global",
                                                       "ld.acquire.gpu.global",
                                                       "ldu.global"};
  const Type& type = kTypes[to.below(kTypes.size())];
  const std::string how = std::string(kHow[to.below(kHow.size())]) + ".";
  if (type.bytes == 4 && to.one_in(3)) {
    const unsigned parts = to.one_in(2) ? 2 : 4;
    std::string list = to.word();
    for (unsigned i = 1; i < parts; ++i) list += ", " + to.word();
    const bool may_be_vector = how != "ld.relaxed.gpu.global." && how != "ld.acquire.gpu.global.";
    if (may_be_vector)
      return to.line(to.maybe_guard() + how + "v" + std::to_string(parts) + "." + type.name + " {" + list + "}, " +
                     place(to, 16) + ";");
  }
  const std::string at = place(to, type.bytes), reg = register_for(to, type), guard = to.maybe_guard();
  to.line(guard + how + type.name + " " + reg + ", " + at + ";");
}

void store(KernelWriter& to) {
  static constexpr std::array<const char*, 9> kHow = {"st",
                                                      "st.global",
                                                      "st.global",
                                                      "st.global",
                                                      "st.global.wb",
                                                      "st.global.cs",
                                                      "st.volatile.global",
                                                      "st.relaxed.gpu.global",
                                                      "st.release.gpu.global"};
  const Type& type = kTypes[to.below(kTypes.size())];
  const std::string how = std::string(kHow[to.below(kHow.size())]) + ".";
  const std::string value = value_for(to, type), guard = to.maybe_guard();
  if (type.bytes == 4 && to.one_in(3) && how != "st.relaxed.gpu.global." && how != "st.release.gpu.global.") {
    to.line(guard + how + "v2." + type.name + " " + place(to, 8) + ", {" + value + ", " + value + "};");
  } else {
    to.line(guard + how + type.name + " " + place(to, type.bytes) + ", " + value + ";");
  }
}

void change(KernelWriter& to) {
  static constexpr std::array<const char*, 10> kOf32 = {"add.u32", "exch.b32", "min.s32", "max.u32", "and.b32",
                                                        "or.b32",  "xor.b32",  "inc.u32", "dec.u32", "add.f32"};
  const bool returns = to.one_in(2), is_wide = to.one_in(3);
  const char* const how = is_wide ? "add.u64" : kOf32[to.below(kOf32.size())];
  const bool is_exchange = !is_wide && how == kOf32[1];
  const Type type{how, is_wide ? 8u : 4u};
  const std::string at = place(to, type.bytes), guard = to.maybe_guard();
  const std::string value = is_wide ? to.pointer().reg : to.number();
  if (to.one_in(8)) {
    to.line(guard + "atom.global.cas.b32 " + to.word() + ", " + place(to, 4) + ", " + to.number() + ", " + to.number() +
            ";");
  } else if (returns || is_exchange) {
    to.line(guard + (to.one_in(3) ? "atom." : "atom.global.") + how + " " + (is_wide ? to.wide() : to.word()) + ", " +
            at + ", " + value + ";");
  } else {
    to.line(guard + "red.global." + how + " " + at + ", " + value + ";");
  }
}

void prefetch(KernelWriter& to) { to.line("prefetch.global.L2 [" + to.pointer().reg + "];"); }

void on_chip(KernelWriter& to) {
  const std::string d = to.word(), at = to.wide(), generic = to.wide();
  switch (to.below(4)) {
    case 0:
      to.line("st.local.u32 [depot+400], " + to.number() + ";\nld.local.u32 " + d + ", [depot+400];");
      break;
    case 1:
      to.line("mov.u64 " + at + ", depot;\ncvta.local.u64 " + generic + ", " + at + ";\nst.u32 [" + generic +
              "+416], 3;\nld.u32 " + d + ", [" + generic + "+416];");
      break;
    case 2:
      to.line("ld.const.u32 " + d + ", [constant+" + std::to_string(4 * to.below(16)) + "];");
      break;
    default:
      to.line("ld.global.u32 " + d + ", [variable+" + std::to_string(4 * to.below(16)) +
              "];\nst.global.u32 [variable+128], " + d + ";");
  }
}

void copy_async(KernelWriter& to) {
  const std::string t = to.word(), base = to.word(), at = to.word();
  to.line("mov.u32 " + t + ", %tid.x;\nmov.u32 " + base + ", tile;\nmad.lo.u32 " + at + ", " + t + ", 16, " + base +
          ";\ncp.async.ca.shared.global [" + at + "+1024], [" + to.pointer().reg + "], 16;\ncp.async.wait_all;");
}

void by_function(KernelWriter& to) {
  const Pointer a = to.pointer();
  const std::string name = "access" + to.wide().substr(1);
  to.declare(".func " + name + "(.param .b64 a)\n{\n.reg .b64 %rd<2>;\n.reg .b32 %r<2>;\nld.param.u64 %rd0, [a];\n" +
             (to.one_in(2) ? "ld.global.u32 %r0, [%rd0];" : "st.global.u32 [%rd0], 9;") + "\nret;\n}");
  to.line("{\n.param .b64 a;\nst.param.b64 [a], " + a.reg + ";\ncall.uni " + name + ", (a);\n}");
}

// At an address that is in the code.
void at_constant(KernelWriter& to) {
  const std::string at = "[" + std::to_string(to.place()) + "]";
  to.line(to.one_in(2) ? "ld.global.u32 " + to.word() + ", " + at + ";" : "st.global.u32 " + at + ", 3;");
}

}  // namespace

void add_access(KernelWriter& to) {
  const std::uint64_t what = to.below(to.follows_all() ? 13 : 16);
  const auto add = [&](const char* name, void (*step)(KernelWriter&)) {
    to.noted(name);
    step(to);
  };
  if (what < 5) return add("load", load);
  if (what < 9) return add("store", store);
  if (what < 11) return add("atomic", change);
  if (what == 11) return add("prefetch", prefetch);
  if (what == 12) return add("on chip", on_chip);
  if (what == 13) return add("asynchronous copy", copy_async);
  if (what == 14) return to.one_in(3) ? add("call", by_function) : add("load", load);
  add("address in the code", at_constant);
}

}  // namespace directions
