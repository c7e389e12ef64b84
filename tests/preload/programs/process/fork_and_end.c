// SPDX-License-Identifier: Apache-2.0
// Children of a process that has used the driver end at once, or after work without it.
#include "tests/preload/programs/small.h"

#include <sys/wait.h>
#include <unistd.h>

static void wait_for(pid_t child) {
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(2);
}

int main(void) {
  begin();
  make_buffers();
  for (int i = 0; i < 3; ++i) {
    mix_all(NULL);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      // Memory of the parent's threads, its allocator and its standard streams are usable.
      void* words = pattern(BYTES, 1);
      free(words);
      if (i == 0) _exit(0);
      // Driver calls are refused, as without the library.
      size_t left = 0, all = 0;
      CUdeviceptr more = 0;
      TELL(cuMemGetInfo(&left, &all));
      TELL(cuMemAlloc(&more, BYTES));
      TELL(cuMemsetD8(buffers[1], 1, BYTES));
      TELL(cuMemFree(buffers[0]));
      exit(0);
    }
    wait_for(child);
  }
  return finish();
}
