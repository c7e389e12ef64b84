// SPDX-License-Identifier: Apache-2.0
// Floating-point formats of 4 to 8 bits. All of their values are doubles. Source: OCP 8-bit Floating Point (OFP8) and
// Microscaling Formats (MX), version 1.0; PTX ISA 9.0, 5.2.3.
#pragma once

#include <cstdint>

namespace simulator::ptx {

enum class SmallFloat : std::uint8_t { kE4m3, kE5m2, kE3m2, kE2m3, kE2m1, kUe8m0 };

// `code` has the format's bits in the lowest places.
double decode_small(SmallFloat format, std::uint8_t code);

// Rounds to nearest even; kUe8m0 toward zero, or up. A number that is too large becomes the largest finite one. NaN
// becomes the format's NaN, or its largest number if it has none. kUe8m0 has no sign: the magnitude is encoded.
std::uint8_t encode_small(SmallFloat format, double value, bool up);

}  // namespace simulator::ptx
