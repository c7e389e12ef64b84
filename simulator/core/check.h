// SPDX-License-Identifier: Apache-2.0
// SIMULATOR_CHECK(condition, "the sentence that does not hold"): an invariant of the simulator itself, always compiled
// in. It aborts: a simulated device that has lost count would prove nothing.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace simulator {

[[noreturn]] inline void check_failed(const char* file, int line, const char* sentence) {
  std::fprintf(stderr, "simulated device: broken invariant at %s:%d: %s\n", file, line, sentence);
  std::abort();
}

}  // namespace simulator

#define SIMULATOR_CHECK(condition, sentence)                                \
  (__builtin_expect(static_cast<bool>(condition), 1) ? static_cast<void>(0) \
                                                     : ::simulator::check_failed(__FILE__, __LINE__, sentence))
