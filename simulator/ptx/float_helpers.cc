// SPDX-License-Identifier: Apache-2.0
// Floating-point operations for which the host has no single instruction: directed roundings, halves, and operations
// that PTX calls approximate. Compiled with -frounding-math.
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>

#include "simulator/ptx/halves.h"
#include "simulator/ptx/helpers.h"

namespace simulator::ptx {
namespace {

enum Rounding : std::uint32_t { kNearest, kTowardZero, kDown, kUp };

class Rounded {
 public:
  explicit Rounded(std::uint32_t rounding) : before_(std::fegetround()) {
    constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(kModes[rounding & 3]);
  }
  ~Rounded() { std::fesetround(before_); }
  Rounded(const Rounded&) = delete;
  Rounded& operator=(const Rounded&) = delete;

 private:
  int before_;
};

// Through volatile variables, so that nothing is computed before the rounding mode is set.
template <typename T, typename Operation>
T rounded(T a, T b, std::uint32_t rounding, Operation operation) {
  const Rounded scope(rounding);
  const volatile T x = a, y = b;
  const volatile T result = operation(x, y);
  return result;
}

template <typename T>
T add(T a, T b, std::uint32_t rounding) {
  return rounded(a, b, rounding, [](T x, T y) { return x + y; });
}
template <typename T>
T sub(T a, T b, std::uint32_t rounding) {
  return rounded(a, b, rounding, [](T x, T y) { return x - y; });
}
template <typename T>
T mul(T a, T b, std::uint32_t rounding) {
  return rounded(a, b, rounding, [](T x, T y) { return x * y; });
}
template <typename T>
T div(T a, T b, std::uint32_t rounding) {
  return rounded(a, b, rounding, [](T x, T y) { return x / y; });
}
template <typename T>
T sqrt_of(T a, std::uint32_t rounding) {
  return rounded(a, a, rounding, [](T x, T) { return std::sqrt(x); });
}
template <typename T>
T fma_of(T a, T b, T c, std::uint32_t rounding) {
  const Rounded scope(rounding);
  const volatile T x = a, y = b, z = c;
  const volatile T result = std::fma(T{x}, T{y}, T{z});
  return result;
}

float double_to_f32(double value, std::uint32_t rounding) {
  const Rounded scope(rounding);
  const volatile double x = value;
  const volatile float result = static_cast<float>(x);
  return result;
}

template <typename T>
T int_to(std::int64_t value, std::uint32_t is_signed, std::uint32_t rounding) {
  const Rounded scope(rounding);
  const volatile std::int64_t x = value;
  if (is_signed != 0) {
    const volatile T result = static_cast<T>(x);
    return result;
  }
  const auto unsigned_x = static_cast<std::uint64_t>(x);
  const volatile T result = static_cast<T>(unsigned_x);
  return result;
}

// ---- halves

std::uint16_t int_to_half(const Half& format, std::int64_t value, std::uint32_t is_signed, std::uint32_t rounding) {
  // 64 digits are needed. long double has them, but not on every machine. A double rounded in the same direction, with
  // an odd last digit if anything was lost, rounds to the same result.
  const double toward_zero = int_to<double>(value, is_signed, kTowardZero);
  const double away =
      is_signed != 0 && value < 0 ? int_to<double>(value, is_signed, kDown) : int_to<double>(value, is_signed, kUp);
  const double odd =
      toward_zero == away ? toward_zero : std::bit_cast<double>(std::bit_cast<std::uint64_t>(toward_zero) | 1);
  return encode_half(format, odd, rounding);
}
std::uint16_t int_to_f16(std::int64_t value, std::uint32_t is_signed, std::uint32_t rounding) {
  return int_to_half(kF16, value, is_signed, rounding);
}
std::uint16_t int_to_bf16(std::int64_t value, std::uint32_t is_signed, std::uint32_t rounding) {
  return int_to_half(kBf16, value, is_signed, rounding);
}
std::uint16_t double_to_f16(double value, std::uint32_t rounding) { return encode_half(kF16, value, rounding); }
std::uint16_t double_to_bf16(double value, std::uint32_t rounding) { return encode_half(kBf16, value, rounding); }

// The product of two halves is exact in a double. If the sum is inexact, its last digit is made odd (rounding to odd),
// so that the second rounding gives the result of a single one.
std::uint16_t fma_half(const Half& format, std::uint16_t a, std::uint16_t b, std::uint16_t c) {
  const double product = decode_half(format, a) * decode_half(format, b), addend = decode_half(format, c);
  const volatile double sum = product + addend;
  double result = sum;
  if (std::isfinite(result)) {
    const volatile double part = sum - product;
    const volatile double first = product - (sum - part);
    const volatile double second = addend - part;
    const double lost = first + second;
    if (lost != 0 && (std::bit_cast<std::uint64_t>(result) & 1) == 0)
      result = std::nextafter(result, lost > 0 ? HUGE_VAL : -HUGE_VAL);
  }
  return encode_half(format, result, kNearest);
}
std::uint16_t fma_f16(std::uint16_t a, std::uint16_t b, std::uint16_t c) { return fma_half(kF16, a, b, c); }
std::uint16_t fma_bf16(std::uint16_t a, std::uint16_t b, std::uint16_t c) { return fma_half(kBf16, a, b, c); }

// ---- least and greatest. Flags: 1 greatest, 2 NaN wins, 4 xorsign.abs

template <typename T>
T extreme(T a, T b, std::uint32_t flags) {
  const bool sign = std::signbit(a) != std::signbit(b);
  if ((flags & 4) != 0) {
    a = std::fabs(a);
    b = std::fabs(b);
  }
  T result = a;
  if (std::isnan(a) || std::isnan(b)) {
    // The canonical NaN: all bits set except the sign.
    const T nan =
        sizeof(T) == 4 ? std::bit_cast<float>(0x7fffffffu) : static_cast<T>(std::bit_cast<double>(0x7fffffffffffffff));
    result = (flags & 2) != 0 || (std::isnan(a) && std::isnan(b)) ? nan : std::isnan(a) ? b : a;
  } else if (a == b) {
    const bool takes_a = std::signbit(a) == ((flags & 1) == 0);
    result = takes_a ? a : b;
  } else {
    result = (a < b) == ((flags & 1) == 0) ? a : b;
  }
  if ((flags & 4) != 0) result = std::copysign(result, sign ? T{-1} : T{1});
  return result;
}
float extreme_f32(float a, float b, std::uint32_t flags) { return extreme(a, b, flags); }
double extreme_f64(double a, double b, std::uint32_t flags) { return extreme(a, b, flags); }

// ---- sums and extremes of halves, for atomic operations

template <const Half& Format>
std::uint16_t add_half(std::uint16_t a, std::uint16_t b) {
  return encode_half(Format, decode_half(Format, a) + decode_half(Format, b), kNearest);
}
template <const Half& Format, std::uint32_t Flags>
std::uint16_t extreme_half(std::uint16_t a, std::uint16_t b) {
  return encode_half(Format, extreme(decode_half(Format, a), decode_half(Format, b), Flags), kNearest);
}
template <std::uint16_t (*Each)(std::uint16_t, std::uint16_t)>
std::uint32_t both(std::uint32_t a, std::uint32_t b) {
  const auto low = Each(static_cast<std::uint16_t>(a), static_cast<std::uint16_t>(b));
  const auto high = Each(static_cast<std::uint16_t>(a >> 16), static_cast<std::uint16_t>(b >> 16));
  return static_cast<std::uint32_t>(high) << 16 | low;
}

// ---- approximations

float rsqrt_f32(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
double rsqrt_f64(double x) { return 1.0 / std::sqrt(x); }
float sin_f32(float x) { return std::sin(x); }
float cos_f32(float x) { return std::cos(x); }
float lg2_f32(float x) { return std::log2(x); }
float ex2_f32(float x) { return std::exp2(x); }
float tanh_f32(float x) { return std::tanh(x); }

// 10 digits of the fraction. Mode: 0 nearest, ties away from zero; 1 nearest even; 2 toward zero.
std::uint32_t tf32(std::uint32_t bits, std::uint32_t mode) {
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fffffff;
  if ((bits & 0x7f800000) == 0x7f800000) return bits;
  const std::uint32_t added = mode == 0 ? 0x1000 : mode == 1 ? 0xfff + (bits >> 13 & 1) : 0;
  return (bits + added) & 0xffffe000;
}

// Called by LLVM on processors without instructions for halves.
float half_to_float(std::uint16_t bits) { return static_cast<float>(decode_half(kF16, bits)); }
std::uint16_t float_to_half(float value) { return encode_half(kF16, static_cast<double>(value), kNearest); }
std::uint16_t truncate_double(double value) { return encode_half(kF16, value, kNearest); }

template <typename Function>
void put(std::vector<Helper>* to, const char* name, Function* function) {
  to->push_back({name, reinterpret_cast<const void*>(function)});
}

}  // namespace

void add_float_helpers(std::vector<Helper>* to) {
  put(to, "ptx_add_f32", add<float>);
  put(to, "ptx_sub_f32", sub<float>);
  put(to, "ptx_mul_f32", mul<float>);
  put(to, "ptx_div_f32", div<float>);
  put(to, "ptx_add_f64", add<double>);
  put(to, "ptx_sub_f64", sub<double>);
  put(to, "ptx_mul_f64", mul<double>);
  put(to, "ptx_div_f64", div<double>);
  put(to, "ptx_sqrt_f32", sqrt_of<float>);
  put(to, "ptx_sqrt_f64", sqrt_of<double>);
  put(to, "ptx_fma_f32", fma_of<float>);
  put(to, "ptx_fma_f64", fma_of<double>);
  put(to, "ptx_double_to_f32", double_to_f32);
  put(to, "ptx_int_to_f32", int_to<float>);
  put(to, "ptx_int_to_f64", int_to<double>);
  put(to, "ptx_int_to_f16", int_to_f16);
  put(to, "ptx_int_to_bf16", int_to_bf16);
  put(to, "ptx_double_to_f16", double_to_f16);
  put(to, "ptx_double_to_bf16", double_to_bf16);
  put(to, "ptx_fma_f16", fma_f16);
  put(to, "ptx_fma_bf16", fma_bf16);
  put(to, "ptx_extreme_f32", extreme_f32);
  put(to, "ptx_extreme_f64", extreme_f64);
  put(to, "ptx_add_f16", add_half<kF16>);
  put(to, "ptx_add_bf16", add_half<kBf16>);
  put(to, "ptx_min_f16", extreme_half<kF16, 0>);
  put(to, "ptx_min_bf16", extreme_half<kBf16, 0>);
  put(to, "ptx_max_f16", extreme_half<kF16, 1>);
  put(to, "ptx_max_bf16", extreme_half<kBf16, 1>);
  put(to, "ptx_add_f16x2", both<add_half<kF16>>);
  put(to, "ptx_add_bf16x2", both<add_half<kBf16>>);
  put(to, "ptx_min_f16x2", both<extreme_half<kF16, 0>>);
  put(to, "ptx_min_bf16x2", both<extreme_half<kBf16, 0>>);
  put(to, "ptx_max_f16x2", both<extreme_half<kF16, 1>>);
  put(to, "ptx_max_bf16x2", both<extreme_half<kBf16, 1>>);
  put(to, "ptx_rsqrt_f32", rsqrt_f32);
  put(to, "ptx_rsqrt_f64", rsqrt_f64);
  put(to, "ptx_sin_f32", sin_f32);
  put(to, "ptx_cos_f32", cos_f32);
  put(to, "ptx_lg2_f32", lg2_f32);
  put(to, "ptx_ex2_f32", ex2_f32);
  put(to, "ptx_tanh_f32", tanh_f32);
  put(to, "ptx_tf32", tf32);
  put(to, "__gnu_h2f_ieee", half_to_float);
  put(to, "__gnu_f2h_ieee", float_to_half);
  put(to, "__truncdfhf2", truncate_double);
  put<float(float, float, float)>(to, "fmaf", std::fma);
  put<double(double, double, double)>(to, "fma", std::fma);
  put<float(float)>(to, "rintf", std::rint);
  put<double(double)>(to, "rint", std::rint);
  put<float(float)>(to, "truncf", std::trunc);
  put<double(double)>(to, "trunc", std::trunc);
  put<float(float)>(to, "floorf", std::floor);
  put<double(double)>(to, "floor", std::floor);
  put<float(float)>(to, "ceilf", std::ceil);
  put<double(double)>(to, "ceil", std::ceil);
}

}  // namespace simulator::ptx
