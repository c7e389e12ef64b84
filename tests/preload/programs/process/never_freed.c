// SPDX-License-Identifier: Apache-2.0
// A program that ends in the middle: kernels run, buffers are away, nothing is freed.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  mix_all(NULL);
  show_buffers();
  mix_all(NULL);
  exit(0);
}
