// SPDX-License-Identifier: Apache-2.0
#include "driver/locks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace thermocline {
namespace {

// More than any code path nests; further locks are counted without a name.
constexpr int kMostNamed = 4;

struct Held {
  std::array<const char*, kMostNamed> names;
  int count;
};
constinit thread_local Held held{};
constinit thread_local int in_place = 0;

}  // namespace

void detail::lock_taken(const char* name) {
  if (held.count < kMostNamed) held.names[static_cast<std::size_t>(held.count)] = name;
  ++held.count;
}

// A lock that was taken before checking was switched on has not been counted.
void detail::lock_given_back() { held.count = std::max(0, held.count - 1); }

void detail::refuse_to_wait(const char* call) {
  if (held.count == 0 || WaitsInPlace::now()) return;
  std::fprintf(stderr, "thermocline: %s waits for the device while a lock is held:", call);
  for (int i = 0; i < std::min(held.count, kMostNamed); ++i) {
    std::fprintf(stderr, " %s", held.names[static_cast<std::size_t>(i)]);
  }
  std::fprintf(stderr, "\n");
  std::abort();
}

int locks_held() { return held.count; }

WaitsInPlace::WaitsInPlace() { ++in_place; }
WaitsInPlace::~WaitsInPlace() { --in_place; }
bool WaitsInPlace::now() { return in_place > 0; }

}  // namespace thermocline
