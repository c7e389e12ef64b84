/* SPDX-License-Identifier: Apache-2.0
 * sleeper WHAT COMMAND...: has used eight buffers of 4 MiB. Then it runs the shell commands, outside the library, with
 * its own number as $SLEEPER, and meanwhile it: rests | works on its buffers in another thread | has a graph that names
 * two of them | has mapped memory itself | has a stream that is blocked, behind a use of one of them | captures a graph
 * until the first command has ended | has a child after the first command. "ends": it ends behind them without another
 * use. "names": four of the buffers are "weights", two are "kv", and one was. "calls": it then calls thermocline_sleep and prints the result on stderr. Afterwards it uses all buffers and prints what they hold.
 */
#define _GNU_SOURCE
#include "tests/preload/programs/waiting.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>

static int works_on;

static void* work(void* unused) {
  CUstream stream;
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  about_to_wait();
  /* Equal contents each time, so that it does not matter how often. */
  while (__atomic_load_n(&works_on, __ATOMIC_ACQUIRE) != 0) {
    for (unsigned i = 0; i < BUFFERS; ++i) {
      unsigned word_read = 0;
      CHECK(cuMemsetD32Async(buffers[i], i + 1, BYTES / 4, stream));
      CHECK(cuMemcpyDtoDAsync(buffers[(i + 1) % BUFFERS], buffers[i], BYTES, stream));
      CHECK(cuMemcpyDtoHAsync(&word_read, buffers[(i + 1) % BUFFERS] + BYTES - 4, 4, stream));
      CHECK(cuStreamSynchronize(stream));
      if (word_read != i + 1) {
        fprintf(stderr, "program: %u where %u was\n", word_read, i + 1);
        exit(3);
      }
    }
  }
  CHECK(cuStreamDestroy(stream));
  return unused;
}

static CUgraphExec captured(void) {
  CUstream stream;
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  mix_on(stream, buffers[0], buffers[1]);
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuStreamDestroy(stream));
  return step;
}

static void name_buffers(void) {
  int (*tag)(uint64_t, const char*) = (int (*)(uint64_t, const char*))dlsym(RTLD_DEFAULT, "thermocline_tag_buffer");
  if (tag == NULL) return;
  for (unsigned i = 0; i < 7; ++i) {
    if (tag(buffers[i], i < 4 ? "weights" : "kv") != 0) exit(3);
  }
  if (tag(buffers[6], "") != 0) exit(3);
}

static void map_memory(void) {
  CUmemAllocationProp property = {0};
  CUmemGenericAllocationHandle handle = 0;
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK(cuMemCreate(&handle, BYTES, &property, 0));
}

static void run(const char* command) {
  fflush(stdout);
  if (system(command) != 0) {
    fprintf(stderr, "program: the command has failed: %s\n", command);
    exit(3);
  }
}

static void have_a_child(void) {
  const pid_t child = fork();
  if (child == 0) _exit(7);
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) exit(3);
}

static void run_all(int count, char** commands, int forks) {
  for (int i = 0; i < count; ++i) {
    run(commands[i]);
    if (i == 0 && forks) have_a_child();
  }
}

static void capture_meanwhile(int count, char** commands) {
  CUstream stream;
  CUgraph graph = NULL;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  mix_on(stream, buffers[0], buffers[1]);
  run_all(1, commands, 0);
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuStreamDestroy(stream));
  run_all(count - 1, commands + 1, 0);
}

static void stand_meanwhile(int count, char** commands) {
  CUstream blocked, other;
  begin_to_wait();
  CHECK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  block(blocked, 1);
  CHECK(cuMemsetD32Async(buffers[3], 17, BYTES / 4, blocked));
  run_all(count, commands, 0);
  release(other, 1);
  CHECK(cuStreamSynchronize(blocked));
  CHECK(cuStreamDestroy(blocked));
  CHECK(cuStreamDestroy(other));
  CHECK(cuMemFreeHost(word));
}

int main(int count, char** arguments) {
  const char* what = count > 1 ? arguments[1] : "";
  char pid[32];
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  if (setenv("SLEEPER", pid, 1) != 0 || unsetenv("LD_PRELOAD") != 0 || unsetenv("LD_LIBRARY_PATH") != 0) return 3;
  begin();
  make_buffers();
  mix_all(NULL);
  CHECK(cuCtxSynchronize());
  if (strcmp(what, "works") == 0) {
    works_on = 1;
    const pthread_t worker = start(&work);
    run_all(count - 2, arguments + 2, 0);
    __atomic_store_n(&works_on, 0, __ATOMIC_RELEASE);
    join(worker);
  } else if (strcmp(what, "has_a_graph") == 0) {
    CUgraphExec step = captured();
    run_all(count - 2, arguments + 2, 0);
    CHECK(cuGraphLaunch(step, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuGraphExecDestroy(step));
  } else if (strcmp(what, "stands") == 0) {
    stand_meanwhile(count - 2, arguments + 2);
  } else if (strcmp(what, "captures") == 0) {
    capture_meanwhile(count - 2, arguments + 2);
  } else {
    if (strcmp(what, "maps") == 0) map_memory();
    if (strcmp(what, "names") == 0) name_buffers();
    run_all(count - 2, arguments + 2, strcmp(what, "forks") == 0);
  }
  if (strcmp(what, "calls") == 0) {
    int (*sleep_now)(void*) = (int (*)(void*))dlsym(RTLD_DEFAULT, "thermocline_sleep");
    if (sleep_now != NULL) fprintf(stderr, "thermocline_sleep: %d\n", sleep_now(NULL));
  }
  if (strcmp(what, "ends") == 0) return 0;
  mix_all(NULL);
  return finish();
}
