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

// ---- formats of 4 to 8 bits

struct Small {
  const char* name;
  unsigned exponent_bits, fraction_bits;
  bool has_infinity, has_nan;

  unsigned bits() const { return exponent_bits + fraction_bits; }  // without the sign
  // The value of a code without its sign.
  double value(unsigned code) const {
    const unsigned ones = (1u << bits()) - 1, top = ((1u << exponent_bits) - 1) << fraction_bits;
    if (has_infinity && code >= top) return code == top ? HUGE_VAL : std::nan("");
    if (has_nan && code == ones) return std::nan("");
    const int bias = (1 << (exponent_bits - 1)) - 1, exponent = static_cast<int>(code >> fraction_bits);
    const double fraction = std::ldexp(code & ((1u << fraction_bits) - 1), -static_cast<int>(fraction_bits));
    return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  }
  // The nearest of all finite numbers; of two, the one whose code is even.
  std::uint64_t nearest(double x) const {
    const unsigned codes = 1u << bits();
    if (std::isnan(x)) return codes - 1;
    double largest = 0;
    for (unsigned code = 0; code < codes; ++code) largest = std::isfinite(value(code)) ? value(code) : largest;
    const double magnitude = std::min(std::fabs(x), largest);
    unsigned best = 0;
    for (unsigned code = 0; code < codes; ++code) {
      if (!std::isfinite(value(code))) continue;
      const double closer = std::fabs(magnitude - value(best)) - std::fabs(magnitude - value(code));
      if (closer > 0 || (closer == 0 && code % 2 == 0)) best = code;
    }
    return best | (std::signbit(x) ? codes : 0);
  }
  double signed_value(std::uint64_t code) const {
    const double magnitude = value(static_cast<unsigned>(code & ((1u << bits()) - 1)));
    return (code >> bits() & 1) != 0 ? -magnitude : magnitude;
  }
};

double positive_or_nan(double x) { return x < 0 ? 0 : x; }

// Codes are in bytes, the first operand in the upper one.
void add_small(std::vector<Rule>* to, const Small& format) {
  const std::string name = std::string(".") + format.name + "x2";
  for (const bool relu : {false, true}) {
    const auto code = [=](double x) { return format.nearest(relu ? positive_or_nan(x) : x); };
    const std::string into = std::string("cvt.rn.satfinite") + (relu ? ".relu" : "") + name;
    to->push_back({into + ".f32", Kind::k16, {Kind::kF32, Kind::kF32}, [=](V v) {
                     const auto of = [&](std::uint64_t x) { return code(static_cast<double>(value<float>(x))); };
                     return of(v[0]) << 8 | of(v[1]);
                   }});
    to->push_back({into + ".f16x2", Kind::k16, {Kind::k32}, [=](V v) {
                     const auto of = [&](std::uint64_t x) { return code(from_f16(static_cast<std::uint16_t>(x))); };
                     return of(v[0] >> 16) << 8 | of(v[0]);
                   }});
    to->push_back({std::string("cvt.rn") + (relu ? ".relu" : "") + ".f16x2" + name,
                   Kind::k32,
                   {Kind::k16},
                   [=](V v) {
                     const auto of = [&](std::uint64_t byte) {
                       const double x = format.signed_value(byte & ((2u << format.bits()) - 1));
                       return std::uint64_t{to_f16(relu ? positive_or_nan(x) : x, FE_TONEAREST)};
                     };
                     return of(v[0] >> 8) << 16 | of(v[0]);
                   },
                   Closeness::kFloat16,
                   HalfFormat::kF16});
  }
}

// 2^(code - 127), of the magnitude.
std::uint64_t scale_of(double x, bool up) {
  if (std::isnan(x)) return 255;
  unsigned code = 0;
  while (code < 254 && std::ldexp(1.0, static_cast<int>(code) - 127) < std::fabs(x)) ++code;
  const bool is_exact = std::ldexp(1.0, static_cast<int>(code) - 127) == std::fabs(x);
  const bool is_beyond = std::ldexp(1.0, static_cast<int>(code) - 127) < std::fabs(x);
  return up || is_exact || is_beyond || code == 0 ? code : code - 1;
}

