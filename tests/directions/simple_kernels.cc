// SPDX-License-Identifier: Apache-2.0
// Kernels in which each thread has places of its own, as those that may run again: what is proven of them are ranges.
#include <algorithm>

#include "tests/directions/kernel_writer.h"

namespace directions {
namespace {

class SimpleKernel {
 public:
  explicit SimpleKernel(KernelWriter& to) : to_(to) {}

  void write() {
    to_.kernel.block = {8u << to_.below(3), to_.one_in(4) ? 2u : 1u, 1};
    to_.kernel.grid = {1 + static_cast<std::uint32_t>(to_.below(4)), 1, 1};
    const std::uint64_t out = to_.place(), in = to_.one_in(8) ? out : to_.place();
    out_ = to_.add_parameter(out);
    in_ = to_.add_parameter(in);
    const auto threads = static_cast<std::uint32_t>(to_.kernel.block[0] * to_.kernel.grid[0]);
    // As many as threads, fewer or more; now and then none, or below zero.
    n_ = to_.add_parameter(static_cast<std::uint32_t>(to_.one_in(12) ? 0 - to_.below(3) : to_.below(2 * threads)));
    m_ = to_.add_parameter(static_cast<std::uint32_t>(to_.below(64)));
    if (is_far_)
      far_ = to_.add_parameter((std::uint32_t{1} << 29) - static_cast<std::uint32_t>(to_.below(2 * threads)));
    const std::string a = to_.word(), b = to_.word(), c = to_.word();
    to_.line("mov.u32 " + a + ", %ctaid.x;\nmov.u32 " + b + ", %ntid.x;\nmov.u32 " + c + ", %tid.x;");
    i_ = to_.word();
    to_.line("mad.lo.s32 " + i_ + ", " + a + ", " + b + ", " + c + ";");
    to_.one_in(3) ? write_loop(b) : write_once();
  }

