// SPDX-License-Identifier: Apache-2.0
// The driver is used by static objects before main begins, and their memory by main.
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
