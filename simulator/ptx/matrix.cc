// SPDX-License-Identifier: Apache-2.0
// Products of matrices. Products of halves and smaller types are exact; their sums are computed in double precision and
// rounded once; those of doubles are a chain of fma. Devices sum with at least single precision in an undocumented
// order. Source of the layouts: PTX ISA 9.0, 9.7.14 ("Matrix Fragments for mma...").
#include "simulator/ptx/matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "simulator/ptx/halves.h"
#include "simulator/ptx/small_floats.h"

namespace simulator::ptx {
namespace {

constexpr unsigned kLanes = 32;

// A table of all values of half precision, because a product decodes many of them.
const std::vector<float>& halves() {
  static const auto& all = *new std::vector<float>([] {
    std::vector<float> values(65536);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(decode_half(kF16, static_cast<std::uint16_t>(i)));
    return values;
  }());
  return all;
}

// Element `slot` of the words.
double decode(Element element, const std::uint32_t* words, unsigned slot) {
  const unsigned bits = bits_of(element);
  if (bits == 64) {
    double value = 0;
    std::memcpy(&value, words + std::size_t{2} * slot, sizeof value);
    return value;
  }
  const unsigned of_word = 32 / bits;
  const std::uint32_t raw = words[slot / of_word] >> (slot % of_word * bits);
  switch (element) {
    case Element::kF16:
      return static_cast<double>(halves()[raw & 0xffff]);
    case Element::kBf16:
      return static_cast<double>(std::bit_cast<float>(raw << 16));
    case Element::kTf32:
      return static_cast<double>(std::bit_cast<float>(raw & 0xffffe000));
    case Element::kF32:
      return static_cast<double>(std::bit_cast<float>(raw));
    case Element::kS32:
      return static_cast<std::int32_t>(raw);
    case Element::kS8:
      return static_cast<std::int8_t>(raw);
    case Element::kU8:
      return static_cast<std::uint8_t>(raw);
    case Element::kS4:
      return static_cast<std::int32_t>(raw << 28) >> 28;
    case Element::kU4:
      return raw & 15;
    case Element::kE4m3:
      return decode_small(SmallFloat::kE4m3, static_cast<std::uint8_t>(raw));
    case Element::kE5m2:
      return decode_small(SmallFloat::kE5m2, static_cast<std::uint8_t>(raw));
    default:
      return raw & 1;
  }
}

void encode(const MatrixShape& shape, double value, std::uint32_t* words, unsigned slot) {
  switch (shape.d.element) {
    case Element::kF64:
      std::memcpy(words + std::size_t{2} * slot, &value, sizeof value);
      return;
    case Element::kF16: {
      auto* const halves = reinterpret_cast<std::uint16_t*>(words);
      halves[slot] = encode_half(kF16, value, 0);
      return;
    }
    case Element::kS32: {
      // The sum is exact: less than 2^53.
      auto whole = static_cast<std::int64_t>(value);
      using Limits = std::numeric_limits<std::int32_t>;
      if (shape.saturates) whole = std::clamp<std::int64_t>(whole, Limits::min(), Limits::max());
      words[slot] = static_cast<std::uint32_t>(whole);
      return;
    }
    default:
      words[slot] = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }
}

enum class Part { kA, kB, kC };

// Row and column of the element in a lane's slot.
struct At {
  unsigned row = 0, column = 0;
};

At place(const MatrixShape& shape, Part part, unsigned lane, unsigned slot, const Fragment& fragment) {
  const unsigned columns = part == Part::kA ? shape.k : shape.n;
  if (shape.is_wmma) {
    const unsigned rows = part == Part::kB ? shape.k : shape.m;
    const unsigned element = wmma_element(rows * columns, lane, slot);
    return {element / columns, element % columns};
  }
  const unsigned group = lane / 4, within = lane % 4;
  if (part == Part::kC) return {group + 8 * (slot / 2), within * 2 + slot % 2};
  const unsigned of_register = std::max(32 / bits_of(fragment.element), 1u);
  const unsigned index = slot / of_register, inner = within * of_register + slot % of_register;
  if (part == Part::kB) return {inner + index * 4 * of_register, group};
  if (shape.m == 8) return {group, inner + index * 4 * of_register};
  return {group + 8 * (index % 2), inner + index / 2 * 4 * of_register};
}

void gather(const MatrixShape& shape, Part part, const Fragment& fragment, unsigned from,
            std::uint32_t* const (&lanes)[kLanes], std::vector<double>* out) {
  const unsigned columns = part == Part::kA ? shape.k : shape.n;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (lanes[lane] == nullptr) continue;
    for (unsigned slot = 0; slot < fragment.capacity(); ++slot) {
      const At at = place(shape, part, lane, slot, fragment);
      (*out)[std::size_t{at.row} * columns + at.column] = decode(fragment.element, lanes[lane] + from, slot);
    }
  }
}

// One row of D: columns in parallel, which compilers vectorize.
void multiply_row(const MatrixShape& shape, const double* a, const double* b, double* sums) {
  if (shape.d.element == Element::kF64) {
    for (unsigned k = 0; k < shape.k; ++k) {
      for (unsigned n = 0; n < shape.n; ++n) sums[n] = std::fma(a[k], b[std::size_t{k} * shape.n + n], sums[n]);
    }
    return;
  }
  if (shape.bits == '^') {
    for (unsigned k = 0; k < shape.k; ++k) {
      for (unsigned n = 0; n < shape.n; ++n) sums[n] += a[k] != b[std::size_t{k} * shape.n + n] ? 1 : 0;
    }
    return;
  }
  for (unsigned k = 0; k < shape.k; ++k) {
    for (unsigned n = 0; n < shape.n; ++n) sums[n] += a[k] * b[std::size_t{k} * shape.n + n];
  }
}

}  // namespace

