// SPDX-License-Identifier: Apache-2.0
// A library with NCCL's name and API for several ranks in one process, on one device. It moves bytes in a way that
// looks like NCCL from outside: its kernel is given an entry of a queue in pinned memory and finds its operands there,
// with scratch memory of its own, which a thread of the library has allocated. So nothing that the kernel accesses is
// among its parameters. The counter in the scratch memory goes into all results.
//
// All ranks of a communicator take part in each group; a collective of several ranks must be in a group.
#include <vector_types.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/preload/programs/nccl/api.h"

// An alias need not repeat attributes that the compiler has deduced for its target.
#pragma GCC diagnostic ignored "-Wmissing-attributes"

// Defines NCCL's own names, and weakly the names that others may replace.
#define FAKE(name, ...)                                                                            \
  extern "C" __attribute__((visibility("default"))) int p##name(__VA_ARGS__);                      \
  extern "C" __attribute__((visibility("default"), weak, alias("p" #name))) int name(__VA_ARGS__); \
  extern "C" __attribute__((visibility("default"))) int p##name(__VA_ARGS__)

namespace {

constexpr int kMostRanks = 4;
constexpr std::size_t kEntries = 1024;
constexpr std::size_t kScratchWords = std::size_t{1} << 18;

const char kImage[] = R"(.version 8.0
.target sm_70
.address_size 64
.visible .entry ncclDevKernel_Fake(.param .u64 entry)
{
  ret;
}
.visible .entry card(.param .u64 entry)
{
  ret;
}
)";

enum class Kind { kAllReduce, kBroadcast, kReduce, kAllGather, kReduceScatter, kSendReceive, kDeliver };

struct Entry {
  Kind kind = Kind::kAllReduce;
  int ranks = 0, root = 0;
  std::size_t count = 0;
  const std::uint32_t* send[kMostRanks] = {};
  std::uint32_t* receive[kMostRanks] = {};
  std::uint32_t* scratch = nullptr;
};

struct Call {
  Kind kind;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  ncclComm_t comm;
  CUstream stream;
};

struct Clique {
  CUmodule module = nullptr;
  CUfunction kernel = nullptr, card = nullptr;
  Entry* queue = nullptr;
  std::size_t next = 0;
  CUdeviceptr scratch = 0;
  int members = 0;
  std::vector<std::pair<void*, std::size_t>> registered;
  bool background = false;
  std::deque<std::vector<Call>> waiting;
};

thread_local int group_depth = 0;
thread_local std::vector<Call> group;

}  // namespace

struct ncclComm {
  int rank = 0, ranks = 0;
  std::shared_ptr<Clique> clique;
};

namespace {

#define TRY(call)                                                   \
  do {                                                              \
    if ((call) != CUDA_SUCCESS) return int{ncclUnhandledCudaError}; \
  } while (false)

int launch(Clique& clique, CUfunction kernel, const Entry& entry, CUstream stream) {
  if (clique.next == kEntries) return ncclInvalidUsage;
  Entry* const slot = new (&clique.queue[clique.next++]) Entry(entry);
  slot->scratch = reinterpret_cast<std::uint32_t*>(clique.scratch);
  auto at = reinterpret_cast<std::uintptr_t>(slot);
  void* block[] = {&at};
  TRY(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, block, nullptr));
  return ncclSuccess;
}

// One kernel on the first stream, ordered after everything in all streams; and all of them after it.
int run_together(Clique& clique, const Entry& entry, const std::vector<Call>& calls) {
  std::vector<CUevent> events;
  const CUstream first = calls.front().stream;
  const auto wait = [&](CUstream behind, CUstream waits) {
    if (behind == waits) return CUDA_SUCCESS;
    CUevent event = nullptr;
    CUresult result = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) return result;
    events.push_back(event);
    result = cuEventRecord(event, behind);
    return result == CUDA_SUCCESS ? cuStreamWaitEvent(waits, event, 0) : result;
  };
  for (const Call& call : calls) TRY(wait(call.stream, first));
  if (const int result = launch(clique, clique.kernel, entry, first); result != ncclSuccess) return result;
  for (const Call& call : calls) TRY(wait(first, call.stream));
  for (CUevent event : events) cuEventDestroy(event);
  return ncclSuccess;
}

// The calls of one clique: the first of each rank belong together, then the second.
int run(Clique& clique, std::deque<Call> calls) {
  while (!calls.empty()) {
    const Call first = calls.front();
    Entry entry{.kind = first.kind, .ranks = first.comm->ranks, .root = first.root, .count = first.count};
    std::vector<Call> together;
    for (auto at = calls.begin(); at != calls.end();) {
      const auto rank = static_cast<std::size_t>(at->comm->rank);
      const bool pair = first.kind == Kind::kSendReceive;
      const bool taken = at->send != nullptr ? entry.send[rank] != nullptr : entry.receive[rank] != nullptr;
      if (at->kind != first.kind || at->count != first.count || taken) {
        ++at;
        continue;
      }
      if (at->send != nullptr) entry.send[rank] = static_cast<const std::uint32_t*>(at->send);
      if (at->receive != nullptr) entry.receive[rank] = static_cast<std::uint32_t*>(at->receive);
      if (pair && at->receive != nullptr) entry.root = at->root;
      together.push_back(*at);
      at = calls.erase(at);
    }
    const std::size_t needed = static_cast<std::size_t>(first.kind == Kind::kSendReceive ? 2 : first.comm->ranks);
    if (together.size() != needed) return ncclInvalidUsage;
    if (const int result = run_together(clique, entry, together); result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

int run_or_wait(const std::vector<Call>& calls) {
  std::map<Clique*, std::deque<Call>> by_clique;
  for (const Call& call : calls) by_clique[call.comm->clique.get()].push_back(call);
  int result = ncclSuccess;
  for (auto& [clique, own] : by_clique) {
    if (clique->background) {
      clique->waiting.emplace_back(own.begin(), own.end());
      result = ncclInProgress;
    } else if (const int one = run(*clique, own); one != ncclSuccess) {
      return one;
    }
  }
  return result;
}

int add(const Call& call) {
  if (group_depth == 0) return run_or_wait({call});
  group.push_back(call);
  return ncclSuccess;
}

int make(Clique& clique) {
  CUcontext context = nullptr;
  TRY(cuCtxGetCurrent(&context));
  TRY(cuModuleLoadData(&clique.module, kImage));
  TRY(cuModuleGetFunction(&clique.kernel, clique.module, "ncclDevKernel_Fake"));
  TRY(cuModuleGetFunction(&clique.card, clique.module, "card"));
  TRY(cuMemAllocHost(reinterpret_cast<void**>(&clique.queue), kEntries * sizeof(Entry)));
  int result = ncclSuccess;
  std::thread([&] {
    if (cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&clique.scratch, kScratchWords * 4) != CUDA_SUCCESS ||
        cuMemsetD32(clique.scratch, 0, kScratchWords) != CUDA_SUCCESS || cuCtxSynchronize() != CUDA_SUCCESS)
      result = ncclUnhandledCudaError;
  }).join();
  return result;
}

void reduce(const Entry& entry, std::size_t from, std::size_t count, std::uint32_t* to) {
  std::uint32_t* const scratch = entry.scratch + 1;
  for (std::size_t begin = 0; begin < count; begin += kScratchWords - 1) {
    const std::size_t words = std::min(kScratchWords - 1, count - begin);
    std::memset(scratch, 0, words * 4);
    for (int rank = 0; rank < entry.ranks; ++rank) {
      for (std::size_t i = 0; i < words; ++i) scratch[i] += entry.send[rank][from + begin + i];
    }
    for (std::size_t i = 0; i < words; ++i) to[begin + i] = scratch[i] + entry.scratch[0];
  }
}

void copy(const Entry& entry, const std::uint32_t* from, std::uint32_t* to) {
  for (std::size_t i = 0; i < entry.count; ++i) to[i] = from[i] + entry.scratch[0];
}

void work(const Entry& entry) {
  ++entry.scratch[0];
  const auto count = entry.count;
  switch (entry.kind) {
    case Kind::kAllReduce: {
      // Operations may be in place: everything is read before anything is written.
      std::vector<std::uint32_t> sum(count);
      reduce(entry, 0, count, sum.data());
      for (int rank = 0; rank < entry.ranks; ++rank) std::memcpy(entry.receive[rank], sum.data(), count * 4);
      return;
    }
    case Kind::kReduce:
      return reduce(entry, 0, count, entry.receive[entry.root]);
    case Kind::kReduceScatter:
      for (int rank = 0; rank < entry.ranks; ++rank)
        reduce(entry, static_cast<std::size_t>(rank) * count, count, entry.receive[rank]);
      return;
    case Kind::kBroadcast:
      for (int rank = 0; rank < entry.ranks; ++rank) copy(entry, entry.send[entry.root], entry.receive[rank]);
      return;
    case Kind::kAllGather:
      for (int rank = 0; rank < entry.ranks; ++rank) {
        for (int from = 0; from < entry.ranks; ++from)
          copy(entry, entry.send[from], entry.receive[rank] + static_cast<std::size_t>(from) * count);
      }
      return;
    case Kind::kSendReceive:
      for (int rank = 0; rank < entry.ranks; ++rank) {
        if (entry.receive[rank] != nullptr) copy(entry, entry.send[entry.root], entry.receive[rank]);
      }
      return;
    case Kind::kDeliver:
      for (std::size_t i = 0; i < count; ++i) entry.receive[0][i] = entry.receive[0][i] * 3 + entry.scratch[0];
      return;
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void simulated_ncclDevKernel_Fake(void** arguments, dim3, dim3) {
  const Entry* entry;
  std::memcpy(&entry, arguments[0], sizeof entry);
  work(*entry);
}

extern "C" __attribute__((visibility("default"))) void simulated_card(void** arguments, dim3 grid, dim3 block) {
  simulated_ncclDevKernel_Fake(arguments, grid, block);
}

FAKE(ncclCommInitAll, ncclComm_t* comms, int count, const int*) {
  if (count < 1 || count > kMostRanks) return ncclInvalidArgument;
  const auto clique = std::make_shared<Clique>();
  if (const int result = make(*clique); result != ncclSuccess) return result;
  clique->members = count;
  for (int rank = 0; rank < count; ++rank) comms[rank] = new ncclComm{rank, count, clique};
  return ncclSuccess;
}

FAKE(ncclCommDestroy, ncclComm_t comm) {
  Clique& clique = *comm->clique;
  if (--clique.members == 0) {
    TRY(cuCtxSynchronize());
    TRY(cuMemFree(clique.scratch));
    TRY(cuMemFreeHost(clique.queue));
    TRY(cuModuleUnload(clique.module));
  }
  delete comm;
  return ncclSuccess;
}

FAKE(ncclCommCount, ncclComm_t comm, int* count) {
  *count = comm->ranks;
  return ncclSuccess;
}

FAKE(ncclCommGetAsyncError, ncclComm_t comm, int* result) {
  Clique& clique = *comm->clique;
  *result = ncclSuccess;
  for (; !clique.waiting.empty() && *result == ncclSuccess; clique.waiting.pop_front()) {
    const std::vector<Call>& calls = clique.waiting.front();
    *result = run(clique, {calls.begin(), calls.end()});
  }
  return ncclSuccess;
}

FAKE(ncclAllReduce, const void* send, void* receive, size_t count, int, int, ncclComm_t comm, CUstream stream) {
  return add({Kind::kAllReduce, send, receive, count, 0, comm, stream});
}
FAKE(ncclBroadcast, const void* send, void* receive, size_t count, int, int root, ncclComm_t comm, CUstream stream) {
  return add({Kind::kBroadcast, send, receive, count, root, comm, stream});
}
FAKE(ncclReduce, const void* send, void* receive, size_t count, int, int, int root, ncclComm_t comm, CUstream stream) {
  return add({Kind::kReduce, send, receive, count, root, comm, stream});
}
FAKE(ncclAllGather, const void* send, void* receive, size_t count, int, ncclComm_t comm, CUstream stream) {
  return add({Kind::kAllGather, send, receive, count, 0, comm, stream});
}
FAKE(ncclReduceScatter, const void* send, void* receive, size_t count, int, int, ncclComm_t comm, CUstream stream) {
  return add({Kind::kReduceScatter, send, receive, count, 0, comm, stream});
}
FAKE(ncclSend, const void* send, size_t count, int, int peer, ncclComm_t comm, CUstream stream) {
  return add({Kind::kSendReceive, send, nullptr, count, peer, comm, stream});
}
FAKE(ncclRecv, void* receive, size_t count, int, int peer, ncclComm_t comm, CUstream stream) {
  return add({Kind::kSendReceive, nullptr, receive, count, peer, comm, stream});
}

FAKE(ncclGroupStart, void) {
  ++group_depth;
  return ncclSuccess;
}

FAKE(ncclGroupEnd, void) {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth > 0) return ncclSuccess;
  std::vector<Call> calls;
  calls.swap(group);
  return run_or_wait(calls);
}

FAKE(ncclCommRegister, ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  comm->clique->registered.emplace_back(buffer, bytes);
  *handle = buffer;
  return ncclSuccess;
}

FAKE(ncclCommDeregister, ncclComm_t comm, void* handle) {
  return std::erase_if(comm->clique->registered, [&](const auto& one) { return one.first == handle; }) == 1
             ? int{ncclSuccess}
             : int{ncclInvalidArgument};
}

FAKE(ncclMemAlloc, void** out, size_t bytes) {
  TRY(cuMemAlloc(reinterpret_cast<CUdeviceptr*>(out), bytes));
  return ncclSuccess;
}

FAKE(ncclMemFree, void* at) {
  TRY(cuMemFree(reinterpret_cast<CUdeviceptr>(at)));
  return ncclSuccess;
}

extern "C" __attribute__((visibility("default"))) int fakeDeliver(ncclComm_t comm, CUstream stream) {
  for (const auto& [buffer, bytes] : comm->clique->registered) {
    Entry entry{.kind = Kind::kDeliver, .count = bytes / 4};
    entry.receive[0] = static_cast<std::uint32_t*>(buffer);
    if (const int result = launch(*comm->clique, comm->clique->card, entry, stream); result != ncclSuccess)
      return result;
  }
  return ncclSuccess;
}

extern "C" __attribute__((visibility("default"))) void fakeGoToBackground(ncclComm_t comm) {
  comm->clique->background = true;
}
