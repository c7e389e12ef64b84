// SPDX-License-Identifier: Apache-2.0
// Static objects use the driver before main begins, and main uses their memory.
#include "tests/preload/programs/small.h"

namespace {

struct Early {
  Early() {
    begin();
    make_buffers();
  }
};
const Early early;

}  // namespace

int main() {
  mix_all(nullptr);
  return finish();
}
