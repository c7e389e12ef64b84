// SPDX-License-Identifier: Apache-2.0
// Bit operations that are rare enough to be function calls. Source: the pseudo-code of PTX ISA 9.0, 9.7.1.
#include <algorithm>
#include <cstdint>

#include "simulator/ptx/helpers.h"

namespace simulator::ptx {
namespace {

std::uint64_t bfe(std::uint64_t value, std::uint32_t position, std::uint32_t length, std::uint32_t bits,
                  std::uint32_t is_signed) {
  const std::uint32_t at = position & 255, count = length & 255, top = bits - 1;
  const bool takes_sign = is_signed != 0 && count != 0;
  const std::uint64_t sign = takes_sign ? value >> std::min(at + count - 1, top) & 1 : 0;
  std::uint64_t result = 0;
  for (std::uint32_t i = 0; i <= top; ++i) {
    const std::uint64_t bit = i < count && at + i <= top ? value >> (at + i) & 1 : sign;
    result |= bit << i;
  }
  return result;
}

std::uint64_t bfi(std::uint64_t from, std::uint64_t into, std::uint32_t position, std::uint32_t length,
                  std::uint32_t bits) {
  const std::uint32_t at = position & 255, count = length & 255;
  std::uint64_t result = into;
  for (std::uint32_t i = 0; i < count && at + i < bits; ++i) {
    result &= ~(std::uint64_t{1} << (at + i));
    result |= (from >> i & 1) << (at + i);
  }
  return result;
}

std::uint32_t bmsk(std::uint32_t position, std::uint32_t width, std::uint32_t wraps) {
  if (wraps != 0) {
    position &= 31;
    width &= 31;
  }
  const std::uint64_t ones = width >= 32 ? 0xffffffffu : (std::uint64_t{1} << width) - 1;
  return position >= 32 ? 0 : static_cast<std::uint32_t>(ones << position);
}

std::uint32_t szext(std::uint32_t value, std::uint32_t width, std::uint32_t wraps, std::uint32_t is_signed) {
  if (wraps != 0) width &= 31;
  if (width >= 32) return value;
  if (width == 0) return 0;
  const std::uint32_t kept = value & ((1u << width) - 1);
  const bool negative = is_signed != 0 && (kept >> (width - 1) & 1) != 0;
  return negative ? kept | ~((1u << width) - 1) : kept;
}

std::uint32_t fns(std::uint32_t mask, std::uint32_t base, std::int32_t offset) {
  base &= 31;
  if (offset == 0) return (mask >> base & 1) != 0 ? base : ~0u;
  const std::int32_t step = offset > 0 ? 1 : -1;
  std::int32_t left = offset > 0 ? offset : -offset;
  for (auto at = static_cast<std::int32_t>(base); at >= 0 && at < 32; at += step) {
    if ((mask >> at & 1) != 0 && --left == 0) return static_cast<std::uint32_t>(at);
  }
  return ~0u;
}

std::uint32_t prmt(std::uint32_t a, std::uint32_t b, std::uint32_t selector, std::uint32_t mode) {
  const std::uint64_t both = static_cast<std::uint64_t>(b) << 32 | a;
  const std::uint32_t s = selector & 3;
  std::uint32_t result = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    std::uint32_t pick = selector >> (4 * i) & 15;
    const std::uint32_t picks[] = {pick,           s + i,          (s + 8 - i) & 7,      s,
                                   std::max(i, s), std::min(i, s), (s & 1) * 2 + (i & 1)};
    pick = picks[mode];
    auto byte = static_cast<std::uint32_t>(both >> (8 * (pick & 7)) & 255);
    if (mode == 0 && (pick & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}

}  // namespace

void add_bit_helpers(std::vector<Helper>* to) {
  to->push_back({"ptx_bfe", reinterpret_cast<const void*>(bfe)});
  to->push_back({"ptx_bfi", reinterpret_cast<const void*>(bfi)});
  to->push_back({"ptx_bmsk", reinterpret_cast<const void*>(bmsk)});
  to->push_back({"ptx_szext", reinterpret_cast<const void*>(szext)});
  to->push_back({"ptx_fns", reinterpret_cast<const void*>(fns)});
  to->push_back({"ptx_prmt", reinterpret_cast<const void*>(prmt)});
}

}  // namespace simulator::ptx