void add_scales(std::vector<Rule>* to) {
  for (const bool up : {false, true}) {
    const std::string name = std::string("cvt.") + (up ? "rp" : "rz") + ".satfinite.ue8m0x2";
    to->push_back({name + ".f32", Kind::k16, {Kind::kF32, Kind::kF32}, [=](V v) {
                     const auto of = [&](std::uint64_t x) {
                       return scale_of(static_cast<double>(value<float>(x)), up);
                     };
                     return of(v[0]) << 8 | of(v[1]);
                   }});
    to->push_back({name + ".bf16x2", Kind::k16, {Kind::k32}, [=](V v) {
                     const auto of = [&](std::uint64_t x) {
                       return scale_of(from_bf16(static_cast<std::uint16_t>(x)), up);
                     };
                     return of(v[0] >> 16) << 8 | of(v[0]);
                   }});
  }
  to->push_back({"cvt.rn.bf16x2.ue8m0x2",
                 Kind::k32,
                 {Kind::k16},
                 [](V v) {
                   const auto of = [](std::uint64_t code) {
                     const double x = code == 255 ? std::nan("") : std::ldexp(1.0, static_cast<int>(code) - 127);
                     return std::uint64_t{to_bf16(x, FE_TONEAREST)};
                   };
                   return of(v[0] >> 8) << 16 | of(v[0] & 255);
                 },
                 Closeness::kFloat16,
                 HalfFormat::kBf16});
}

// Two integers in the halves of a word, or in its lower bytes below what another word has there.
template <typename To>
void add_packed(std::vector<Rule>* to) {
  const std::string type = type_name<To>();
  constexpr unsigned kBits = 8 * sizeof(To);
  const auto pair = [](V v) {
    const auto of = [](std::uint64_t x) {
      return bits(clamped<To>(value<std::int32_t>(x))) & ((std::uint64_t{1} << kBits) - 1);
    };
    return of(v[0]) << kBits | of(v[1]);
  };
  if constexpr (kBits == 8) {
    to->push_back({"cvt.pack.sat" + type + ".s32.b32", Kind::k32, std::vector<Kind>(3, Kind::k32),
                   [=](V v) { return pair(v) | (v[2] & 0xffff) << 16; }});
  } else {
    to->push_back({"cvt.pack.sat" + type + ".s32", Kind::k32, std::vector<Kind>(2, Kind::k32), pair});
  }
}

// A float with 10 digits of its fraction.
void add_tf32(std::vector<Rule>* to) {
  for (const std::string mode : {"rn", "rz", "rna"}) {
    to->push_back({"cvt." + mode + ".tf32.f32",
                   Kind::kF32,
                   {Kind::kF32},
                   [=](V v) {
                     const auto x = static_cast<double>(value<float>(v[0]));
                     if (!std::isfinite(x)) return v[0];
                     const int unit = std::max(std::ilogb(x), -126) - 10;
                     const double scaled = std::ldexp(x, -unit);
                     const double whole = mode == "rn"   ? std::nearbyint(scaled)
                                          : mode == "rz" ? std::trunc(scaled)
                                                         : std::round(scaled);
                     return bits(std::copysign(static_cast<float>(std::ldexp(whole, unit)), value<float>(v[0])));
                   },
                   Closeness::kFloat});
  }
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
  add_tf32(to);
  add_packed<std::uint8_t>(to);
  add_packed<std::int8_t>(to);
  add_packed<std::uint16_t>(to);
  add_packed<std::int16_t>(to);
  for (const Small& format : {Small{"e4m3", 4, 3, false, true}, Small{"e5m2", 5, 2, true, true},
                              Small{"e3m2", 3, 2, false, false}, Small{"e2m3", 2, 3, false, false}})
    add_small(to, format);
  add_scales(to);
}

}  // namespace ptx_test
