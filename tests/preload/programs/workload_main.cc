// SPDX-License-Identifier: Apache-2.0
// workload [--api_path R] [--memory plain|in-order|pool] [--launch parameters|extra|configured] [--threads N]
//          [--streams] [--then fork|throw|at-exit|release]
// Prints one digest for each thread. With --streams each thread has a stream of its own; otherwise all use the default
// stream.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/preload/programs/workload.h"

namespace {

using namespace program;

struct Options {
  std::string api_path = "link";
  std::string then;
  Plan plan;
  unsigned threads = 1;
  bool streams = false;
};

Options read_options(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--streams") {
      options.streams = true;
      continue;
    }
    const std::string value = i + 1 < count ? arguments[++i] : "";
    if (name == "--api_path") options.api_path = value;
    if (name == "--then") options.then = value;
    if (name == "--threads") options.threads = static_cast<unsigned>(std::stoul(value));
    if (name == "--memory") {
      options.plan.memory = value == "pool" ? Memory::kPool : value == "in-order" ? Memory::kInOrder : Memory::kPlain;
    }
    if (name == "--launch") {
      options.plan.launch = value == "extra"        ? Launch::kExtra
                            : value == "configured" ? Launch::kConfigured
                                                    : Launch::kParameters;
    }
  }
  return options;
}

CUcontext primary_context(const Cuda& cuda) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CHECK(cuda.cuInit(0));
  CHECK(cuda.cuDeviceGet(&device, 0));
  CHECK(cuda.cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuda.cuCtxSetCurrent(context));
  return context;
}

std::uint64_t work(const Cuda& cuda, const Options& options, CUcontext context, CUmodule module, unsigned thread) {
  CHECK(cuda.cuCtxSetCurrent(context));
  CUstream stream = nullptr;
  if (options.streams) CHECK(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Plan plan = options.plan;
  plan.seed = thread + 1;
  plan.mix = options.threads == 1;
  // Several threads share the budget.
  plan.buffers /= options.threads > 1 ? 2 : 1;
  std::uint64_t digest = 0;
  {
    Workload workload(cuda, plan, module, stream);
    digest = workload.run();
  }
  if (stream != nullptr) CHECK(cuda.cuStreamDestroy(stream));
  return digest;
}

// The child uses no CUDA, ends normally, and does not affect the parent's memory.
void fork_and_wait() {
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr address = 0;
    // Whatever the driver returns in a child, the call must return.
    static_cast<void>(cuMemAlloc(&address, 1024));
    std::exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

void throw_and_catch(const Cuda& cuda) {
  try {
    CUdeviceptr address = 0;
    CHECK(cuda.cuMemAlloc(&address, 1 << 20));
    CHECK(cuda.cuMemFree(address));
    throw std::runtime_error("thrown");
  } catch (const std::exception& error) {
    std::printf("caught %s\n", error.what());
  }
}

const Cuda* cuda_at_exit = nullptr;
CUdeviceptr kept = 0;

// As programs do that free their memory in destructors of global objects.
void use_at_exit() {
  unsigned value = 0;
  CHECK(cuda_at_exit->cuMemcpyDtoH(&value, kept, sizeof value));
  CHECK(cuda_at_exit->cuMemFree(kept));
  std::printf("at exit %08x\n", value);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  const Options options = read_options(count, arguments);
  static const Cuda cuda = find_cuda(options.api_path);
  CUcontext context = primary_context(cuda);
  CUmodule module = nullptr;
  CHECK(cuda.cuModuleLoadData(&module, kKernels));
  if (options.then == "at-exit") {
    cuda_at_exit = &cuda;
    CHECK(cuda.cuMemAlloc(&kept, 4 * kMiB));
    CHECK(cuda.cuMemsetD32(kept, 0xabcd1234, kMiB));
    std::atexit(&use_at_exit);
  }
  std::vector<std::uint64_t> digests(options.threads);
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < options.threads; ++i) {
    threads.emplace_back([&, i] { digests[i] = work(cuda, options, context, module, i); });
  }
  digests[0] = work(cuda, options, context, module, 0);
  for (std::thread& thread : threads) thread.join();
  for (const std::uint64_t digest : digests) std::printf("digest %016llx\n", static_cast<unsigned long long>(digest));
  std::fflush(stdout);
  if (options.then == "fork") fork_and_wait();
  if (options.then == "throw") throw_and_catch(cuda);
  if (options.then == "release") {
    CHECK(cuda.cuModuleUnload(module));
    CHECK(cuda.cuDevicePrimaryCtxRelease(0));
    context = primary_context(cuda);
    CHECK(cuda.cuModuleLoadData(&module, kKernels));
    std::printf("again %016llx\n", static_cast<unsigned long long>(work(cuda, options, context, module, 0)));
  }
}
