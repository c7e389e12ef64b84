// SPDX-License-Identifier: Apache-2.0
// Branches, loops, early exits.
#include "tests/directions/kernel_writer.h"

namespace directions {
namespace {

// A value that is computed where not all threads come is not used behind it.
class Inner {
 public:
  explicit Inner(KernelWriter& to)
      : to_(to),
        pointers_(to.pointers.size()),
        slots_(to.slots.size()),
        tables_(to.tables.size()),
        was_uniform_(to.is_uniform) {
    ++to.depth;
    to.is_uniform = false;
  }
  ~Inner() {
    to_.pointers.resize(pointers_);
    to_.slots.resize(slots_);
    to_.tables.resize(tables_);
    to_.is_uniform = was_uniform_;
    --to_.depth;
  }
  Inner(const Inner&) = delete;
  Inner& operator=(const Inner&) = delete;

 private:
  KernelWriter& to_;
  std::size_t pointers_, slots_, tables_;
  bool was_uniform_;
};

void add_branch(KernelWriter& to) {
  to.noted("branch");
  const std::string p = to.condition(), other = to.label(), end = to.label();
  to.line("@" + p + " bra " + other + ";");
  {
    const Inner inner(to);
    add_steps(to, 1 + static_cast<unsigned>(to.below(3)));
  }
  to.line("bra.uni " + end + ";\n" + other + ":");
  {
    const Inner inner(to);
    add_steps(to, 1 + static_cast<unsigned>(to.below(3)));
  }
  to.line(end + ":");
}

// A pointer that moves each time, and perhaps changes its place with another one.
void add_loop(KernelWriter& to) {
  to.noted("loop");
  constexpr unsigned kMostTimes = 6, kStep = 64;
  const Pointer start = to.pointer(kMostTimes * kStep), other = to.pointer(kMostTimes * kStep);
  const std::string moved = to.wide(), also = to.wide(), count = to.word(), p = to.predicate(), again = to.label();
  const bool swaps = to.one_in(3), goes_down = to.one_in(3);
  to.line("mov.u64 " + moved + ", " + start.reg + ";\nmov.u64 " + also + ", " + other.reg + ";\nmov.u32 " + count +
          ", 0;\n" + again + ":");
  {
    const Inner inner(to);
    const std::uint64_t reach = std::max(start.reach, other.reach) + kMostTimes * kStep;
    to.pointers.push_back({moved, reach});
    if (to.one_in(2)) to.pointers.push_back({also, reach});
    add_steps(to, 1 + static_cast<unsigned>(to.below(3)));
  }
  if (swaps) {
    const std::string kept = to.wide();
    to.line("mov.u64 " + kept + ", " + moved + ";\nmov.u64 " + moved + ", " + also + ";\nmov.u64 " + also + ", " +
            kept + ";");
  }
  to.line("add.s64 " + moved + ", " + moved + ", " + (goes_down ? "-" : "") +
          std::to_string(16 * (1 + to.below(kStep / 16))) + ";\nadd.u32 " + count + ", " + count +
          ", 1;\nsetp.lt.u32 " + p + ", " + count + ", " + std::to_string(1 + to.below(kMostTimes)) + ";\n@" + p +
          " bra " + again + ";");
}

void add_exit(KernelWriter& to) {
  to.noted("early exit");
  const std::string p = to.condition();
  to.line("@" + p + (to.one_in(2) ? " ret;" : " exit;"));
  to.is_uniform = false;
}

// Registers of an inner scope hide those of the same names outside of it.
void add_scope(KernelWriter& to) {
  to.noted("scope");
  const Pointer hidden = to.pointer(), other = to.pointer();
  const std::string kept = to.wide(), value = to.word();
  to.line("mov.u64 " + kept + ", " + other.reg + ";");
  if (hidden.reg == kept) return;
  to.line(
      "{\n.reg .b64 " + hidden.reg + ";\nmov.b64 " + hidden.reg + ", " + kept + ";\n" +
      (to.one_in(2) ? "st.global.u32 [" + hidden.reg + "], 7;" : "ld.global.u32 " + value + ", [" + hidden.reg + "];") +
      "\n}");
}

}  // namespace

void add_steps(KernelWriter& to, unsigned count) {
  constexpr int kMostDepth = 2;
  for (unsigned i = 0; i < count; ++i) {
    const std::uint64_t what = to.below(20);
    if (what < 8) {
      add_pointer(to);
    } else if (what < 16 || to.depth == kMostDepth) {
      add_access(to);
    } else if (what == 16) {
      add_branch(to);
    } else if (what == 17) {
      add_loop(to);
    } else if (what == 18) {
      to.one_in(3) ? add_exit(to) : add_access(to);
    } else {
      add_scope(to);
    }
  }
}

}  // namespace directions
