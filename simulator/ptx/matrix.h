// SPDX-License-Identifier: Apache-2.0
// Matrices that are distributed over the lanes of a warp: mma, wmma, ldmatrix, stmatrix. Generated code passes a number
// that describes the operation, and each lane's words.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simulator::ptx {

enum class Element : std::uint8_t { kF16, kBf16, kTf32, kF32, kF64, kS8, kU8, kS4, kU4, kB1, kS32, kE4m3, kE5m2 };

constexpr unsigned bits_of(Element element) {
  switch (element) {
    case Element::kF64:
      return 64;
    case Element::kTf32:
    case Element::kF32:
    case Element::kS32:
      return 32;
    case Element::kF16:
    case Element::kBf16:
      return 16;
    case Element::kS4:
    case Element::kU4:
      return 4;
    case Element::kB1:
      return 1;
    default:
      return 8;
  }
}

// One of the matrices A (m rows, k columns), B (k, n), C and D (m, n).
struct Fragment {
  Element element = Element::kF32;
  unsigned registers = 0;  // of 32 bits, or of 64 for 64-bit elements

  unsigned words() const { return registers * (bits_of(element) == 64 ? 2 : 1); }
  // Number of elements in all of a lane's registers.
  unsigned capacity() const { return words() * 32 / bits_of(element); }
};

struct MatrixShape {
  unsigned m = 0, n = 0, k = 0;
  Fragment a, b, c, d;
  bool is_wmma = false;  // the distribution over lanes is implementation-defined
  bool saturates = false;
  char bits = 0;  // of .b1: '^' or '&'

  std::uint64_t packed() const;
  static MatrixShape unpacked(std::uint64_t from);
};

// Positions in the lane's words.
inline constexpr unsigned kWordsOfA = 0, kWordsOfB = 16, kWordsOfC = 32, kWordsOfD = 48, kWordsOfLane = 64;

// For wmma: the element of a matrix with `elements` elements that a lane's slot holds. Lanes hold consecutive runs of
// the rows; if there are more slots than elements, the sequence repeats.
constexpr unsigned wmma_element(unsigned elements, unsigned lane, unsigned slot) {
  const unsigned each = elements / 32;
  return lane * each + slot % each;
}

// d = a * b + c. A lane that takes no part is nullptr and counts as zero.
void multiply(const MatrixShape& shape, std::uint32_t* const (&lanes)[32]);

// ldmatrix and stmatrix: 1, 2 or 4 matrices of 8 x 8 halves. Words 0 and 1: the address of the lane's row; from
// kWordsOfD on: the lane's registers.
struct Rows {
  unsigned matrices = 1;
  bool transposes = false;
  bool stores = false;

  std::uint64_t packed() const { return matrices | (transposes ? 8u : 0u) | (stores ? 16u : 0u); }
  static Rows unpacked(std::uint64_t from) {
    return {static_cast<unsigned>(from & 7), (from & 8) != 0, (from & 16) != 0};
  }
};
void move_rows(const Rows& rows, std::uint32_t* const (&lanes)[32]);

}  // namespace simulator::ptx
