// SPDX-License-Identifier: Apache-2.0
// Parameters as an array of pointers; buffers named by their base, an inner address, and one past the end.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  mix_all(NULL);
  for (int i = 0; i < BUFFERS; ++i) {
    launch_mix(mix, NULL, buffers[i] + BYTES / 2, buffers[(i + 1) % BUFFERS] + 4, BYTES / 2);
  }
  return finish();
}
