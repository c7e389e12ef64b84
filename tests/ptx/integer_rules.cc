// SPDX-License-Identifier: Apache-2.0
// Integers. Source: PTX ISA 9.0, 9.7.1.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "tests/ptx/rules.h"
#include "tests/ptx/values.h"

namespace ptx_test {
namespace {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

template <typename T>
constexpr Kind kind_of() {
  return sizeof(T) == 2 ? Kind::k16 : sizeof(T) == 4 ? Kind::k32 : Kind::k64;
}

template <typename T>
std::string type_name() {
  return (std::is_signed_v<T> ? ".s" : ".u") + std::to_string(8 * sizeof(T));
}

template <typename T>
Wide wide(std::uint64_t bits) {
  return static_cast<Wide>(value<T>(bits));
}

template <typename T>
std::uint64_t low(Wide value) {
  return bits(static_cast<T>(static_cast<UnsignedWide>(value)));
}

// The upper half of a product; 64 x 64 bits fit, also unsigned.
template <typename T>
std::uint64_t upper(std::uint64_t a, std::uint64_t b) {
  if constexpr (std::is_signed_v<T>) return low<T>(wide<T>(a) * wide<T>(b) >> 8 * sizeof(T));
  const UnsignedWide all = static_cast<UnsignedWide>(value<T>(a)) * value<T>(b);
  return bits(static_cast<T>(all >> 8 * sizeof(T)));
}

template <typename T>
T quotient(std::uint64_t x, std::uint64_t y, bool remainder) {
  const T a = value<T>(x), b = value<T>(y);
  if (b == 0) return remainder ? a : static_cast<T>(-1);  // as observed on CUDA devices
  return static_cast<T>(remainder ? wide<T>(x) % wide<T>(y) : wide<T>(x) / wide<T>(y));
}

template <typename T, typename Double>
void add_products(std::vector<Rule>* to) {
  const Kind kind = kind_of<T>();
  const std::string type = type_name<T>();
  const auto multiply = [](const std::uint64_t* v) { return low<Double>(wide<T>(v[0]) * wide<T>(v[1])); };
  to->push_back({"mul.wide" + type, kind_of<Double>(), {kind, kind}, multiply});
  to->push_back({"mad.wide" + type, kind_of<Double>(), {kind, kind, kind_of<Double>()}, [](const std::uint64_t* v) {
                   return low<Double>(wide<T>(v[0]) * wide<T>(v[1]) + wide<Double>(v[2]));
                 }});
}

template <typename T>
void add_type(std::vector<Rule>* to) {
  const Kind kind = kind_of<T>();
  const std::string type = type_name<T>();
  const auto add = [&](const std::string& name, std::size_t count,
                       std::function<std::uint64_t(const std::uint64_t*)> compute) {
    to->push_back({name + type, kind, std::vector<Kind>(count, kind), std::move(compute)});
  };
  using V = const std::uint64_t*;
  add("add", 2, [](V v) { return low<T>(wide<T>(v[0]) + wide<T>(v[1])); });
  add("sub", 2, [](V v) { return low<T>(wide<T>(v[0]) - wide<T>(v[1])); });
  add("mul.lo", 2, [](V v) { return bits(static_cast<T>(v[0] * v[1])); });
  add("mul.hi", 2, [](V v) { return upper<T>(v[0], v[1]); });
  add("mad.lo", 3, [](V v) { return bits(static_cast<T>(v[0] * v[1] + v[2])); });
  add("mad.hi", 3, [](V v) { return low<T>(wide<T>(upper<T>(v[0], v[1])) + wide<T>(v[2])); });
  add("div", 2, [](V v) { return bits(quotient<T>(v[0], v[1], false)); });
  add("rem", 2, [](V v) { return bits(quotient<T>(v[0], v[1], true)); });
  add("min", 2, [](V v) { return bits(std::min(value<T>(v[0]), value<T>(v[1]))); });
  add("max", 2, [](V v) { return bits(std::max(value<T>(v[0]), value<T>(v[1]))); });
  add("sad", 3, [](V v) {
    const Wide difference = wide<T>(v[0]) - wide<T>(v[1]);
    return low<T>(wide<T>(v[2]) + (difference < 0 ? -difference : difference));
  });
  if constexpr (std::is_signed_v<T>) {
    add("abs", 1, [](V v) { return low<T>(wide<T>(v[0]) < 0 ? -wide<T>(v[0]) : wide<T>(v[0])); });
    add("neg", 1, [](V v) { return low<T>(-wide<T>(v[0])); });
  }
}

std::uint64_t saturated(Wide sum) {
  using Limits = std::numeric_limits<std::int32_t>;
  return low<std::int32_t>(std::clamp<Wide>(sum, Limits::min(), Limits::max()));
}

// The lower 24 bits, signed or unsigned.
Wide of_24(std::uint64_t bits, bool is_signed) {
  const auto kept = static_cast<std::int64_t>(bits & 0xffffff);
  return is_signed && kept >= 0x800000 ? kept - 0x1000000 : kept;
}

void add_24(std::vector<Rule>* to, bool is_signed) {
  const std::string type = is_signed ? ".s32" : ".u32";
  for (const bool high : {false, true}) {
    const auto product = [=](const std::uint64_t* v) {
      return of_24(v[0], is_signed) * of_24(v[1], is_signed) >> (high ? 16 : 0);
    };
    const std::string part = high ? ".hi" : ".lo";
    to->push_back({"mul24" + part + type, Kind::k32, {Kind::k32, Kind::k32}, [=](const std::uint64_t* v) {
                     return low<std::uint32_t>(product(v));
                   }});
    to->push_back({"mad24" + part + type, Kind::k32, {Kind::k32, Kind::k32, Kind::k32}, [=](const std::uint64_t* v) {
                     return low<std::uint32_t>(product(v) + static_cast<Wide>(v[2]));
                   }});
  }
}

// Part `index` of the word, with `width` bits.
Wide part(std::uint64_t word, unsigned index, unsigned width, bool is_signed) {
  const auto kept = static_cast<std::int64_t>(word >> index * width & ((1u << width) - 1));
  return is_signed && kept >> (width - 1) != 0 ? kept - (std::int64_t{1} << width) : kept;
}

void add_dots(std::vector<Rule>* to) {
  const std::vector<Kind> three(3, Kind::k32);
  for (const bool a_signed : {false, true}) {
    for (const bool b_signed : {false, true}) {
      const std::string types = std::string(a_signed ? ".s32" : ".u32") + (b_signed ? ".s32" : ".u32");
      to->push_back({"dp4a" + types, Kind::k32, three, [=](const std::uint64_t* v) {
                       auto sum = static_cast<Wide>(v[2]);
                       for (unsigned i = 0; i < 4; ++i) sum += part(v[0], i, 8, a_signed) * part(v[1], i, 8, b_signed);
                       return low<std::uint32_t>(sum);
                     }});
      for (const bool high : {false, true}) {
        to->push_back(
            {std::string("dp2a") + (high ? ".hi" : ".lo") + types, Kind::k32, three, [=](const std::uint64_t* v) {
               auto sum = static_cast<Wide>(v[2]);
               for (unsigned i = 0; i < 2; ++i)
                 sum += part(v[0], i, 16, a_signed) * part(v[1], i + (high ? 2 : 0), 8, b_signed);
               return low<std::uint32_t>(sum);
             }});
      }
    }
  }
}

template <typename T>
void add_pairs(std::vector<Rule>* to) {
  const std::string type = std::is_signed_v<T> ? ".s16x2" : ".u16x2";
  const auto each = [](auto compute) {
    return [=](const std::uint64_t* v) {
      std::uint64_t result = 0;
      for (unsigned i = 0; i < 2; ++i)
        result |= bits(static_cast<T>(compute(value<T>(v[0] >> 16 * i), value<T>(v[1] >> 16 * i)))) << 16 * i;
      return result;
    };
  };
  const std::vector<Kind> two(2, Kind::k32);
  to->push_back({"add" + type, Kind::k32, two, each([](T a, T b) { return a + b; })});
  to->push_back({"min" + type, Kind::k32, two, each([](T a, T b) { return std::min(a, b); })});
  to->push_back({"max" + type, Kind::k32, two, each([](T a, T b) { return std::max(a, b); })});
  if constexpr (std::is_signed_v<T>) {
    to->push_back({"min.s16x2.relu", Kind::k32, two, each([](T a, T b) { return std::max<T>(std::min(a, b), 0); })});
    to->push_back({"max.s16x2.relu", Kind::k32, two, each([](T a, T b) { return std::max<T>(std::max(a, b), 0); })});
  }
}

}  // namespace

void add_integer_rules(std::vector<Rule>* to) {
  add_type<std::uint16_t>(to);
  add_type<std::int16_t>(to);
  add_type<std::uint32_t>(to);
  add_type<std::int32_t>(to);
  add_type<std::uint64_t>(to);
  add_type<std::int64_t>(to);
  add_products<std::uint16_t, std::uint32_t>(to);
  add_products<std::int16_t, std::int32_t>(to);
  add_products<std::uint32_t, std::uint64_t>(to);
  add_products<std::int32_t, std::int64_t>(to);
  using V = const std::uint64_t*;
  using S = std::int32_t;
  const std::vector<Kind> two(2, Kind::k32), three(3, Kind::k32);
  to->push_back({"add.sat.s32", Kind::k32, two, [](V v) { return saturated(wide<S>(v[0]) + wide<S>(v[1])); }});
  to->push_back({"sub.sat.s32", Kind::k32, two, [](V v) { return saturated(wide<S>(v[0]) - wide<S>(v[1])); }});
  to->push_back({"mad.hi.sat.s32", Kind::k32, three,
                 [](V v) { return saturated(wide<S>(upper<S>(v[0], v[1])) + wide<S>(v[2])); }});
  add_24(to, false);
  add_24(to, true);
  add_dots(to);
  add_pairs<std::uint16_t>(to);
  add_pairs<std::int16_t>(to);
}

}  // namespace ptx_test
