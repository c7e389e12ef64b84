// SPDX-License-Identifier: Apache-2.0
// Bits: logic, shifts, fields, permutations. Source: PTX ISA 9.0, 9.7.1, 9.7.8.
#include <algorithm>

#include "tests/ptx/rules.h"
#include "tests/ptx/values.h"

namespace ptx_test {
namespace {

using V = const std::uint64_t*;

std::uint64_t mask(unsigned width) { return width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1; }
bool bit(std::uint64_t word, unsigned index) { return (word >> index & 1) != 0; }
std::int64_t with_sign(std::uint64_t word, unsigned width) {
  return bit(word, width - 1) ? static_cast<std::int64_t>(word | ~mask(width)) : static_cast<std::int64_t>(word);
}

void add_logic(std::vector<Rule>* to, unsigned width, Kind kind) {
  const std::string type = ".b" + std::to_string(width);
  const std::uint64_t all = mask(width);
  const std::vector<Kind> two(2, kind);
  to->push_back({"and" + type, kind, two, [](V v) { return v[0] & v[1]; }});
  to->push_back({"or" + type, kind, two, [](V v) { return v[0] | v[1]; }});
  to->push_back({"xor" + type, kind, two, [](V v) { return v[0] ^ v[1]; }});
  to->push_back({"not" + type, kind, {kind}, [=](V v) { return ~v[0] & all; }});
  to->push_back({"cnot" + type, kind, {kind}, [](V v) { return std::uint64_t{v[0] == 0}; }});
  to->push_back({"shl" + type, kind, {kind, Kind::k32}, [=](V v) { return v[1] >= width ? 0 : v[0] << v[1] & all; }});
  for (const char* name : {"b", "u"}) {
    to->push_back({"shr." + std::string(name) + std::to_string(width), kind, {kind, Kind::k32}, [=](V v) {
                     return v[1] >= width ? 0 : v[0] >> v[1];
                   }});
  }
  to->push_back({"shr.s" + std::to_string(width), kind, {kind, Kind::k32}, [=](V v) {
                   const std::uint64_t by = std::min<std::uint64_t>(v[1], width - 1);
                   return static_cast<std::uint64_t>(with_sign(v[0], width) >> by) & all;
                 }});
}

// d[i] for i from 0 on, as in the ISA's pseudo-code.
std::uint64_t field(std::uint64_t a, std::uint64_t position, std::uint64_t length, unsigned width, bool is_signed) {
  const std::uint64_t pos = position & 255, len = length & 255, top = width - 1;
  const bool sign = is_signed && len != 0 && bit(a, static_cast<unsigned>(std::min(pos + len - 1, top)));
  std::uint64_t d = 0;
  for (unsigned i = 0; i < width; ++i) {
    const bool one = i < len && pos + i <= top ? bit(a, static_cast<unsigned>(pos + i)) : sign;
    d |= std::uint64_t{one} << i;
  }
  return d;
}

std::uint64_t inserted(std::uint64_t a, std::uint64_t b, std::uint64_t position, std::uint64_t length, unsigned width) {
  const std::uint64_t pos = position & 255, len = length & 255;
  std::uint64_t f = b;
  for (std::uint64_t i = 0; i < len && pos + i < width; ++i)
    f = (f & ~(std::uint64_t{1} << (pos + i))) | std::uint64_t{bit(a, static_cast<unsigned>(i))} << (pos + i);
  return f;
}

// The number of the highest bit that differs from the sign.
std::uint64_t found(std::uint64_t a, unsigned width, bool is_signed, bool as_shift) {
  if (is_signed && bit(a, width - 1)) a = ~a & mask(width);
  for (unsigned i = width; i-- > 0;) {
    if (bit(a, i)) return as_shift ? width - 1 - i : i;
  }
  return 0xffffffff;
}

void add_fields(std::vector<Rule>* to, unsigned width, Kind kind) {
  const std::string size = std::to_string(width);
  to->push_back({"popc.b" + size, Kind::k32, {kind}, [](V v) {
                   std::uint64_t count = 0;
                   for (unsigned i = 0; i < 64; ++i) count += bit(v[0], i) ? 1 : 0;
                   return count;
                 }});
  to->push_back({"clz.b" + size, Kind::k32, {kind}, [=](V v) {
                   std::uint64_t count = 0;
                   while (count < width && !bit(v[0], width - 1 - static_cast<unsigned>(count))) ++count;
                   return count;
                 }});
  to->push_back({"brev.b" + size, kind, {kind}, [=](V v) {
                   std::uint64_t result = 0;
                   for (unsigned i = 0; i < width; ++i) result |= std::uint64_t{bit(v[0], i)} << (width - 1 - i);
                   return result;
                 }});
  for (const bool is_signed : {false, true}) {
    const std::string type = (is_signed ? ".s" : ".u") + size;
    to->push_back({"bfe" + type, kind, {kind, Kind::k32, Kind::k32}, [=](V v) {
                     return field(v[0], v[1], v[2], width, is_signed);
                   }});
    to->push_back({"bfind" + type, Kind::k32, {kind}, [=](V v) { return found(v[0], width, is_signed, false); }});
    to->push_back(
        {"bfind.shiftamt" + type, Kind::k32, {kind}, [=](V v) { return found(v[0], width, is_signed, true); }});
  }
  to->push_back({"bfi.b" + size, kind, {kind, kind, Kind::k32, Kind::k32}, [=](V v) {
                   return inserted(v[0], v[1], v[2], v[3], width);
                 }});
}

std::uint64_t permuted(std::uint64_t a, std::uint64_t b, std::uint64_t selector, const std::string& mode) {
  const std::uint64_t both = a | b << 32;
  const auto byte = [&](std::uint64_t index) { return both >> 8 * index & 255; };
  std::uint64_t result = 0;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::uint64_t s = selector & 3;
    std::uint64_t picked = 0;
    if (mode.empty()) {
      const std::uint64_t pick = selector >> 4 * i & 15;
      picked = byte(pick & 7);
      if ((pick & 8) != 0) picked = (picked & 128) != 0 ? 255 : 0;
    } else if (mode == ".f4e") {
      picked = byte(s + i);
    } else if (mode == ".b4e") {
      picked = byte((s - i) & 7);
    } else if (mode == ".rc8") {
      picked = byte(s);
    } else if (mode == ".ecl") {
      picked = byte(std::max(i, s));
    } else if (mode == ".ecr") {
      picked = byte(std::min(i, s));
    } else {
      picked = byte((s & 1) * 2 + i % 2);
    }
    result |= picked << 8 * i;
  }
  return result;
}

std::uint64_t shifted(std::uint64_t a, std::uint64_t b, std::uint64_t by, bool left, bool wraps) {
  const std::uint64_t n = wraps ? by & 31 : std::min<std::uint64_t>(by, 32);
  const std::uint64_t both = b << 32 | a;
  return (left ? both << n >> 32 : both >> n) & 0xffffffff;
}

std::uint64_t next_set(std::uint64_t m, std::uint64_t base, std::uint64_t offset) {
  auto left = static_cast<std::int32_t>(offset);
  auto at = static_cast<std::int32_t>(base & 31);
  if (left == 0) return bit(m, static_cast<unsigned>(at)) ? static_cast<std::uint64_t>(at) : 0xffffffff;
  const std::int32_t step = left > 0 ? 1 : -1;
  std::int64_t count = left > 0 ? left : -std::int64_t{left};
  for (; at >= 0 && at < 32; at += step) {
    if (bit(m, static_cast<unsigned>(at)) && --count == 0) return static_cast<std::uint64_t>(at);
  }
  return 0xffffffff;
}

}  // namespace

