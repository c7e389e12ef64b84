// SPDX-License-Identifier: Apache-2.0
// Static objects use and free memory after main has ended, and so do functions registered with atexit.
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
