// SPDX-License-Identifier: Apache-2.0
// SIMULATOR_CHECK(condition, "the sentence that does not hold") checks an invariant of the simulator itself and is
// always compiled in. If it fails, the process aborts: a simulated device with wrong bookkeeping would prove nothing.
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
