// SPDX-License-Identifier: Apache-2.0
// Floating-point numbers. The reference is the host's own arithmetic with the requested rounding; halves are computed
// in double precision and rounded once. Source: PTX ISA 9.0, 9.7.3 to 9.7.5.
#include <cfenv>
#include <limits>
#include <type_traits>

#include "tests/ptx/rules.h"
#include "tests/ptx/values.h"

namespace ptx_test {
namespace {

using V = const std::uint64_t*;

struct Rounding {
  const char* name;
  int mode;
};

constexpr Rounding kRoundings[] = {
    {".rn", FE_TONEAREST}, {".rz", FE_TOWARDZERO}, {".rm", FE_DOWNWARD}, {".rp", FE_UPWARD}};

template <typename Body>
auto in_rounding(int mode, Body body) {
  std::fesetround(mode);
  auto result = body();
  std::fesetround(FE_TONEAREST);
  return result;
}

template <typename T>
constexpr Kind kind_of() {
  return std::is_same_v<T, float> ? Kind::kF32 : Kind::kF64;
}

// The operands are read through volatile variables, so that nothing is computed at compile time, with another rounding.
template <typename T>
T computed(const std::string& name, T a, T b, T c) {
  volatile T x = a, y = b, z = c;
  if (name == "add") return x + y;
  if (name == "sub") return x - y;
  if (name == "mul") return x * y;
  if (name == "div") return x / y;
  if (name == "fma") return std::fma(x, y, z);
  if (name == "rcp") return static_cast<T>(1) / x;
  return std::sqrt(x);
}

std::size_t operands_of(const std::string& name) { return name == "fma" ? 3 : name == "rcp" || name == "sqrt" ? 1 : 2; }

template <typename T>
void add_arithmetic(std::vector<Rule>* to) {
  const std::string type = std::is_same_v<T, float> ? ".f32" : ".f64";
  for (const std::string name : {"add", "sub", "mul", "div", "fma", "rcp", "sqrt"}) {
    const std::size_t count = operands_of(name);
    for (const Rounding& rounding : kRoundings) {
      for (const bool flushes : {false, true}) {
        if (flushes && !std::is_same_v<T, float>) continue;
        const auto flush = [=](T x) { return flushes ? static_cast<T>(flushed(static_cast<float>(x))) : x; };
        to->push_back({name + rounding.name + (flushes ? ".ftz" : "") + type, kind_of<T>(),
                       std::vector<Kind>(count, kind_of<T>()),
                       [=](V v) {
                         T x[3] = {};
                         for (std::size_t i = 0; i < count; ++i) x[i] = flush(value<T>(v[i]));
                         const T result =
                             in_rounding(rounding.mode, [&] { return computed<T>(name, x[0], x[1], x[2]); });
                         return bits(flush(result));
                       },
                       Closeness::kFloat});
      }
    }
  }
}

// NaN becomes 0.
float clamped(float x) { return x > 1 ? 1.0f : x > 0 ? x : 0.0f; }

void add_saturating(std::vector<Rule>* to) {
  for (const std::string name : {"add", "sub", "mul", "fma"}) {
    const std::size_t count = operands_of(name);
    to->push_back({name + (name == "fma" ? ".rn" : "") + ".sat.f32", Kind::kF32, std::vector<Kind>(count, Kind::kF32),
                   [=](V v) {
                     const float c = count > 2 ? value<float>(v[2]) : 0;
                     return bits(clamped(computed(name, value<float>(v[0]), value<float>(v[1]), c)));
                   },
                   Closeness::kFloat});
  }
}

// The smaller or larger one, as in IEEE 754-2008's minNum; -0 is below +0. With `nan`, NaN wins.
template <typename T>
T extreme(T a, T b, bool most, bool nan) {
  if (std::isnan(a) && std::isnan(b)) return a;
  if (std::isnan(a)) return nan ? a : b;
  if (std::isnan(b)) return nan ? b : a;
  if (a == b) return std::signbit(a) == most ? b : a;
  return (a < b) == most ? b : a;
}

template <typename T>
void add_signs(std::vector<Rule>* to) {
  const std::string type = std::is_same_v<T, float> ? ".f32" : ".f64";
  const Kind kind = kind_of<T>();
  const std::vector<Kind> two(2, kind);
  const auto sign = std::uint64_t{1} << (8 * sizeof(T) - 1);
  to->push_back({"abs" + type, kind, {kind}, [=](V v) { return v[0] & ~sign; }, Closeness::kFloat});
  to->push_back({"neg" + type, kind, {kind}, [=](V v) { return v[0] ^ sign; }, Closeness::kFloat});
  to->push_back({"copysign" + type, kind, two, [=](V v) { return (v[0] & sign) | (v[1] & ~sign); }});
  for (const bool most : {false, true}) {
    const std::string name = most ? "max" : "min";
    to->push_back({name + type, kind, two,
                   [=](V v) { return bits(extreme(value<T>(v[0]), value<T>(v[1]), most, false)); }, Closeness::kFloat});
    if (!std::is_same_v<T, float>) continue;
    to->push_back({name + ".NaN" + type, kind, two,
                   [=](V v) { return bits(extreme(value<T>(v[0]), value<T>(v[1]), most, true)); }, Closeness::kFloat});
    to->push_back(
        {name + ".ftz" + type, kind, two,
         [=](V v) { return bits(extreme(flushed(value<float>(v[0])), flushed(value<float>(v[1])), most, false)); },
         Closeness::kFloat});
  }
}

template <typename T>
void add_properties(std::vector<Rule>* to) {
  const std::string type = std::is_same_v<T, float> ? ".f32" : ".f64";
  const auto add = [&](const char* name, bool (*holds)(T)) {
    to->push_back({std::string("testp.") + name + type, Kind::kPredicate, {kind_of<T>()}, [=](V v) {
                     return std::uint64_t{holds(value<T>(v[0]))};
                   }});
  };
  add("finite", [](T x) { return std::isfinite(x); });
  add("infinite", [](T x) { return std::isinf(x); });
  add("number", [](T x) { return !std::isnan(x); });
  add("notanumber", [](T x) { return std::isnan(x); });
  add("normal", [](T x) { return std::fpclassify(x) == FP_NORMAL; });
  add("subnormal", [](T x) { return std::fpclassify(x) == FP_SUBNORMAL; });
}

// ---- halves

struct Format {
  std::string name;
  HalfFormat format;
  double (*from)(std::uint16_t);
  std::uint16_t (*to)(double, int);
};

double half_result(const std::string& name, double a, double b, double c, const Format& format) {
  if (name == "add") return a + b;
  if (name == "sub") return a - b;
  if (name == "mul") return a * b;
  if (name == "min" || name == "max") return extreme(a, b, name == "max", false);
  // The product is exact. If the sum is not, the lost part is kept as a last digit that no half has (rounding to odd),
  // so that rounding once more gives the right result.
  const double product = a * b, sum = product + c;
  if (!std::isfinite(sum)) return sum;
  const double back = sum - product;
  const double error = (product - (sum - back)) + (c - back);
  if (error == 0 || (bits(sum) & 1) != 0) return sum;
  static_cast<void>(format);
  return std::nextafter(sum, error > 0 ? HUGE_VAL : -HUGE_VAL);
}

std::uint64_t of_half(const std::string& name, const Format& format, V v, unsigned shift) {
  const auto half = [&](std::size_t i) { return static_cast<std::uint16_t>(v[i] >> shift); };
  if (name == "neg") return half(0) ^ 0x8000u;
  if (name == "abs") return half(0) & 0x7fffu;
  const double c = name == "fma" ? format.from(half(2)) : 0;
  return format.to(half_result(name, format.from(half(0)), format.from(half(1)), c, format), FE_TONEAREST);
}

void add_half_format(std::vector<Rule>* to, const Format& format) {
  for (const std::string name : {"add", "sub", "mul", "fma", "min", "max", "neg", "abs"}) {
    const std::size_t count = name == "fma" ? 3 : name == "neg" || name == "abs" ? 1 : 2;
    const std::string rounding = name == "fma" ? ".rn" : "";
    to->push_back({name + rounding + "." + format.name, Kind::k16, std::vector<Kind>(count, Kind::k16),
                   [=](V v) { return of_half(name, format, v, 0); }, Closeness::kFloat16, format.format});
    to->push_back({name + rounding + "." + format.name + "x2", Kind::k32, std::vector<Kind>(count, Kind::k32),
                   [=](V v) { return of_half(name, format, v, 0) | of_half(name, format, v, 16) << 16; },
                   Closeness::kFloat16, format.format});
  }
}

// Modifiers of halves: subnormal numbers flushed, results between 0 and 1, results that are not negative.
void add_half_modifiers(std::vector<Rule>* to, const Format& format) {
  const bool is_f16 = format.format == HalfFormat::kF16;
  const std::uint16_t exponent = is_f16 ? 0x7c00 : 0x7f80;
  const auto flush = [=](std::uint64_t half) {
    const auto kept = static_cast<std::uint16_t>(half);
    return static_cast<std::uint16_t>((kept & exponent) == 0 ? kept & 0x8000u : kept);
  };
  for (const std::string name : {"add", "sub", "mul", "fma"}) {
    const std::size_t count = name == "fma" ? 3 : 2;
    const std::string rounding = name == "fma" ? ".rn" : "";
    for (const std::string modifier : {".ftz", ".sat", ".ftz.sat", ".relu", ".ftz.relu"}) {
      const bool flushes = modifier.starts_with(".ftz"), saturates = modifier.ends_with("sat");
      const bool relu = modifier.ends_with("relu");
      if ((relu && name != "fma") || (!relu && !is_f16) || (flushes && !is_f16)) continue;
      const auto of = [=](V v, unsigned shift) {
        std::uint64_t halves[3] = {};
        for (std::size_t i = 0; i < count; ++i)
          halves[i] = flushes ? flush(v[i] >> shift) : static_cast<std::uint16_t>(v[i] >> shift);
        const auto plain = static_cast<std::uint16_t>(of_half(name, format, halves, 0));
        double x = format.from(flushes ? flush(plain) : plain);
        if (saturates) x = x > 1 ? 1 : x > 0 ? x : 0;
        if (relu && x < 0) x = 0;
        return std::uint64_t{format.to(x, FE_TONEAREST)};
      };
      const std::string whole = name + rounding + modifier + "." + format.name;
      to->push_back({whole, Kind::k16, std::vector<Kind>(count, Kind::k16), [=](V v) { return of(v, 0); },
                     Closeness::kFloat16, format.format});
      to->push_back({whole + "x2", Kind::k32, std::vector<Kind>(count, Kind::k32),
                     [=](V v) { return of(v, 0) | of(v, 16) << 16; }, Closeness::kFloat16, format.format});
    }
  }
}

// Two floats in one word.
void add_float_pairs(std::vector<Rule>* to) {
  for (const std::string name : {"add", "sub", "mul", "fma"}) {
    const std::size_t count = name == "fma" ? 3 : 2;
    for (const Rounding& rounding : kRoundings) {
      for (const bool flushes : {false, true}) {
        const auto of = [=](V v, unsigned shift) {
          float x[3] = {};
          for (std::size_t i = 0; i < count; ++i) {
            x[i] = value<float>(v[i] >> shift);
            if (flushes) x[i] = flushed(x[i]);
          }
          const float result = in_rounding(rounding.mode, [&] { return computed(name, x[0], x[1], x[2]); });
          return bits(flushes ? flushed(result) : result);
        };
        to->push_back({name + rounding.name + (flushes ? ".ftz" : "") + ".f32x2", Kind::k64,
                       std::vector<Kind>(count, Kind::k64), [=](V v) { return of(v, 0) | of(v, 32) << 32; },
                       Closeness::kFloatPair});
      }
    }
  }
}

void add_approximate(std::vector<Rule>* to) {
  const auto add = [&](const char* name, double (*compute)(double)) {
    to->push_back({std::string(name) + ".approx.f32",
                   Kind::kF32,
                   {Kind::kF32},
                   [=](V v) { return bits(static_cast<float>(compute(static_cast<double>(value<float>(v[0]))))); },
                   Closeness::kAbout});
  };
  add("ex2", [](double x) { return std::exp2(x); });
  add("lg2", [](double x) { return std::log2(x); });
  add("tanh", [](double x) { return std::tanh(x); });
  add("rcp", [](double x) { return 1 / x; });
  add("rsqrt", [](double x) { return 1 / std::sqrt(x); });
  add("sqrt", [](double x) { return std::sqrt(x); });
  // For large arguments no accuracy is defined.
  add("sin", [](double x) { return std::sin(x); });
  add("cos", [](double x) { return std::cos(x); });
  to->push_back({"div.approx.f32",
                 Kind::kF32,
                 {Kind::kF32, Kind::kF32},
                 [](V v) { return bits(value<float>(v[0]) / value<float>(v[1])); },
                 Closeness::kAbout});
  to->push_back({"div.full.f32",
                 Kind::kF32,
                 {Kind::kF32, Kind::kF32},
                 [](V v) { return bits(value<float>(v[0]) / value<float>(v[1])); },
                 Closeness::kAbout});
}

}  // namespace

void add_float_rules(std::vector<Rule>* to) {
  add_arithmetic<float>(to);
  add_arithmetic<double>(to);
  add_saturating(to);
  add_signs<float>(to);
  add_signs<double>(to);
  add_properties<float>(to);
  add_properties<double>(to);
  add_half_format(to, {"f16", HalfFormat::kF16, from_f16, to_f16});
  add_half_format(to, {"bf16", HalfFormat::kBf16, from_bf16, to_bf16});
  add_half_modifiers(to, {"f16", HalfFormat::kF16, from_f16, to_f16});
  add_half_modifiers(to, {"bf16", HalfFormat::kBf16, from_bf16, to_bf16});
  add_float_pairs(to);
  add_approximate(to);
}

}  // namespace ptx_test
