// SPDX-License-Identifier: Apache-2.0
// Video instructions. Source: the pseudo-code of PTX ISA 9.0, 9.7.17.
#include <algorithm>

#include "tests/ptx/rules.h"

namespace ptx_test {
namespace {

using V = const std::uint64_t*;

// `bits` bits from `at` on.
std::int64_t part(std::uint64_t word, unsigned at, unsigned bits, bool is_signed) {
  const auto kept = static_cast<std::int64_t>(word >> at & ((std::uint64_t{1} << bits) - 1));
  return is_signed && (kept >> (bits - 1)) != 0 ? kept - (std::int64_t{1} << bits) : kept;
}

std::int64_t computed(const std::string& name, std::int64_t a, std::int64_t b) {
  if (name == "vadd") return a + b;
  if (name == "vsub") return a - b;
  if (name == "vabsdiff") return std::max(a, b) - std::min(a, b);
  if (name == "vmin") return std::min(a, b);
  if (name == "vmax") return std::max(a, b);
  if (name == "vavrg") return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
  if (name == "vshl") return a * (std::int64_t{1} << std::min<std::int64_t>(b, 32));
  return a >> std::min<std::int64_t>(b, 32);  // vshr
}

std::int64_t clamped(std::int64_t value, unsigned bits, bool is_signed) {
  const std::int64_t least = is_signed ? -(std::int64_t{1} << (bits - 1)) : 0;
  return std::clamp(value, least, least + (std::int64_t{1} << bits) - 1);
}

bool holds(const std::string& order, std::int64_t a, std::int64_t b) {
  if (order == "eq") return a == b;
  if (order == "ne") return a != b;
  if (order == "lt") return a < b;
  if (order == "le") return a <= b;
  return order == "gt" ? a > b : a >= b;
}

const std::vector<Kind> kTwo(2, Kind::k32), kThree(3, Kind::k32);

std::string type(bool is_signed) { return is_signed ? ".s32" : ".u32"; }

void add_one_lane(std::vector<Rule>* to, const std::string& name, bool a, bool b, bool d) {
  const bool shifts = name == "vshl" || name == "vshr";
  if (shifts && b) return;
  const std::string types = type(d) + type(a) + type(b), mode = shifts ? ".clamp" : "";
  const auto plain = [=](V v) { return computed(name, part(v[0], 0, 32, a), part(v[1], 0, 32, b)); };
  const auto word = [](std::int64_t value) { return static_cast<std::uint64_t>(value) & 0xffffffff; };
  to->push_back({name + types + mode, Kind::k32, kTwo, [=](V v) { return word(plain(v)); }});
  to->push_back({name + types + ".sat" + mode, Kind::k32, kTwo, [=](V v) { return word(clamped(plain(v), 32, d)); }});
  to->push_back({name + types + mode + ".add", Kind::k32, kThree,
                 [=](V v) { return word(plain(v) + static_cast<std::int64_t>(v[2])); }});
  to->push_back({name + types + ".sat" + mode + ".max", Kind::k32, kThree,
                 [=](V v) { return word(std::max(clamped(plain(v), 32, d), part(v[2], 0, 32, d))); }});
}

void add_lanes(std::vector<Rule>* to, const std::string& name, unsigned lanes, bool a, bool b, bool d) {
  const unsigned bits = 32 / lanes;
  const std::string whole = name + std::to_string(lanes) + type(d) + type(a) + type(b);
  for (const bool saturates : {false, true}) {
    const auto lane = [=](V v, unsigned i) {
      const std::int64_t value = computed(name, part(v[0], i * bits, bits, a), part(v[1], i * bits, bits, b));
      return saturates ? clamped(value, bits, d) : value;
    };
    to->push_back({whole + (saturates ? ".sat" : ""), Kind::k32, kThree, [=](V v) {
                     std::uint64_t result = 0;
                     for (unsigned i = 0; i < lanes; ++i)
                       result |=
                           static_cast<std::uint64_t>(part(static_cast<std::uint64_t>(lane(v, i)), 0, bits, false))
                           << i * bits;
                     return result;
                   }});
    if (saturates) continue;
    to->push_back({whole + ".add", Kind::k32, kThree, [=](V v) {
                     std::int64_t sum = static_cast<std::int64_t>(v[2]);
                     for (unsigned i = 0; i < lanes; ++i) sum += lane(v, i);
                     return static_cast<std::uint64_t>(sum) & 0xffffffff;
                   }});
  }
}

void add_orders(std::vector<Rule>* to, bool a, bool b) {
  for (const std::string order : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    for (const unsigned lanes : {1u, 2u, 4u}) {
      const unsigned bits = 32 / lanes;
      to->push_back({"vset" + (lanes == 1 ? std::string() : std::to_string(lanes)) + type(a) + type(b) + "." + order,
                     Kind::k32, lanes == 1 ? kTwo : kThree, [=](V v) {
                       std::uint64_t result = 0;
                       for (unsigned i = 0; i < lanes; ++i) {
                         const bool is = holds(order, part(v[0], i * bits, bits, a), part(v[1], i * bits, bits, b));
                         result |= std::uint64_t{is} << i * bits;
                       }
                       return result;
                     }});
    }
  }
}

void add_products(std::vector<Rule>* to, bool a, bool b) {
  __extension__ using Wide = __int128;
  for (const unsigned shift : {0u, 7u, 15u}) {
    for (const bool saturates : {false, true}) {
      const std::string name = "vmad" + type(a || b) + type(a) + type(b) + (saturates ? ".sat" : "") +
                               (shift == 0 ? "" : ".shr" + std::to_string(shift));
      to->push_back({name, Kind::k32, kThree, [=](V v) {
                       Wide sum = static_cast<Wide>(part(v[0], 0, 32, a)) * part(v[1], 0, 32, b);
                       sum = (sum + part(v[2], 0, 32, a || b)) >> shift;
                       const Wide least = a || b ? -(Wide{1} << 31) : 0;
                       if (saturates) sum = std::clamp<Wide>(sum, least, least + 0xffffffff);
                       return static_cast<std::uint64_t>(sum) & 0xffffffff;
                     }});
    }
  }
}

}  // namespace

void add_video_rules(std::vector<Rule>* to) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      for (const bool d : {false, true}) {
        for (const std::string name : {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr"})
          add_one_lane(to, name, a, b, d);
        for (const std::string name : {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg"}) {
          add_lanes(to, name, 2, a, b, d);
          add_lanes(to, name, 4, a, b, d);
        }
      }
      add_orders(to, a, b);
      add_products(to, a, b);
    }
  }
}

}  // namespace ptx_test
