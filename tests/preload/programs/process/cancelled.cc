// SPDX-License-Identifier: Apache-2.0
// Threads are cancelled in the middle of driver calls: of work that needs room, of a wait, and, with an argument, of an
// allocation that is refused, about which a library may print a long report. The program continues.
#include <pthread.h>

#include <cstdio>
#include <initializer_list>

#include "tests/preload/programs/small.h"

namespace {

constexpr std::size_t kTooMuch = std::size_t{1} << 46;

void work() {
  for (int i = 0; i < BUFFERS; ++i) {
    CUdeviceptr scratch = 0;
    if (cuMemAlloc(&scratch, BYTES) != CUDA_SUCCESS) return;
    if (cuMemcpyDtoDAsync(scratch, buffers[i], BYTES, nullptr) != CUDA_SUCCESS) return;
    if (cuMemFree(scratch) != CUDA_SUCCESS) return;
  }
}
void ask_for_too_much() {
  CUdeviceptr nothing = 0;
  cuMemAlloc(&nothing, kTooMuch);
  cuMemAllocAsync(&nothing, kTooMuch, nullptr);
}
void wait_for_all() { cuCtxSynchronize(); }

struct Task {
  void (*body)();
  bool unwound = false;
};

struct Notes {
  explicit Notes(Task& of) : task(of) {}
  ~Notes() { task.unwound = true; }
  Notes(const Notes&) = delete;
  Notes& operator=(const Notes&) = delete;
  Task& task;
};

// If it is cancelled before it begins, it ends at the first cancellation point, and otherwise at the last one below.
void* run(void* data) {
  auto& task = *static_cast<Task*>(data);
  int before = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  if (cuCtxSetCurrent(context) != CUDA_SUCCESS) return nullptr;
  const Notes notes(task);
  pthread_cancel(pthread_self());
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
  task.body();
  pthread_testcancel();
  return nullptr;
}

}  // namespace

int main(int count, char**) {
  begin();
  make_buffers();
  for (void (*body)() : {work, wait_for_all, count > 1 ? ask_for_too_much : work}) {
    mix_all(nullptr);
    Task task{body};
    pthread_t thread{};
    void* result = nullptr;
    pthread_create(&thread, nullptr, run, &task);
    pthread_join(thread, &result);
    std::printf("cancelled %d, unwound %d\n", result == PTHREAD_CANCELED, task.unwound);
  }
  mix_all(nullptr);
  return finish();
}
