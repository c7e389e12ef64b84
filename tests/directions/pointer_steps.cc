// SPDX-License-Identifier: Apache-2.0
// Pointers that are computed from others, kept in memory, or taken apart and put together again.
#include <algorithm>
#include <array>

#include "tests/directions/kernel_writer.h"

namespace directions {
namespace {

struct Step {
  const char* name;
  // A pointer with an empty register: not possible here.
  Pointer (*add)(KernelWriter&);
};

constexpr std::uint64_t kMostIndex = 64, kScale = 16;

std::string times(const std::string& reg) { return reg + ", " + std::to_string(kScale); }

// A 32-bit register with an index, perhaps below zero, perhaps from memory.
std::string index(KernelWriter& to) {
  std::string i = to.number();
  if (to.one_in(4)) {
    const std::string loaded = to.word(), masked = to.word();
    to.line("ld.global.u32 " + loaded + ", [" + to.pointer().reg + "];\nand.b32 " + masked + ", " + loaded + ", 63;");
    i = masked;
  }
  if (to.one_in(3)) {
    const std::string moved = to.word();
    to.line("add.s32 " + moved + ", " + i + ", -32;");
    i = moved;
  }
  return i;
}

Pointer moved(const Pointer& from, std::string reg) { return {std::move(reg), from.reach + kMostIndex * kScale}; }

Pointer by_constant(KernelWriter& to) {
  const Pointer a = to.pointer(kMostIndex * kScale);
  const std::string d = to.wide();
  to.line("add.s64 " + d + ", " + a.reg + ", " + (to.one_in(2) ? "-" : "") +
          std::to_string(kScale * to.below(kMostIndex)) + ";");
  return moved(a, d);
}

Pointer by_index(KernelWriter& to) {
  const Pointer a = to.pointer(kMostIndex * kScale);
  const std::string i = index(to), d = to.wide(), t = to.wide(), u = to.wide();
  switch (to.below(7)) {
    case 6: {  // a product of 64 bits
      const std::string v = to.wide(), w = to.wide();
      to.line("cvt.u64.u32 " + t + ", " + to.number() + ";\ncvt.s64.s32 " + u + ", " + i + ";\nmul.lo.s64 " + v + ", " +
              t + ", " + u + ";\nand.b64 " + w + ", " + v + ", 63;\nmad.lo.s64 " + d + ", " + times(w) + ", " + a.reg +
              ";");
      break;
    }
    case 0:
      to.line("mad.wide.s32 " + d + ", " + times(i) + ", " + a.reg + ";");
      break;
    case 1:
      to.line("cvt.s64.s32 " + t + ", " + i + ";\nshl.b64 " + u + ", " + t + ", 4;\nadd.s64 " + d + ", " + u + ", " +
              a.reg + ";");
      break;
    case 2:
      to.line("cvt.s64.s32 " + t + ", " + i + ";\nmad.lo.s64 " + d + ", " + times(t) + ", " + a.reg + ";");
      break;
    case 3:
      to.line("mul.wide.s32 " + t + ", " + times(i) + ";\nsub.s64 " + d + ", " + a.reg + ", " + t + ";");
      break;
    case 4: {  // in 32 bits
      const std::string s = to.word();
      to.line("shl.b32 " + s + ", " + i + ", 4;\ncvt.s64.s32 " + t + ", " + s + ";\nadd.s64 " + d + ", " + a.reg +
              ", " + t + ";");
      break;
    }
    default:
      to.line("mul.wide.s32 " + t + ", " + times(i) + ";\nadd.s64 " + d + ", " + a.reg + ", " + t + ";");
  }
  return moved(a, d);
}

Pointer by_condition(KernelWriter& to) {
  const Pointer a = to.pointer(), b = to.pointer();
  const std::string p = to.condition(), d = to.wide();
  switch (to.below(4)) {
    case 0:
      to.line("mov.u64 " + d + ", " + a.reg + ";\n@" + p + " mov.u64 " + d + ", " + b.reg + ";");
      break;
    case 1: {
      const std::string other = to.label(), end = to.label();
      to.line("@" + p + " bra " + other + ";\nmov.u64 " + d + ", " + a.reg + ";\nbra " + end + ";\n" + other +
              ":\nmov.u64 " + d + ", " + b.reg + ";\n" + end + ":");
      break;
    }
    case 2:
      to.line("slct.u64.s32 " + d + ", " + a.reg + ", " + b.reg + ", " + index(to) + ";");
      break;
    default:
      to.line("selp.b64 " + d + ", " + a.reg + ", " + b.reg + ", " + p + ";");
  }
  return {d, std::max(a.reach, b.reach)};
}

Pointer by_bits(KernelWriter& to) {
  const Pointer a = to.pointer(), b = to.pointer();
  const std::string p = to.condition(), m = to.wide(), n = to.wide(), t = to.wide(), u = to.wide(), d = to.wide();
  switch (to.below(4)) {
    case 0:
      to.line("selp.b64 " + m + ", -1, 0, " + p + ";\nnot.b64 " + n + ", " + m + ";\nand.b64 " + t + ", " + a.reg +
              ", " + m + ";\nand.b64 " + u + ", " + b.reg + ", " + n + ";\nor.b64 " + d + ", " + t + ", " + u + ";");
      break;
    case 1:
      to.line("selp.b64 " + m + ", -1, 0, " + p + ";\nxor.b64 " + t + ", " + a.reg + ", " + b.reg + ";\nand.b64 " + u +
              ", " + t + ", " + m + ";\nxor.b64 " + d + ", " + b.reg + ", " + u + ";");
      break;
    case 2:
      to.line((to.one_in(2) ? "min.u64 " : "max.s64 ") + d + ", " + a.reg + ", " + b.reg + ";");
      break;
    default:  // the distance of two pointers, added to one
      to.line("sub.s64 " + t + ", " + a.reg + ", " + b.reg + ";\nadd.s64 " + d + ", " + b.reg + ", " + t + ";");
  }
  return {d, std::max(a.reach, b.reach)};
}

Pointer by_rounding(KernelWriter& to) {
  const Pointer a = to.pointer(256);
  const std::string t = to.wide(), d = to.wide();
  switch (to.below(5)) {
    case 0:
      to.line("and.b64 " + d + ", " + a.reg + ", -64;");
      break;
    case 1:
      to.line("rem.u64 " + t + ", " + a.reg + ", 128;\nsub.s64 " + d + ", " + a.reg + ", " + t + ";");
      break;
    case 2:
      to.line("not.b64 " + t + ", " + a.reg + ";\nnot.b64 " + d + ", " + t + ";");
      break;
    case 3:
      to.line("neg.s64 " + t + ", " + a.reg + ";\nsub.s64 " + d + ", 0, " + t + ";");
      break;
    default:
      to.line("or.b64 " + d + ", " + a.reg + ", 64;");
  }
  return {d, a.reach + 256};
}

// Some of its bits are those of a number.
Pointer by_insertion(KernelWriter& to) {
  const Pointer a = to.pointer(256);
  const std::string t = to.wide(), d = to.wide();
  to.line("cvt.u64.u32 " + t + ", " + to.number() + ";\nbfi.b64 " + d + ", " + t + ", " + a.reg + ", 4, 4;");
  return {d, a.reach + 256};
}

Pointer from_halves(KernelWriter& to) {
  const Pointer a = to.pointer();
  const std::string l = to.word(), h = to.word(), t = to.wide(), u = to.wide(), s = to.wide(), d = to.wide();
  if (to.one_in(2)) {
    to.line("mov.b64 {" + l + ", " + h + "}, " + a.reg + ";");
  } else {
    to.line("cvt.u32.u64 " + l + ", " + a.reg + ";\nshr.u64 " + t + ", " + a.reg + ", 32;\ncvt.u32.u64 " + h + ", " +
            t + ";");
  }
  std::string low = l;
  if (to.one_in(3)) {
    low = to.word();
    to.line((to.one_in(2) ? "and.b32 " + low + ", " + l + ", -16;" : "prmt.b32 " + low + ", " + l + ", 0, 12816;"));
  }
  const std::string wide_low = to.wide();
  to.line("cvt.u64.u32 " + wide_low + ", " + low + ";\ncvt.u64.u32 " + u + ", " + h + ";");
  switch (to.below(5)) {
    case 0:
      to.line("shl.b64 " + s + ", " + u + ", 32;\nor.b64 " + d + ", " + s + ", " + wide_low + ";");
      break;
    case 1:
      to.line("shl.b64 " + s + ", " + u + ", 32;\nadd.s64 " + d + ", " + s + ", " + wide_low + ";");
      break;
    case 2:
      to.line("bfi.b64 " + d + ", " + u + ", " + wide_low + ", 32, 32;");
      break;
    case 3:
      to.line("mad.lo.u64 " + d + ", " + u + ", 4294967296, " + wide_low + ";");
      break;
    default:
      to.line("mov.b64 " + d + ", {" + low + ", " + h + "};");
  }
  return {d, a.reach};
}

Pointer with_carry(KernelWriter& to) {
  const Pointer a = to.pointer(kMostIndex * kScale);
  const std::string l = to.word(), h = to.word(), l2 = to.word(), h2 = to.word(), d = to.wide();
  to.line("mov.b64 {" + l + ", " + h + "}, " + a.reg + ";\nadd.cc.u32 " + l2 + ", " + l + ", " +
          std::to_string(kScale * to.below(kMostIndex)) + ";\naddc.u32 " + h2 + ", " + h + ", 0;\nmov.b64 " + d +
          ", {" + l2 + ", " + h2 + "};");
  return moved(a, d);
}

Pointer through_threads(KernelWriter& to) {
  if (!to.is_uniform || to.kernel.block[0] < 32) return {};
  const Pointer a = to.pointer();
  const std::string l = to.word(), h = to.word(), l2 = to.word(), h2 = to.word(), d = to.wide();
  to.line("mov.b64 {" + l + ", " + h + "}, " + a.reg + ";\nshfl.sync.bfly.b32 " + l2 + ", " + l + ", 1, 31, -1;\n" +
          "shfl.sync.bfly.b32 " + h2 + ", " + h + ", 1, 31, -1;\nmov.b64 " + d + ", {" + l2 + ", " + h2 + "};");
  return {d, a.reach};
}

Pointer as_real(KernelWriter& to) {
  const Pointer a = to.pointer();
  const std::string f = to.real(), d = to.wide();
  to.line("mov.b64 " + f + ", " + a.reg + ";\nmov.b64 " + d + ", " + f + ";");
  return {d, a.reach};
}

Pointer through_local(KernelWriter& to) {
  const Pointer a = to.pointer(), b = to.pointer();
  const std::string at = to.wide(), generic = to.wide(), d = to.wide();
  const std::string where = "[depot+" + std::to_string(16 * to.below(8)) + "]";
  switch (to.below(4)) {
    case 0: {  // one of an array, by a number
      const std::string i = to.word(), j = to.wide();
      to.line("mov.u64 " + at + ", depot;\nst.local.v2.u64 [" + at + "+256], {" + a.reg + ", " + b.reg +
              "};\nand.b32 " + i + ", " + to.number() + ", 1;\nmad.wide.u32 " + j + ", " + i + ", 8, " + at +
              ";\nld.local.u64 " + d + ", [" + j + "+256];");
      return {d, std::max(a.reach, b.reach)};
    }
    case 1:
      to.line("mov.u64 " + at + ", depot;\ncvta.local.u64 " + generic + ", " + at + ";\nst.u64 [" + generic + "+16], " +
              a.reg + ";\nld.u64 " + d + ", [" + generic + "+16];");
      break;
    case 2: {
      const std::string l = to.word(), h = to.word();
      to.line("st.local.u64 " + where + ", " + a.reg + ";\nld.local.v2.u32 {" + l + ", " + h + "}, " + where +
              ";\nmov.b64 " + d + ", {" + l + ", " + h + "};");
      break;
    }
    default:
      to.line("st.local.u64 " + where + ", " + a.reg + ";\nld.local.u64 " + d + ", " + where + ";");
  }
  return {d, a.reach};
}

Pointer through_shared(KernelWriter& to) {
  const Pointer a = to.pointer();
  const std::string t = to.word(), base = to.word(), at = to.word(), d = to.wide();
  to.line("mov.u32 " + t + ", %tid.x;\nmov.u32 " + base + ", tile;\nmad.lo.u32 " + at + ", " + t + ", 16, " + base +
          ";\nst.shared.u64 [" + at + "], " + a.reg + ";");
  if (to.is_uniform && to.one_in(3)) to.line("bar.sync 0;");
  if (to.one_in(3)) {
    const std::string w = to.wide(), generic = to.wide();
    to.line("cvt.u64.u32 " + w + ", " + at + ";\ncvta.shared.u64 " + generic + ", " + w + ";\nld.u64 " + d + ", [" +
            generic + "];");
  } else {
    to.line("ld.shared.u64 " + d + ", [" + at + "];");
  }
  return {d, a.reach};
}

// A register with the address of a slot of the thread's own, for a pointer.
std::string slot(KernelWriter& to) {
  const std::string& base = to.slots[to.below(to.slots.size())];
  const std::string t = to.word(), s = to.wide();
  to.line("mov.u32 " + t + ", %tid.x;\nmad.wide.u32 " + s + ", " + t + ", 32, " + base + ";");
  return s;
}

Pointer through_memory(KernelWriter& to) {
  if (to.slots.empty()) return {};
  const Pointer a = to.pointer();
  const std::string s = slot(to), d = to.wide();
  to.line("st.global.u64 [" + s + "], " + a.reg + ";");
  const std::string l = to.word(), h = to.word(), u = to.wide(), v = to.wide(), w = to.wide();
  switch (to.below(4)) {
    case 0:
      to.line("ld.global.v2.u32 {" + l + ", " + h + "}, [" + s + "];\nmov.b64 " + d + ", {" + l + ", " + h + "};");
      break;
    case 1:
      to.line("ld.global.v2.u32 {" + l + ", " + h + "}, [" + s + "];\ncvt.u64.u32 " + u + ", " + l + ";\ncvt.u64.u32 " +
              v + ", " + h + ";\nshl.b64 " + w + ", " + v + ", 32;\nor.b64 " + d + ", " + w + ", " + u + ";");
      break;
    case 2:
      to.line("atom.global.exch.b64 " + d + ", [" + s + "], " + a.reg + ";");
      break;
    default:
      to.line("ld.global.u64 " + d + ", [" + s + "];");
  }
  return {d, a.reach};
}

Pointer from_table(KernelWriter& to) {
  if (to.tables.empty()) return {};
  const std::string i = to.word(), at = to.wide(), d = to.wide();
  to.line("and.b32 " + i + ", " + to.number() + ", " + std::to_string(kTableEntries - 1) + ";\nmad.wide.u32 " + at +
          ", " + i + ", 8, " + to.tables[to.below(to.tables.size())] + ";\n" +
          (to.one_in(2) ? "ld.global.u64 " : "ld.global.nc.u64 ") + d + ", [" + at + "];");
  return {d, 1024};
}

Pointer through_variable(KernelWriter& to) {
  const Pointer a = to.pointer();
  const std::string t = to.word(), base = to.wide(), at = to.wide(), d = to.wide();
  if (to.one_in(2)) {
    to.line("mov.u32 " + t + ", %tid.x;\nmov.u64 " + base + ", variable;\nmad.wide.u32 " + at + ", " + t + ", 8, " +
            base + ";\nst.global.u64 [" + at + "], " + a.reg + ";\nld.global.u64 " + d + ", [" + at + "];");
  } else {  // all threads have their own in turn
    to.line("st.global.u64 [variable+248], " + a.reg + ";\nld.global.u64 " + d + ", [variable+248];");
  }
  return {d, a.reach};
}

// An address that is in the code: as from a compiler that knows where a buffer is.
Pointer from_code(KernelWriter& to) {
  if (!to.one_in(3)) return {};
  const Pointer a = to.pointer();
  const std::string d = to.wide(), constant = std::to_string(to.place());
  if (to.one_in(2)) {
    to.line("mov.u64 " + d + ", " + constant + ";");
  } else {
    to.line("selp.b64 " + d + ", " + a.reg + ", " + constant + ", " + to.condition() + ";");
  }
  return {d, std::max<std::uint64_t>(a.reach, 1024)};
}

// A pointer or null, which is not followed.
Pointer perhaps_null(KernelWriter& to) {
  const Pointer a = to.pointer();
  const std::string p = to.condition(), q = to.predicate(), n = to.wide(), d = to.wide();
  to.line("selp.b64 " + n + ", " + a.reg + ", 0, " + p + ";\nsetp.ne.s64 " + q + ", " + n + ", 0;\nselp.b64 " + d +
          ", " + n + ", " + a.reg + ", " + q + ";");
  return {d, a.reach};
}

Pointer from_function(KernelWriter& to) {
  if (!to.one_in(3)) return {};
  const Pointer a = to.pointer(64);
  const std::string name = "moved" + to.wide().substr(1), d = to.wide();
  to.declare(".func (.param .b64 result) " + name +
             "(.param .b64 a)\n{\n.reg .b64 %rd<3>;\nld.param.u64 %rd0, [a];\nadd.s64 %rd1, %rd0, 32;\n"
             "st.param.b64 [result], %rd1;\nret;\n}");
  to.line("{\n.param .b64 a;\n.param .b64 result;\nst.param.b64 [a], " + a.reg + ";\ncall.uni (result), " + name +
          ", (a);\nld.param.b64 " + d + ", [result];\n}");
  return {d, a.reach + 64};
}

// As it is, or one of it and of another one.
Pointer chosen(KernelWriter& to, Pointer made) {
  if (!to.one_in(3)) return made;
  const Pointer other = to.pointer();
  const std::string d = to.wide();
  to.line("selp.b64 " + d + ", " + made.reg + ", " + other.reg + ", " + to.condition() + ";");
  return {d, std::max(made.reach, other.reach)};
}

}  // namespace

void add_pointer(KernelWriter& to) {
  static constexpr std::array<Step, 22> kSteps = {{{"constant", by_constant},
                                                   {"constant", by_constant},
                                                   {"index", by_index},
                                                   {"index", by_index},
                                                   {"condition", by_condition},
                                                   {"bits", by_bits},
                                                   {"rounding", by_rounding},
                                                   {"index", by_index},
                                                   {"insertion", by_insertion},
                                                   {"halves", from_halves},
                                                   {"carry", with_carry},
                                                   {"threads", through_threads},
                                                   {"real", as_real},
                                                   {"local memory", through_local},
                                                   {"shared memory", through_shared},
                                                   {"memory", through_memory},
                                                   {"table", from_table},
                                                   {"variable", through_variable},
                                                   {"code", from_code},
                                                   {"null", perhaps_null},
                                                   {"function", from_function},
                                                   {"index", by_index}}};
  // Most kernels have only what the analysis follows: else nearly all of them would be unknown.
  const std::size_t count = to.follows_all() ? 8 : kSteps.size();
  const Step& step = kSteps[to.below(count)];
  const Pointer made = step.add(to);
  if (made.reg.empty()) return;
  to.noted(step.name);
  to.pointers.push_back(chosen(to, made));
}

}  // namespace directions
