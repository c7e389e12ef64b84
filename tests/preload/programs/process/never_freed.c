// SPDX-License-Identifier: Apache-2.0
// A program that ends in the middle: kernels are running, buffers are evicted, nothing is freed.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  mix_all(NULL);
  show_buffers();
  mix_all(NULL);
  exit(0);
}
