// SPDX-License-Identifier: Apache-2.0
// Copies between contexts, both of which are the same one.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  for (int i = 0; i < BUFFERS; ++i) {
    CHECK(cuMemcpyPeer(buffers[i], context, buffers[(i + 1) % BUFFERS], context, BYTES / 2));
    CHECK(cuMemcpyPeerAsync(buffers[(i + 2) % BUFFERS], context, buffers[i], context, BYTES / 4, NULL));
  }
  return finish();
}