void add_bit_rules(std::vector<Rule>* to) {
  add_logic(to, 16, Kind::k16);
  add_logic(to, 32, Kind::k32);
  add_logic(to, 64, Kind::k64);
  add_fields(to, 32, Kind::k32);
  add_fields(to, 64, Kind::k64);
  const std::vector<Kind> two(2, Kind::k32), three(3, Kind::k32);
  for (const bool left : {true, false}) {
    for (const bool wraps : {true, false}) {
      to->push_back({std::string("shf") + (left ? ".l" : ".r") + (wraps ? ".wrap" : ".clamp") + ".b32", Kind::k32,
                     three, [=](V v) { return shifted(v[0], v[1], v[2], left, wraps); }});
    }
  }
  for (const unsigned table : {0x00u, 0x80u, 0x96u, 0xcau, 0xe8u, 0x1bu, 0xffu}) {
    to->push_back({"lop3.b32", Kind::k32, three,
                   [=](V v) {
                     std::uint64_t result = 0;
                     for (unsigned i = 0; i < 32; ++i) {
                       const unsigned row =
                           (bit(v[0], i) ? 4u : 0u) + (bit(v[1], i) ? 2u : 0u) + (bit(v[2], i) ? 1u : 0u);
                       result |= std::uint64_t{(table >> row & 1) != 0} << i;
                     }
                     return result;
                   },
                   Closeness::kExact, HalfFormat::kNone, ", " + std::to_string(table)});
  }
  for (const std::string mode : {"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"}) {
    to->push_back({"prmt.b32" + mode, Kind::k32, three, [=](V v) { return permuted(v[0], v[1], v[2], mode); }});
  }
  to->push_back({"fns.b32", Kind::k32, three, [](V v) { return next_set(v[0], v[1], v[2]); }});
  for (const bool wraps : {true, false}) {
    const std::string how = wraps ? ".wrap" : ".clamp";
    to->push_back({"bmsk" + how + ".b32", Kind::k32, two, [=](V v) {
                     const std::uint64_t at = wraps ? v[0] & 31 : v[0], width = wraps ? v[1] & 31 : v[1];
                     std::uint64_t result = 0;
                     for (std::uint64_t i = 0; i < 32; ++i) result |= std::uint64_t{i >= at && i - at < width} << i;
                     return result;
                   }});
    for (const bool is_signed : {true, false}) {
      to->push_back({"szext" + how + (is_signed ? ".s32" : ".u32"), Kind::k32, two, [=](V v) {
                       const std::uint64_t width = wraps ? v[1] & 31 : std::min<std::uint64_t>(v[1], 32);
                       if (width == 0) return std::uint64_t{0};
                       const std::uint64_t kept = v[0] & mask(static_cast<unsigned>(width));
                       const bool sign = is_signed && bit(kept, static_cast<unsigned>(width) - 1);
                       return (sign ? kept | ~mask(static_cast<unsigned>(width)) : kept) & 0xffffffff;
                     }});
    }
  }
}

}  // namespace ptx_test
