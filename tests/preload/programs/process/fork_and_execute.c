// SPDX-License-Identifier: Apache-2.0
// Children of a process that has used the driver execute programs that use it, or not.
#include "tests/preload/programs/small.h"

#include <sys/wait.h>
#include <unistd.h>

int main(int count, char** arguments) {
  begin();
  make_buffers();
  mix_all(NULL);
  if (count == 1) {
    for (int i = 0; i < 2; ++i) {
      fflush(stdout);
      const pid_t child = fork();
      if (child == 0) {
        if (i == 0) execl("/bin/true", "true", (char*)NULL);
        execl(arguments[0], arguments[0], "child", (char*)NULL);
        _exit(2);
      }
      int status = -1;
      if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 2;
    }
  }
  return finish();
}
