// SPDX-License-Identifier: Apache-2.0
// cvt between all scalars. Source: PTX ISA 9.0, 9.7.9.21.
#include <algorithm>
#include <cfenv>
#include <limits>
#include <type_traits>

#include "tests/ptx/rules.h"
#include "tests/ptx/values.h"

namespace ptx_test {
namespace {

using V = const std::uint64_t*;
__extension__ using Wide = __int128;

struct Rounding {
  const char* name;
  const char* to_integer;
  int mode;
};

constexpr Rounding kRoundings[] = {{".rn", ".rni", FE_TONEAREST},
                                   {".rz", ".rzi", FE_TOWARDZERO},
                                   {".rm", ".rmi", FE_DOWNWARD},
                                   {".rp", ".rpi", FE_UPWARD}};

template <typename T>
std::string type_name() {
  if (std::is_floating_point_v<T>) return ".f" + std::to_string(8 * sizeof(T));
  return (std::is_signed_v<T> ? ".s" : ".u") + std::to_string(8 * sizeof(T));
}

template <typename T>
constexpr Kind kind_of() {
  if (std::is_same_v<T, float>) return Kind::kF32;
  if (std::is_same_v<T, double>) return Kind::kF64;
  return sizeof(T) == 2 ? Kind::k16 : sizeof(T) == 4 ? Kind::k32 : Kind::k64;
}

template <typename To, typename From>
To clamped(From x) {
  using Limits = std::numeric_limits<To>;
  return static_cast<To>(std::clamp<Wide>(static_cast<Wide>(x), Limits::min(), Limits::max()));
}

template <typename To, typename From>
void add_integers(std::vector<Rule>* to) {
  const std::string types = type_name<To>() + type_name<From>();
  to->push_back(
      {"cvt" + types, kind_of<To>(), {kind_of<From>()}, [](V v) { return bits(static_cast<To>(value<From>(v[0]))); }});
  to->push_back(
      {"cvt.sat" + types, kind_of<To>(), {kind_of<From>()}, [](V v) { return bits(clamped<To>(value<From>(v[0]))); }});
}

// NaN becomes 0; values out of range become the nearest limit.
template <typename To, typename From>
To whole(From x, int mode) {
  if (std::isnan(x)) return 0;
  std::fesetround(mode);
  volatile From read = x;
  const From rounded = std::nearbyint(read);
  std::fesetround(FE_TONEAREST);
  using Limits = std::numeric_limits<To>;
  // 2^n is a floating-point number, 2^n - 1 need not be.
  const From beyond = std::ldexp(static_cast<From>(1), Limits::digits);
  if (rounded >= beyond) return Limits::max();
  if (rounded < (std::is_signed_v<To> ? -beyond : static_cast<From>(0))) return Limits::min();
  return static_cast<To>(rounded);
}

template <typename To, typename From>
void add_to_integer(std::vector<Rule>* to) {
  for (const Rounding& rounding : kRoundings) {
    to->push_back({"cvt" + std::string(rounding.to_integer) + type_name<To>() + type_name<From>(),
                   kind_of<To>(),
                   {kind_of<From>()},
                   [=](V v) { return bits(whole<To>(value<From>(v[0]), rounding.mode)); }});
  }
}

template <typename To, typename From>
void add_from_integer(std::vector<Rule>* to) {
  for (const Rounding& rounding : kRoundings) {
    to->push_back({"cvt" + std::string(rounding.name) + type_name<To>() + type_name<From>(),
                   kind_of<To>(),
                   {kind_of<From>()},
                   [=](V v) {
                     std::fesetround(rounding.mode);
                     volatile From read = value<From>(v[0]);
                     volatile To result = static_cast<To>(read);
                     std::fesetround(FE_TONEAREST);
                     return bits<To>(result);
                   }});
  }
}

template <typename Integer>
void add_integer(std::vector<Rule>* to) {
  add_integers<std::uint16_t, Integer>(to);
  add_integers<std::int16_t, Integer>(to);
  add_integers<std::uint32_t, Integer>(to);
  add_integers<std::int32_t, Integer>(to);
  add_integers<std::uint64_t, Integer>(to);
  add_integers<std::int64_t, Integer>(to);
  add_to_integer<Integer, float>(to);
  add_to_integer<Integer, double>(to);
  add_from_integer<float, Integer>(to);
  add_from_integer<double, Integer>(to);
}

void add_floats(std::vector<Rule>* to) {
  to->push_back({"cvt.f64.f32",
                 Kind::kF64,
                 {Kind::kF32},
                 [](V v) { return bits(static_cast<double>(value<float>(v[0]))); },
                 Closeness::kFloat});
  for (const Rounding& rounding : kRoundings) {
    to->push_back({"cvt" + std::string(rounding.name) + ".f32.f64",
                   Kind::kF32,
                   {Kind::kF64},
                   [=](V v) {
                     std::fesetround(rounding.mode);
                     volatile double read = value<double>(v[0]);
                     volatile float result = static_cast<float>(read);
                     std::fesetround(FE_TONEAREST);
                     return bits<float>(result);
                   },
                   Closeness::kFloat});
    to->push_back({"cvt" + std::string(rounding.to_integer) + ".f32.f32",
                   Kind::kF32,
                   {Kind::kF32},
                   [=](V v) {
                     std::fesetround(rounding.mode);
                     volatile float read = value<float>(v[0]);
                     volatile float result = std::nearbyint(read);
                     std::fesetround(FE_TONEAREST);
                     return bits<float>(result);
                   },
                   Closeness::kFloat});
  }
  to->push_back({"cvt.sat.f32.f32",
                 Kind::kF32,
                 {Kind::kF32},
                 [](V v) {
                   const auto x = value<float>(v[0]);
                   return bits(x > 1 ? 1.0f : x > 0 ? x : 0.0f);
                 },
                 Closeness::kFloat});
  to->push_back({"cvt.ftz.f32.f32",
                 Kind::kF32,
                 {Kind::kF32},
                 [](V v) { return bits(flushed(value<float>(v[0]))); },
                 Closeness::kFloat});
}

void add_halves(std::vector<Rule>* to, const std::string& name, HalfFormat format, double (*from)(std::uint16_t),
                std::uint16_t (*into)(double, int)) {
  to->push_back({"cvt.f32." + name,
                 Kind::kF32,
                 {Kind::k16},
                 [=](V v) { return bits(static_cast<float>(from(static_cast<std::uint16_t>(v[0])))); },
                 Closeness::kFloat});
  for (const Rounding& rounding : kRoundings) {
    if (format == HalfFormat::kBf16 && rounding.mode != FE_TONEAREST && rounding.mode != FE_TOWARDZERO) continue;
    to->push_back({"cvt" + std::string(rounding.name) + "." + name + ".f32",
                   Kind::k16,
                   {Kind::kF32},
                   [=](V v) { return std::uint64_t{into(static_cast<double>(value<float>(v[0])), rounding.mode)}; },
                   Closeness::kFloat16,
                   format});
  }
  // The first operand is the upper half.
  to->push_back({"cvt.rn." + name + "x2.f32",
                 Kind::k32,
                 {Kind::kF32, Kind::kF32},
                 [=](V v) {
                   const auto half = [&](std::uint64_t x) {
                     return std::uint64_t{into(static_cast<double>(value<float>(x)), FE_TONEAREST)};
                   };
                   return half(v[0]) << 16 | half(v[1]);
                 },
                 Closeness::kFloat16,
                 format});
}

}  // namespace

void add_conversion_rules(std::vector<Rule>* to) {
  add_integer<std::uint16_t>(to);
  add_integer<std::int16_t>(to);
  add_integer<std::uint32_t>(to);
  add_integer<std::int32_t>(to);
  add_integer<std::uint64_t>(to);
  add_integer<std::int64_t>(to);
  add_floats(to);
  add_halves(to, "f16", HalfFormat::kF16, from_f16, to_f16);
  add_halves(to, "bf16", HalfFormat::kBf16, from_bf16, to_bf16);
}

}  // namespace ptx_test