 private:
  // A register with the index of the place that is accessed.
  std::string place_of(const std::string& i) {
    if (is_plain_) return i;
    const std::string d = to_.word();
    switch (to_.below(11)) {
      case 9:  // around 2^32, and back where it is scaled in 32 bits
        to_.line("mul.lo.s32 " + d + ", " + i + ", " + (to_.one_in(2) ? "1073741825" : "-2147483647") + ";");
        break;
      case 10:  // taken apart
        to_.line("rem.u32 " + d + ", " + i + ", 5;");
        break;
      case 0:
        to_.line("add.s32 " + d + ", " + i + ", " + std::to_string(static_cast<int>(to_.below(5)) - 2) + ";");
        break;
      case 1: {
        const std::string last = to_.word();
        to_.line("add.s32 " + last + ", " + n_ + ", -1;\nsub.s32 " + d + ", " + last + ", " + i + ";");
        break;
      }
      case 2:
        to_.line("add.s32 " + d + ", " + i + ", " + m_ + ";");
        break;
      case 3: {
        const std::string y = to_.word();
        to_.line("mov.u32 " + y + ", %tid.y;\nmad.lo.s32 " + d + ", " + y + ", " + (to_.one_in(2) ? n_ : m_) + ", " +
                 i + ";");
        break;
      }
      case 4:
        to_.line("shl.b32 " + d + ", " + i + ", 1;");
        break;
      default:
        return i;
    }
    return d;
  }
  // Counted in 32 bits from a place that is far in front, so that the number may wrap around on the way.
  std::string address_from_afar(const std::string& base, const std::string& place) {
    const std::string counted = to_.word(), scaled = to_.word();
    const std::string wide = to_.wide(), ahead = to_.wide(), back = to_.wide(), d = to_.wide();
    to_.line("add.s32 " + counted + ", " + place + ", " + far_ + ";\nshl.b32 " + scaled + ", " + counted +
             ", 2;\ncvt.s64.s32 " + wide + ", " + scaled + ";\nadd.s64 " + ahead + ", " + base + ", " + wide +
             ";\nmul.wide.s32 " + back + ", " + far_ + ", 4;\nsub.s64 " + d + ", " + ahead + ", " + back + ";");
    return d;
  }
  std::string address_of(const std::string& base, const std::string& place) {
    if (is_far_) return address_from_afar(base, place);
    const std::string t = to_.wide(), d = to_.wide();
    const char* const sign = to_.one_in(4) ? "u32" : "s32";
    if (to_.one_in(5)) {
      const std::string scaled = to_.word();
      to_.line("shl.b32 " + scaled + ", " + place + ", 2;\ncvt." + (sign[0] == 'u' ? "u64" : "s64") + "." + sign + " " +
               t + ", " + scaled + ";\nadd.s64 " + d + ", " + base + ", " + t + ";");
    } else if (to_.one_in(5)) {
      const std::string wide = to_.wide();
      // The sign may be that of the lower half of a wider register.
      std::string from = place;
      if (to_.one_in(3)) {
        from = to_.wide();
        to_.line("cvt.u64.u32 " + from + ", " + place + ";");
      }
      to_.line("cvt." + std::string(sign[0] == 'u' ? "u64" : "s64") + "." + sign + " " + wide + ", " + from + ";\n" +
               (to_.one_in(2) ? "mad.lo.s64 " + d + ", " + wide + ", 4, " + base + ";"
                              : "shl.b64 " + t + ", " + wide + ", 2;\nadd.s64 " + d + ", " + t + ", " + base + ";"));
    } else if (to_.one_in(3)) {
      to_.line("mad.wide." + std::string(sign) + " " + d + ", " + place + ", 4, " + base + ";");
    } else {
      to_.line("mul.wide." + std::string(sign) + " " + t + ", " + place + ", 4;\nadd.s64 " + d + ", " + base + ", " +
               t + ";");
    }
    return d;
  }
  // Several elements of each thread side by side, or with one left out, or written in half.
  void write_row(const std::string& i) {
    to_.noted("row");
    const std::uint64_t count = 2 + to_.below(3), other = to_.below(2 * count);
    const std::string first = to_.word();
    to_.line("mul.lo.s32 " + first + ", " + i + ", " + std::to_string(count) + ";");
    const std::string at = address_of(out_, first);
    for (std::uint64_t place = 0; place < count; ++place) {
      if (place == other && to_.one_in(2)) continue;
      to_.line("st.global." + std::string(place == other ? "u16" : "u32") + " [" + at + "+" +
               std::to_string(4 * place) + "], " + m_ + ";");
    }
  }
  void write_body(const std::string& i) {
    if (to_.one_in(is_plain_ ? 4 : 8)) return write_row(i);
    const std::string value = to_.word(), changed = to_.word();
    // Offset, so that what is in front of the buffer is read, or what is behind it.
    const std::string offset = rarely(3) ? "+" + std::to_string(4 * static_cast<int>(to_.below(5)) - 8) : "";
    const std::string guard = rarely(4) ? "@" + compared(i) + " " : "";
    to_.line("mov.u32 " + value + ", 1;");
    const std::string from = address_of(to_.one_in(6) ? out_ : in_, place_of(i));
    to_.line(guard + "ld.global.u32 " + value + ", [" + from + offset + "];\nadd.u32 " + changed + ", " + value +
             ", 3;");
    const std::string end = to_.label();
    // A turn that stores nothing, as the contents say.
    if (to_.one_in(is_plain_ ? 4 : 8)) {
      const std::string bit = to_.word(), p = to_.predicate();
      to_.line("and.b32 " + bit + ", " + value + ", 1;\nsetp.eq.s32 " + p + ", " + bit + ", 0;\n@" + p + " bra " + end +
               ";");
    }
    const std::string at = address_of(out_, to_.one_in(2) ? i : place_of(i));
    const std::string behind = rarely(8) ? "+4" : "";
    const std::string store_guard = rarely(6) ? "@" + compared(i) + " " : "";
    if (rarely(8)) {
      to_.line(store_guard + "st.global.u16 [" + at + "], " + changed + ";");
    } else {
      to_.line(store_guard + "st.global.u32 [" + at + behind + "], " + changed + ";");
    }
    to_.line(end + ":");
  }
  // A predicate: the index is within a bound.
  std::string compared(const std::string& i) {
    static constexpr const char* kHow[] = {"lt.s32", "lt.s32", "lt.u32", "le.s32", "gt.s32", "ne.s32"};
    const std::string p = to_.predicate();
    if (is_plain_) {
      to_.line("setp.lt.s32 " + p + ", " + i + ", " + n_ + ";");
      return p;
    }
    if (to_.one_in(6)) {
      const std::string a = to_.wide(), b = to_.wide();
      to_.line("cvt.s64.s32 " + a + ", " + i + ";\ncvt.s64.s32 " + b + ", " + n_ + ";\nsetp.lt.s64 " + p + ", " + a +
               ", " + b + ";");
      return p;
    }
    to_.line("setp." + std::string(kHow[to_.below(6)]) + " " + p + ", " + i + ", " +
             (to_.one_in(4)   ? m_
              : to_.one_in(6) ? std::to_string(to_.below(32))
              : to_.one_in(8) ? std::to_string(0xffffffff - to_.below(32))  // a negative number
                              : n_) +
             ";");
    return p;
  }
  void write_once() {
    to_.noted("simple");
    const std::string end = to_.label();
    to_.line("@!" + compared(i_) + " bra " + end + ";");
    write_body(i_);
    if (to_.one_in(4)) write_body(i_);
    to_.line(end + ":");
  }
  // Each thread has every so manieth place.
  void write_loop(const std::string& threads) {
    to_.noted("simple loop");
    const std::string blocks = to_.word(), step = to_.word(), again = to_.label(), end = to_.label();
    to_.line("mov.u32 " + blocks + ", %nctaid.x;\nmul.lo.s32 " + step + ", " + threads + ", " + blocks + ";\n@!" +
             compared(i_) + " bra " + end + ";\n" + again + ":");
    write_body(i_);
    const std::string p = to_.predicate();
    to_.line("add.s32 " + i_ + ", " + i_ + ", " + (rarely(6) ? threads : step) + ";\nsetp.lt.s32 " + p + ", " + i_ +
             ", " + n_ + ";\n@" + p + " bra " + again + ";\n" + end + ":");
  }

  bool rarely(std::uint64_t count) { return !is_plain_ && to_.one_in(count); }

  KernelWriter& to_;
  std::string out_, in_, n_, m_, i_, far_;
  bool is_plain_ = to_.one_in(2);  // but for one thing or another it is of those that are proven
  bool is_far_ = to_.one_in(is_plain_ ? 3 : 8);
};

}  // namespace

void write_simple_kernel(KernelWriter& to) { SimpleKernel(to).write(); }

}  // namespace directions
