/* SPDX-License-Identifier: Apache-2.0
 * idle WHAT: uses more memory than the budget, frees it and does nothing, until the library, if it is there, holds no
 * memory any more. Then: nothing | forks | goes on | uses a second context, after the first | waits for a stream that
 * does not go on before another thread has allocated. It prints what it has read back.
 */
#include "tests/preload/programs/waiting.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>

#include "include/thermocline/thermocline.h"

#define LONG_ENOUGH_MS 20000

static void use(void) {
  for (unsigned i = 0; i < BUFFERS; ++i) {
    CHECK(cuMemAlloc(&buffers[i], BYTES));
    CHECK(cuMemsetD32(buffers[i], i + 1, BYTES / 4));
  }
  unsigned sum = 0;
  for (unsigned i = 0; i < BUFFERS; ++i) {
    unsigned word_read = 0;
    CHECK(cuMemcpyDtoH(&word_read, buffers[i] + BYTES - 4, 4));
    sum += word_read;
    CHECK(cuMemFree(buffers[i]));
  }
  printf("%u\n", sum);
  fflush(stdout);
}

/* Memory that it has allocated but does not use is not released. */
static void wait_until_all_is_given_back(void) {
  thermocline_result (*statistics_of)(thermocline_statistics*);
  *(void**)&statistics_of = dlsym(RTLD_DEFAULT, "thermocline_get_statistics");
  if (statistics_of == NULL) return;
  for (int ms = 0; ms < LONG_ENOUGH_MS; ++ms) {
    thermocline_statistics now = {.size = sizeof now};
    if (statistics_of(&now) != THERMOCLINE_OK) exit(3);
    if (now.device_bytes == 0 && now.host_bytes == 0) return;
    usleep(1000);
  }
  fprintf(stderr, "program: it is not given back\n");
  exit(3);
}

static void forks(void) {
  const pid_t child = fork();
  if (child == 0) exit(7);
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) exit(3);
}

/* Pinned memory is released by calls that wait for the stream. */
static void stands(void) {
  CUstream blocked, other;
  CUdeviceptr more;
  begin_to_wait();
  CHECK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  use();
  block(blocked, 1);
  usleep(50000);
  CHECK(cuMemAlloc(&more, BYTES));
  release(other, 1);
  CHECK(cuStreamSynchronize(blocked));
  CHECK(cuMemFree(more));
  CHECK(cuMemFreeHost(word));
  CHECK(cuStreamDestroy(blocked));
  CHECK(cuStreamDestroy(other));
}

int main(int count, char** arguments) {
  const char* what = count > 1 ? arguments[1] : "";
  begin();
  use();
  if (strcmp(what, "ends") == 0) return 0;
  wait_until_all_is_given_back();
  if (strcmp(what, "forks") == 0) forks();
  if (strcmp(what, "stands") == 0) stands();
  use();
  end();
  if (strcmp(what, "again") != 0) return 0;
  begin();
  use();
  wait_until_all_is_given_back();
  use();
  end();
  return 0;
}
