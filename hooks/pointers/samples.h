// SPDX-License-Identifier: Apache-2.0
// Which parts of a large upload are looked at first with safety = trusting. Reading all of it takes several times as long as its
// copy (5 GB/s of memory that a copy has just written, on the machine of an H200 whose link carries 55), and what programs
// upload in such pieces is mostly weights, batches and what was offloaded. A sixteenth, the beginning and the end find tables
// that are dense; a few pointers amid other data may be missed, so without that promise everything is read.
#pragma once

#include <algorithm>

#include "driver/units.h"

namespace thermocline {

// Smaller uploads are always searched whole.
inline constexpr Bytes kLeastSampledBytes = 4 * kMiB;
inline constexpr Bytes kSampleBytes = 4096;
inline constexpr Bytes kSampleEvery = 16 * kSampleBytes;

// Calls look(offset, bytes) for the beginning, every sixteenth piece, and the end, until it returns true. Returns whether it did.
template <class Look>
bool any_sample(Bytes bytes, Look look) {
  if (look(Bytes{0}, std::min(bytes, kSampleEvery))) return true;
  for (Bytes at = kSampleEvery; at + kSampleBytes <= bytes; at += kSampleEvery) {
    if (look(at, kSampleBytes)) return true;
  }
  const Bytes last = std::min(bytes, kSampleEvery);
  return look(bytes - last, last);
}

}  // namespace thermocline
