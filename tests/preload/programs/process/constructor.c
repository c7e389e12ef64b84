// SPDX-License-Identifier: Apache-2.0
// A constructor that runs before all others of the program uses the driver.
#include "tests/preload/programs/small.h"

__attribute__((constructor(101))) static void early(void) {
  begin();
  make_buffers();
}

int main(void) {
  mix_all(NULL);
  return finish();
}
