/* SPDX-License-Identifier: Apache-2.0
 * A data-parallel program in small: each rank has weights and gradients on its own device, kernels that work on them,
 * and sums the gradients of all ranks through pinned host memory. Rank 0 prints what every rank's weights are in the
 * end. With an argument, rank 0 runs it as a shell command, outside the library, while all ranks hold everything.
 */
#include <mpi.h>

#include "tests/preload/programs/small.h"

#define LAYERS 6
#define STEPS 6
#define WORDS (BYTES / 4)

static CUdeviceptr weights[LAYERS], gradients[LAYERS];

static void make_layers(int rank) {
  for (uint32_t i = 0; i < LAYERS; ++i) {
    CHECK(cuMemAlloc(&weights[i], BYTES));
    CHECK(cuMemAlloc(&gradients[i], BYTES));
    fill(weights[i], BYTES, i); /* the same everywhere */
    fill(gradients[i], BYTES, 100u * (uint32_t)(rank + 1) + i);
  }
  CHECK(cuCtxSynchronize());
}

/* Sums of whole words do not depend on the order. */
static void sum_over_ranks(CUdeviceptr gradient, uint32_t* staged) {
  CHECK(cuMemcpyDtoH(staged, gradient, BYTES));
  MPI_Allreduce(MPI_IN_PLACE, staged, WORDS, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
  CHECK(cuMemcpyHtoD(gradient, staged, BYTES));
}

static uint64_t digest_of_weights(uint32_t* staged) {
  uint64_t digest = 0xcbf29ce484222325u;
  for (int i = 0; i < LAYERS; ++i) {
    CHECK(cuMemcpyDtoH(staged, weights[i], BYTES));
    for (size_t word = 0; word < WORDS; ++word) digest = (digest ^ staged[word]) * 0x100000001b3u;
  }
  return digest;
}

static void run_command(const char* command) {
  if (unsetenv("LD_PRELOAD") != 0 || unsetenv("LD_LIBRARY_PATH") != 0 || system(command) != 0) exit(3);
}

int main(int count, char** arguments) {
  int rank = 0, ranks = 0;
  uint32_t* staged = NULL;
  uint64_t own = 0, *all = NULL;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  begin();
  CHECK(cuMemAllocHost((void**)&staged, BYTES));
  make_layers(rank);
  for (int step = 0; step < STEPS; ++step) {
    for (int i = 0; i < LAYERS; ++i) mix_on(NULL, gradients[i], weights[i]);
    for (int i = LAYERS; i-- > 0;) {
      sum_over_ranks(gradients[i], staged);
      mix_on(NULL, weights[i], gradients[i]);
    }
  }
  own = digest_of_weights(staged);
  all = (uint64_t*)calloc((size_t)ranks, sizeof *all);
  MPI_Gather(&own, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  for (int i = 0; rank == 0 && i < ranks; ++i) printf("rank %d of %d: %016llx\n", i, ranks, (unsigned long long)all[i]);
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  if (count > 1 && rank == 0) run_command(arguments[1]);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < LAYERS; ++i) {
    CHECK(cuMemFree(weights[i]));
    CHECK(cuMemFree(gradients[i]));
  }
  CHECK(cuMemFreeHost(staged));
  free(all);
  end();
  MPI_Finalize();
  return 0;
}
