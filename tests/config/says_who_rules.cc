// SPDX-License-Identifier: Apache-2.0
// Prints whether it has more privileges than the user who started it, and a variable as the library reads it.
#include <cstdio>

#include "config/trusted_file.h"

int main() {
  const char* const policy = thermocline::variable_of_process("THERMOCLINE_POLICY");
  std::printf("%d %s\n", thermocline::is_privileged_program() ? 1 : 0, policy == nullptr ? "unset" : policy);
  return 0;
}
