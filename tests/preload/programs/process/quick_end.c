// SPDX-License-Identifier: Apache-2.0
// A program that ends without running destructors.
#include "tests/preload/programs/small.h"

#include <unistd.h>

int main(void) {
  begin();
  make_buffers();
  mix_all(NULL);
  show_buffers();
  fflush(stdout);
  _exit(0);
}
