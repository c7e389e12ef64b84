// SPDX-License-Identifier: Apache-2.0
// Comparisons and selections. Source: PTX ISA 9.0, 9.7.6 and 9.7.7.
#include <type_traits>

#include "tests/ptx/rules.h"
#include "tests/ptx/values.h"

namespace ptx_test {
namespace {

using V = const std::uint64_t*;

// -1, 0 or 1; 2 if one of them is NaN.
template <typename T>
int order(std::uint64_t a, std::uint64_t b) {
  const T x = value<T>(a), y = value<T>(b);
  if (x < y) return -1;
  if (x > y) return 1;
  return x == y ? 0 : 2;
}

bool holds(const std::string& name, int order) {
  const bool unordered = order == 2;
  const std::string plain = name.size() == 3 && name.back() == 'u' ? name.substr(0, 2) : name;
  if (name == "num") return !unordered;
  if (name == "nan") return unordered;
  if (unordered) return plain != name;
  if (plain == "eq") return order == 0;
  if (plain == "ne") return order != 0;
  if (plain == "lt" || plain == "lo") return order < 0;
  if (plain == "le" || plain == "ls") return order <= 0;
  if (plain == "gt" || plain == "hi") return order > 0;
  return order >= 0;
}

template <typename T>
void add_type(std::vector<Rule>* to, const std::string& type, Kind kind, const std::vector<std::string>& names) {
  const std::vector<Kind> two(2, kind);
  for (const std::string& name : names) {
    to->push_back({"setp." + name + type, Kind::kPredicate, two,
                   [=](V v) { return std::uint64_t{holds(name, order<T>(v[0], v[1]))}; }});
    to->push_back({"set." + name + ".u32" + type, Kind::k32, two,
                   [=](V v) { return holds(name, order<T>(v[0], v[1])) ? std::uint64_t{0xffffffff} : 0; }});
    to->push_back({"set." + name + ".f32" + type, Kind::kF32, two,
                   [=](V v) { return holds(name, order<T>(v[0], v[1])) ? bits(1.0f) : 0; }});
    to->push_back({"setp." + name + ".and" + type, Kind::kPredicate, {kind, kind, Kind::kPredicate}, [=](V v) {
                     return std::uint64_t{holds(name, order<T>(v[0], v[1])) && v[2] != 0};
                   }});
    to->push_back({"setp." + name + ".xor" + type, Kind::kPredicate, {kind, kind, Kind::kPredicate}, [=](V v) {
                     return std::uint64_t{holds(name, order<T>(v[0], v[1])) != (v[2] != 0)};
                   }});
  }
}

int order_of_halves(double x, double y) { return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2; }

// Each half alone, and both in a word; true is all ones, or 1.0 in the operands' format.
void add_halves(std::vector<Rule>* to, const std::string& type, double (*from)(std::uint16_t), std::uint64_t one) {
  const std::vector<Kind> halves(2, Kind::k16), pairs(2, Kind::k32);
  for (const std::string name :
       {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}) {
    const auto is = [=](std::uint64_t a, std::uint64_t b) {
      const double x = from(static_cast<std::uint16_t>(a)), y = from(static_cast<std::uint16_t>(b));
      return std::uint64_t{holds(name, order_of_halves(x, y))};
    };
    const auto both = [=](V v, std::uint64_t yes) {
      return is(v[0], v[1]) * yes | (is(v[0] >> 16, v[1] >> 16) * yes) << 16;
    };
    const std::string set = "set." + name, pair = type + "x2";
    to->push_back({"setp." + name + type, Kind::kPredicate, halves, [=](V v) { return is(v[0], v[1]); }});
    to->push_back({set + ".u32" + type, Kind::k32, halves, [=](V v) { return is(v[0], v[1]) * 0xffffffff; }});
    to->push_back({set + ".u16" + type, Kind::k16, halves, [=](V v) { return is(v[0], v[1]) * 0xffff; }});
    to->push_back({set + type + type, Kind::k16, halves, [=](V v) { return is(v[0], v[1]) * one; }});
    if (type == ".f16") {
      const auto flush = [](std::uint64_t half) { return (half & 0x7c00) == 0 ? half & 0x8000 : half; };
      to->push_back(
          {"setp." + name + ".ftz.f16", Kind::kPredicate, halves, [=](V v) { return is(flush(v[0]), flush(v[1])); }});
    }
    to->push_back({set + pair + pair, Kind::k32, pairs, [=](V v) { return both(v, one); }});
    to->push_back({set + ".u32" + pair, Kind::k32, pairs, [=](V v) { return both(v, 0xffff); }});
  }
}

void add_choices(std::vector<Rule>* to, const std::string& type, Kind kind) {
  to->push_back({"selp" + type, kind, {kind, kind, Kind::kPredicate}, [](V v) { return v[2] != 0 ? v[0] : v[1]; }});
  to->push_back({"slct" + type + ".s32", kind, {kind, kind, Kind::k32}, [](V v) {
                   return value<std::int32_t>(v[2]) >= 0 ? v[0] : v[1];
                 }});
  to->push_back({"slct" + type + ".f32", kind, {kind, kind, Kind::kF32}, [](V v) {
                   return value<float>(v[2]) >= 0 ? v[0] : v[1];
                 }});
}

}  // namespace

void add_comparison_rules(std::vector<Rule>* to) {
  const std::vector<std::string> of_signed = {"eq", "ne", "lt", "le", "gt", "ge"};
  const std::vector<std::string> of_unsigned = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"};
  const std::vector<std::string> of_floats = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                              "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  add_type<std::int16_t>(to, ".s16", Kind::k16, of_signed);
  add_type<std::uint16_t>(to, ".u16", Kind::k16, of_unsigned);
  add_type<std::int32_t>(to, ".s32", Kind::k32, of_signed);
  add_type<std::uint32_t>(to, ".u32", Kind::k32, of_unsigned);
  add_type<std::int64_t>(to, ".s64", Kind::k64, of_signed);
  add_type<std::uint64_t>(to, ".u64", Kind::k64, of_unsigned);
  add_type<float>(to, ".f32", Kind::kF32, of_floats);
  add_type<double>(to, ".f64", Kind::kF64, of_floats);
  add_halves(to, ".f16", from_f16, 0x3c00);
  add_halves(to, ".bf16", from_bf16, 0x3f80);
  add_choices(to, ".b16", Kind::k16);
  add_choices(to, ".b32", Kind::k32);
  add_choices(to, ".u64", Kind::k64);
  add_choices(to, ".f32", Kind::kF32);
  add_choices(to, ".f64", Kind::kF64);
}

}  // namespace ptx_test
