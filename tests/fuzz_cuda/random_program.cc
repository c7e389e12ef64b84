// SPDX-License-Identifier: Apache-2.0
// Random CUDA programs that check themselves: they reach memory by every API path in api_paths/, drawn by weight, and
// compare each byte that they read back with a model on the host that runs the same program in program order. They do
// not know of the library: they are run plain, and preloaded under budgets that force eviction, in order of time and in
// adversarial orders; every run must agree with the model.
//
// Usage: random_program [--programs N] [--first SEED] [--operations N] [--threads N] [--repeat N] [--live BYTES]
//                       [--held BYTES] [--largest BYTES] [--unseen 0|1] [--sleeps 0|1]
//                       [--simulated-ms N]
// --repeat runs every program several times, as training repeats its step; --simulated-ms continues with the next seeds
//  until the simulated device's clock has reached that time. Exit status 0: every program agreed; 1: a difference, with
//  its seed; 2: wrong usage or a driver error.
#include <malloc.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/fuzz_cuda/api_path.h"

namespace {

using model::Options;

struct Flag {
  std::string_view name;
  std::uint64_t Options::*value;
};
constexpr Flag kFlags[] = {{"--programs", &Options::programs},
                           {"--first", &Options::first},
                           {"--operations", &Options::operations},
                           {"--threads", &Options::threads},
                           {"--repeat", &Options::repeat},
                           {"--live", &Options::live},
                           {"--held", &Options::held},
                           {"--largest", &Options::largest},
                           {"--unseen", &Options::unseen},
                           {"--sleeps", &Options::sleeps},
                           {"--simulated-ms", &Options::simulated_ms}};

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(argv[i + 1], &end, 10);
    bool known = false;
    for (const Flag& flag : kFlags) {
      if (flag.name != argv[i]) continue;
      options->*flag.value = value;
      known = true;
    }
    if (!known || *end != '\0') return false;
  }
  return argc % 2 == 1 && options->threads > 0 && options->threads <= model::kRoots && options->largest >= 1024 &&
         options->largest <= 16 * model::kMiB;
}

std::uint64_t run_all(const Options& options) {
  const model::Device device;
  std::atomic<std::uint64_t> next = 0, run = 0;
  std::vector<std::uint64_t> digests(options.threads, 0);
  std::vector<std::thread> threads;
  const auto wanted = [&](std::uint64_t program) {
    if (options.simulated_ms == 0) return program < options.programs;
    return model::Device::simulated_ns() < options.simulated_ms * 1'000'000;
  };
  for (unsigned t = 0; t < options.threads; ++t) {
    threads.emplace_back([&, t] {
      CHECK_CUDA(cuCtxSetCurrent(device.context));
      for (std::uint64_t program = next++; wanted(program); program = next++) {
        for (std::uint64_t again = 0; again < options.repeat; ++again) {
          const std::uint64_t digest = model::World(options.first + program, t, options, device).run();
          digests[t] ^= model::mix(digest + program * options.repeat + again);
        }
        ++run;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::uint64_t digest = 0;
  for (const std::uint64_t one : digests) digest ^= one;
  std::printf("programs %llu digest %016llx\n", static_cast<unsigned long long>(run),
              static_cast<unsigned long long>(digest));
  return digest;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(stderr, "usage: random_program");
    for (const Flag& flag : kFlags) std::fprintf(stderr, " [%s N]", flag.name.data());
    std::fprintf(stderr, "\n");
    return 2;
  }
  // The models' memory is reused instead of being returned to the system each time.
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  run_all(options);
  model::print_api_paths();
  return 0;
}
