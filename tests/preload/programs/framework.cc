// SPDX-License-Identifier: Apache-2.0
// Uses the library as a framework uses an external allocator: `framework late LIBRARY` opens it privately, after all
// other libraries, and its hooks are never called; `framework preloaded` finds it in the process. Budget: 16 MiB.
#include <cuda.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "include/thermocline/thermocline.h"

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kBudget = 16 * kMiB;

void require(bool holds, const char* what, int line) {
  if (holds) return;
  std::fprintf(stderr, "framework: line %d: %s\n", line, what);
  std::exit(1);
}
#define REQUIRE(condition) require(condition, #condition, __LINE__)

struct Library {
  decltype(&thermocline_allocate) allocate;
  decltype(&thermocline_free) free;
  decltype(&thermocline_record_stream) record_stream;
  decltype(&thermocline_base) base;
  decltype(&thermocline_empty_cache) empty_cache;
  decltype(&thermocline_memory_fraction) memory_fraction;
  decltype(&thermocline_begin_pool) begin_pool;
  decltype(&thermocline_end_pool) end_pool;
  decltype(&thermocline_release_pool) release_pool;
  decltype(&thermocline_raise_with) raise_with;
  decltype(&thermocline_sees_operations) sees_operations;
  decltype(&thermocline_evict) evict;
  decltype(&thermocline_prefetch) prefetch;
  decltype(&thermocline_get_statistics) get_statistics;
  decltype(&thermocline_validate) validate;
};
Library library;

void find_library(void* in) {
  const auto find = [in](auto* out, const char* name) {
    *out = reinterpret_cast<std::remove_pointer_t<decltype(out)>>(dlsym(in, name));
    require(*out != nullptr, name, __LINE__);
  };
  find(&library.allocate, "thermocline_allocate");
  find(&library.free, "thermocline_free");
  find(&library.record_stream, "thermocline_record_stream");
  find(&library.base, "thermocline_base");
  find(&library.empty_cache, "thermocline_empty_cache");
  find(&library.memory_fraction, "thermocline_memory_fraction");
  find(&library.begin_pool, "thermocline_begin_pool");
  find(&library.end_pool, "thermocline_end_pool");
  find(&library.release_pool, "thermocline_release_pool");
  find(&library.raise_with, "thermocline_raise_with");
  find(&library.sees_operations, "thermocline_sees_operations");
  find(&library.evict, "thermocline_evict");
  find(&library.prefetch, "thermocline_prefetch");
  find(&library.get_statistics, "thermocline_get_statistics");
  find(&library.validate, "thermocline_validate");
}

thermocline_statistics statistics() {
  thermocline_statistics all = {};
  all.size = sizeof all;
  REQUIRE(library.get_statistics(&all) == THERMOCLINE_OK);
  return all;
}

CUdeviceptr at(void* address) { return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(address)); }
std::uint64_t word(void* address) { return reinterpret_cast<std::uintptr_t>(address); }

// A pending copy to the host, of bytes that were all equal when it was submitted.
struct Watched {
  unsigned char* host = nullptr;
  std::size_t bytes = 0;

