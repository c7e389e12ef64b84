// SPDX-License-Identifier: Apache-2.0
// A child is forked before the driver is used: it uses the driver itself, and so does its parent.
#include "tests/preload/programs/small.h"

#include <sys/wait.h>
#include <unistd.h>

int main(void) {
  const pid_t child = fork();
  if (child < 0) return 2;
  if (child > 0) {
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 2;
  }
  begin();
  make_buffers();
  mix_all(NULL);
  return finish();
}
