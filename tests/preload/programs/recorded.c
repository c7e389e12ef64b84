/* SPDX-License-Identifier: Apache-2.0
 * recorded STEPS [killed|interrupted]: a program with steps, tags and two threads, for the recorder. `killed` ends it
 * by a signal that nobody can catch, `interrupted` sends what Ctrl-C does to all of its process group.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/thermocline/thermocline.h"

#define BYTES (1u << 16)
#define SETS 20

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "recorded: %s\n", what);
  exit(1);
}
#define REQUIRE(condition) require(condition, #condition)

static thermocline_result (*mark_step)(void);
static thermocline_result (*set_tag)(const char*);
static CUcontext context;
static CUdeviceptr weights;

static void* other_thread(void* unused) {
  (void)unused;
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8(weights, 1, BYTES) == CUDA_SUCCESS);
  return NULL;
}

static void step(void) {
  CUdeviceptr activations;
  REQUIRE(cuMemAlloc(&activations, BYTES) == CUDA_SUCCESS);
  for (int i = 0; i < SETS; ++i) REQUIRE(cuMemsetD8(i % 2 == 0 ? activations : weights, 2, BYTES) == CUDA_SUCCESS);
  REQUIRE(cuMemFree(activations) == CUDA_SUCCESS);
  if (mark_step != NULL) REQUIRE(mark_step() == THERMOCLINE_OK);
}

int main(int argc, char** argv) {
  *(void**)&mark_step = dlsym(RTLD_DEFAULT, "thermocline_step");
  *(void**)&set_tag = dlsym(RTLD_DEFAULT, "thermocline_tag");
  REQUIRE(argc > 1);
  CUdevice device;
  REQUIRE(cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
  if (set_tag != NULL) REQUIRE(set_tag("weights") == THERMOCLINE_OK);
  REQUIRE(cuMemAlloc(&weights, BYTES) == CUDA_SUCCESS);
  if (set_tag != NULL) REQUIRE(set_tag("activations") == THERMOCLINE_OK);
  const int steps = atoi(argv[1]);
  for (int i = 0; i < steps; ++i) {
    if (i + 2 == steps) {
      pthread_t thread;
      REQUIRE(pthread_create(&thread, NULL, &other_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    }
    step();
  }
  if (argc > 2 && strcmp(argv[2], "killed") == 0) raise(SIGKILL);
  if (argc > 2 && strcmp(argv[2], "interrupted") == 0) kill(0, SIGINT);
  puts("done");
  return 0;
}