  Watched(void* from, std::size_t size, CUstream stream) : bytes(size) {
    REQUIRE(cuMemHostAlloc(reinterpret_cast<void**>(&host), bytes, 0) == CUDA_SUCCESS);
    std::memset(host, 0x77, bytes);
    REQUIRE(cuMemcpyDtoHAsync(host, at(from), bytes, stream) == CUDA_SUCCESS);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() { cuMemFreeHost(host); }
  void expect_all(unsigned char value) const {
    for (std::size_t i = 0; i < bytes; ++i) REQUIRE(host[i] == value);
  }
};

// The next use of the memory may be on another stream.
void reuse_follows_the_streams(CUstream first, CUstream second) {
  for (const bool recorded : {false, true}) {
    void* const a = library.allocate(12 * kMiB, 0, first);
    // The second stream waits for the first one's present work, before there is any work on `a`.
    library.free(library.allocate(4 * kMiB, 0, first), 4 * kMiB, 0, first);
    library.free(library.allocate(4 * kMiB, 0, second), 4 * kMiB, 0, second);
    REQUIRE(cuMemsetD8Async(at(a), 1, 12 * kMiB, first) == CUDA_SUCCESS);
    if (recorded) REQUIRE(cuStreamSynchronize(first) == CUDA_SUCCESS);
    const Watched copy(a, 12 * kMiB, recorded ? second : first);
    if (recorded) library.record_stream(a, second);
    library.free(a, 12 * kMiB, 0, first);
    CUstream const next = recorded ? first : second;
    void* const b = library.allocate(12 * kMiB, 0, next);
    REQUIRE(cuMemsetD8Async(at(b), 2, 12 * kMiB, next) == CUDA_SUCCESS);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
    copy.expect_all(1);
    library.free(b, 12 * kMiB, 0, next);
  }
}

int raised = 0;
void count_and_throw(const char*, const char*, std::uint32_t line, const char* sentence) {
  ++raised;
  REQUIRE(line > 0);
  throw std::runtime_error(sentence);
}
void count_only(const char*, const char*, std::uint32_t, const char*) { ++raised; }

void what_does_not_fit(CUstream stream, bool late) {
  std::vector<void*> held;
  for (std::size_t i = 0; i < 3; ++i) held.push_back(library.allocate(4 * kMiB, 0, stream));
  for (void* a : held) REQUIRE(cuMemsetD8Async(at(a), 3, 4 * kMiB, stream) == CUDA_SUCCESS);
  if (late) {
    REQUIRE(library.allocate(12 * kMiB, 0, stream) == nullptr);
    library.raise_with(&count_and_throw);
    std::string said;
    try {
      library.allocate(12 * kMiB, 0, stream);
    } catch (const std::runtime_error& error) {
      said = error.what();
    }
    REQUIRE(said.find("CUDA out of memory. Tried to allocate 12582912 bytes") == 0);
    REQUIRE(raised == 1 && statistics().evicted_bytes == 0 && statistics().out_of_memory == 2);
    library.raise_with(&count_only);
    library.memory_fraction(0.5, 0);
    REQUIRE(raised == 2);
  } else {
    void* const more = library.allocate(12 * kMiB, 0, stream);
    REQUIRE(cuMemsetD8Async(at(more), 4, 12 * kMiB, stream) == CUDA_SUCCESS);
    REQUIRE(statistics().evicted_bytes > 0);
    library.free(more, 12 * kMiB, 0, stream);
  }
  for (void* a : held) {
    const Watched copy(a, 4 * kMiB, stream);
    REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    copy.expect_all(3);
    library.free(a, 4 * kMiB, 0, stream);
  }
}

void hints(CUstream stream, bool late) {
  void* const a = library.allocate(8 * kMiB, 0, stream);
  REQUIRE(cuMemsetD8Async(at(a), 5, 8 * kMiB, stream) == CUDA_SUCCESS);
  if (late) {
    REQUIRE(library.evict(word(a)) == THERMOCLINE_NOT_SUPPORTED);
    REQUIRE(library.prefetch(word(a)) == THERMOCLINE_NOT_SUPPORTED);
  } else {
    const std::uint64_t before = statistics().evicted_bytes;
    REQUIRE(library.evict(8) == THERMOCLINE_INVALID_VALUE);
    REQUIRE(library.evict(word(a) + 5) == THERMOCLINE_OK);
    REQUIRE(statistics().evicted_bytes == before + 8 * kMiB);
    void* const b = library.allocate(16 * kMiB, 0, stream);
    REQUIRE(cuMemsetD8Async(at(b), 6, 16 * kMiB, stream) == CUDA_SUCCESS);
    REQUIRE(statistics().nonresident_bytes == 8 * kMiB);
    REQUIRE(library.prefetch(word(a)) == THERMOCLINE_NOT_READY);
    library.free(b, 16 * kMiB, 0, stream);
    REQUIRE(library.prefetch(word(a)) == THERMOCLINE_OK);
    REQUIRE(statistics().nonresident_bytes == 0);
    REQUIRE(statistics().evicted_bytes == before + 8 * kMiB);
  }
  const Watched copy(a, 8 * kMiB, stream);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  copy.expect_all(5);
  library.free(a, 8 * kMiB, 0, stream);
}

// A graph writes 7 to memory that was freed while it was captured, and copies it on: nothing else may be there.
void graphs_keep_their_memory(CUstream stream) {
  constexpr thermocline_pool kPool = {1, 2};
  void* const result = library.allocate(kMiB, 0, stream);
  library.begin_pool(0, kPool, nullptr);
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  void* const a = library.allocate(kMiB, 0, stream);
  REQUIRE(cuMemsetD8Async(at(a), 7, kMiB, stream) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoDAsync(at(result), at(a), kMiB, stream) == CUDA_SUCCESS);
  library.free(a, kMiB, 0, stream);
  void* const b = library.allocate(kMiB, 0, stream);
  REQUIRE(b == a);
  library.free(b, kMiB, 0, stream);
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  library.end_pool(0, kPool);
  REQUIRE(cuGraphInstantiateWithFlags(&executable, graph, 0) == CUDA_SUCCESS);
  std::set<void*> others;
  for (int i = 0; i < 8; ++i) others.insert(library.allocate(kMiB, 0, stream));
  REQUIRE(!others.contains(a));
  REQUIRE(cuGraphLaunch(executable, stream) == CUDA_SUCCESS);
  const Watched copy(result, kMiB, stream);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  copy.expect_all(7);
  REQUIRE(cuGraphExecDestroy(executable) == CUDA_SUCCESS && cuGraphDestroy(graph) == CUDA_SUCCESS);
  for (void* other : others) library.free(other, kMiB, 0, stream);
  library.free(result, kMiB, 0, stream);
  REQUIRE(statistics().live_bytes == kMiB);
  library.release_pool(0, kPool);
  REQUIRE(statistics().live_bytes == 0);
}

}  // namespace

int main(int count, char** arguments) {
  const bool late = count > 2 && std::strcmp(arguments[1], "late") == 0;
  find_library(late ? dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL) : RTLD_DEFAULT);
  REQUIRE(library.sees_operations() == (late ? 0 : 1));
  // As in PyTorch, where an allocation can be the first thing that a process does with the device.
  void* const first = library.allocate(5, 0, nullptr);
  REQUIRE(first != nullptr && statistics().live_bytes == 5 && statistics().budget_bytes == kBudget);
  REQUIRE(library.allocate(0, 0, nullptr) == nullptr && library.allocate(5, 99, nullptr) == nullptr);
  std::size_t bytes = 0;
  REQUIRE(library.base(static_cast<char*>(first) + 3, &bytes) == first && bytes == 5);
  REQUIRE(library.base(&bytes, &bytes) == nullptr);
  library.free(first, 5, 0, nullptr);

  CUcontext context = nullptr;
  CUstream streams[2];
  REQUIRE(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  for (CUstream& stream : streams) REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  reuse_follows_the_streams(streams[0], streams[1]);
  what_does_not_fit(streams[0], late);
  hints(streams[0], late);
  graphs_keep_their_memory(streams[0]);
  REQUIRE(library.validate() == THERMOCLINE_OK);
  if (!late) REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  library.empty_cache();
  REQUIRE(statistics().live_bytes == 0 && statistics().device_bytes == 0);
  REQUIRE(statistics().peak_device_bytes <= kBudget);
  std::puts("done");
  return 0;
}
