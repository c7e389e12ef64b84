// SPDX-License-Identifier: Apache-2.0
// A plugin that is linked with the driver. `plugged` opens it.
#include "tests/preload/programs/small.h"

int plugin_run(void);
__attribute__((visibility("default"))) int plugin_run(void) {
  begin();
  make_buffers();
  mix_all(NULL);
  return finish();
}
