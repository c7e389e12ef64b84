// SPDX-License-Identifier: Apache-2.0
// A signal handler on an alternate stack (its size can be given in bytes) copies and launches.
#include "tests/preload/programs/small.h"

#include <signal.h>
#include <sys/mman.h>

#define LITTLE 16384
#define GUARD ((size_t)4096)

static void work(int number) {
  (void)number;
  CHECK(cuMemcpyDtoD(buffers[0], buffers[1], BYTES));
  mix_on(NULL, buffers[2], buffers[0]);
  mix_on(NULL, buffers[3], buffers[4]);
}

int main(int count, char** arguments) {
  const size_t bytes = count > 1 ? (size_t)atol(arguments[1]) : (size_t)LITTLE;
  stack_t little = {0};
  struct sigaction action = {0};
  begin();
  make_buffers();
  mix_all(NULL);
  // The page below the stack has no access: code that needs more stack faults.
  char* const memory = (char*)mmap(NULL, GUARD + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, GUARD, PROT_NONE) != 0) return 5;
  little.ss_sp = memory + GUARD;
  little.ss_size = bytes;
  action.sa_handler = work;
  action.sa_flags = SA_ONSTACK;
  if (sigaltstack(&little, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0) return 3;
  for (int i = 0; i < 4; ++i) {
    mix_all(NULL);
    if (raise(SIGUSR1) != 0) return 4;
  }
  return finish();
}