std::uint64_t MatrixShape::packed() const {
  const auto number = [](Element element) { return static_cast<std::uint64_t>(element); };
  return std::uint64_t{m} | std::uint64_t{n} << 6 | std::uint64_t{k} << 12 | number(a.element) << 21 |
         number(b.element) << 25 | number(c.element) << 29 | number(d.element) << 33 |
         std::uint64_t{a.registers} << 37 | std::uint64_t{b.registers} << 41 | std::uint64_t{c.registers} << 45 |
         std::uint64_t{d.registers} << 49 | std::uint64_t{is_wmma} << 53 | std::uint64_t{saturates} << 54 |
         std::uint64_t{bits == '^'} << 55;
}

MatrixShape MatrixShape::unpacked(std::uint64_t from) {
  const auto part = [&](unsigned at, unsigned bits) {
    return static_cast<unsigned>(from >> at & ((std::uint64_t{1} << bits) - 1));
  };
  const auto fragment = [&](unsigned element, unsigned registers) {
    return Fragment{static_cast<Element>(part(element, 4)), part(registers, 4)};
  };
  MatrixShape shape;
  shape.m = part(0, 6);
  shape.n = part(6, 6);
  shape.k = part(12, 9);
  shape.a = fragment(21, 37);
  shape.b = fragment(25, 41);
  shape.c = fragment(29, 45);
  shape.d = fragment(33, 49);
  shape.is_wmma = part(53, 1) != 0;
  shape.saturates = part(54, 1) != 0;
  shape.bits = part(55, 1) != 0 ? '^' : '\0';
  return shape;
}

void multiply(const MatrixShape& shape, std::uint32_t* const (&lanes)[kLanes]) {
  std::vector<double> a(std::size_t{shape.m} * shape.k), b(std::size_t{shape.k} * shape.n),
      sums(std::size_t{shape.m} * shape.n);
  gather(shape, Part::kA, shape.a, kWordsOfA, lanes, &a);
  gather(shape, Part::kB, shape.b, kWordsOfB, lanes, &b);
  gather(shape, Part::kC, shape.c, kWordsOfC, lanes, &sums);
  for (unsigned row = 0; row < shape.m; ++row)
    multiply_row(shape, &a[std::size_t{row} * shape.k], b.data(), &sums[std::size_t{row} * shape.n]);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (lanes[lane] == nullptr) continue;
    for (unsigned slot = 0; slot < shape.d.capacity(); ++slot) {
      const At at = place(shape, Part::kC, lane, slot, shape.d);
      encode(shape, sums[std::size_t{at.row} * shape.n + at.column], lanes[lane] + kWordsOfD, slot);
    }
  }
}

void move_rows(const Rows& rows, std::uint32_t* const (&lanes)[kLanes]) {
  for (unsigned matrix = 0; matrix < rows.matrices; ++matrix) {
    std::uint16_t* starts[8] = {};
    for (unsigned row = 0; row < 8; ++row) {
      const std::uint32_t* const words = lanes[8 * matrix + row];
      if (words == nullptr) continue;
      std::uint64_t address = 0;
      std::memcpy(&address, words, sizeof address);
      starts[row] = reinterpret_cast<std::uint16_t*>(address);
    }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if (lanes[lane] == nullptr) continue;
      auto* const halves = reinterpret_cast<std::uint16_t*>(lanes[lane] + kWordsOfD + matrix);
      for (unsigned half = 0; half < 2; ++half) {
        const unsigned outer = lane / 4, inner = lane % 4 * 2 + half;
        const unsigned row = rows.transposes ? inner : outer, column = rows.transposes ? outer : inner;
        if (starts[row] == nullptr) continue;
        if (rows.stores) {
          starts[row][column] = halves[half];
        } else {
          halves[half] = starts[row][column];
        }
      }
    }
  }
}

}  // namespace simulator::ptx
