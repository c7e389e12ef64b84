// SPDX-License-Identifier: Apache-2.0
// A plugin that is linked with the driver. `plugged` opens it.
#include "tests/preload/programs/small.h"

// Retains the primary context, or releases it.
void plugin_hold(int holds);
__attribute__((visibility("default"))) void plugin_hold(int holds) {
  CHECK(cuInit(0));
  if (holds) {
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  } else {
    CHECK(cuDevicePrimaryCtxRelease(0));
  }
}

int plugin_run(void);
__attribute__((visibility("default"))) int plugin_run(void) {
  begin();
  make_buffers();
  mix_all(NULL);
  return finish();
}
