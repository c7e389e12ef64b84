// SPDX-License-Identifier: Apache-2.0
// Memory is used and freed by static objects after main has ended, and by functions given to atexit.
#include <cstdlib>

#include "tests/preload/programs/small.h"

namespace {

struct Late {
  ~Late() {
    mix_all(nullptr);
    show_buffers();
    free_buffers();
  }
};
Late late;

}  // namespace

int main() {
  begin();
  make_buffers();
  if (std::atexit([] { mix_all(nullptr); }) != 0) return 2;
  return 0;
}
