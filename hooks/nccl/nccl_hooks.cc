// SPDX-License-Identifier: Apache-2.0
// The hooks for NCCL's functions (nccl.h).
//
// The engine is told of an operation twice, before and after the call, and the buffers are pinned in between. The
// engine's lock cannot be held during the call, because NCCL may wait for threads of its own that allocate. In a group
// all of this ends when the group ends. If NCCL continues to submit work in the background (non-blocking
// communicators), the buffers stay on the device permanently.
#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/nccl.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/backoff.h"

#include <map>
#include <utility>
#include <vector>

#include "hooks/capture/capture_state.h"
#include "hooks/capture/captures.h"
#include "hooks/operands/escaped.h"
#include "hooks/runtime/counters.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/holding.h"
#include "hooks/submit/submit.h"

namespace thermocline {
namespace {

constexpr const char* kReason = "a collective operation works on it";
constexpr const char* kRecorded = "recorded into a graph, for NCCL";
constexpr const char* kRegistered = "registered with NCCL";

template <Nccl F, class... Arguments>
ncclResult_t real_call(Arguments... arguments) {
  const auto function = reinterpret_cast<ncclResult_t (*)(Arguments...)>(real_nccl(F));
  return function == nullptr ? kNcclInvalidUsage : function(arguments...);
}

// 0: a type that is newer than this table.
Bytes bytes_of(ncclDataType_t type) {
  constexpr Bytes kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && static_cast<std::size_t>(type) < std::size(kBytes) ? kBytes[type] : 0;
}

// If the size is unknown, the whole buffer.
void add(AccessList* accesses, const void* at, std::size_t count, ncclDataType_t type, int times, bool writes) {
  if (at == nullptr || count == 0) return;
  const auto address = reinterpret_cast<CUdeviceptr>(at);
  const Bytes bytes = count * bytes_of(type) * static_cast<Bytes>(times);
  if (bytes == 0) {
    accesses->word(address);
  } else if (writes) {
    accesses->access(address, bytes);
  } else {
    accesses->read(address, bytes);
  }
}

// Buffers that are pinned for the duration of a call or group.
struct Held {
  // The engine of the first buffer. In a process with several devices, NCCL takes a default stream to be that of the
  // communicator's device, not of the current context.
  const ActiveEngine* engine = nullptr;
  StreamHandle stream{};
  OperationInfo info;
  AccessList accesses;
  std::vector<PinnedBuffer> pinned;
};

// The engine may have ended meanwhile, with its context.
template <class Visit>
void for_each_pinned(const Held& held, Visit visit) {
  for (const auto& [active, at, number] : held.pinned) {
    if (Runtime::get().is_there(active) && !Runtime::get().broken()) visit(*active->engine, at, number);
  }
}

void let_go(Held* held) {
  for_each_pinned(*held, [](Engine& engine, DeviceAddress at, std::uint64_t number) { engine.unpin(at, number); });
  held->pinned.clear();
}

// Keeps the buffers pinned until they are freed: NCCL does not tell when it is done with them.
void keep_pinned(const Held& held) {
  for_each_pinned(held, [](Engine& engine, DeviceAddress at, std::uint64_t number) {
    engine.keep_pinned(at, number);
    remember_kept(engine, AccessList().word(at.value));
  });
}

CUresult pin_for_now(Held* held, const char* reason) {
  for (const MemoryAccess& access : held->accesses.all()) {
    const ActiveEngine* const active = owner_now(access.address);
    if (active == nullptr) continue;
    const std::optional<BufferFacts> buffer = active->engine->find(access.address);
    if (!buffer.has_value()) continue;
    const CurrentContext context(*active);
    const Inside inside;
    const CaptureTruce truce;
    const Status status = with_backoff([&] { return active->engine->pin(access.address, reason); });
    if (!status.ok()) return static_cast<CUresult>(status.code());
    held->pinned.push_back({active, buffer->address, buffer->number});
  }
  return CUDA_SUCCESS;
}

CUresult wait_until_fetched(const Held& held) {
  for (const auto& [active, at, number] : held.pinned) {
    const CurrentContext context(*active);
    const Inside inside;
    const CaptureTruce truce;
    if (const CUresult result = wait_until_fetched(*active, at); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult show(const Held& held) {
  AccessList accesses = held.accesses;
  if (!is_explicit(held.stream) && Runtime::get().is_there(held.engine)) {
    const CurrentContext context(*held.engine);
    return submit(held.stream, Host::kGoesOn, std::move(accesses), held.info, [] { return CUDA_SUCCESS; });
  }
  return submit(held.stream, Host::kGoesOn, std::move(accesses), held.info, [] { return CUDA_SUCCESS; });
}

// The nodes that NCCL captures do not name its buffers in a readable form.
CUresult keep_recorded(const Held& held) {
  THERMOCLINE_LOG_ONCE(LogLevel::kInfo,
                       "NCCL was recorded into a graph; the buffers that it works on stay on the device");
  return keep(held.accesses, kRecorded, [] { return CUDA_SUCCESS; });
}

bool hold(Held* held) {
  const CUresult result = guarded([&] {
    if (is_recording(held->stream)) {
      if (const CUresult kept = keep_recorded(*held); kept != CUDA_SUCCESS) return kept;
    }
    const CUresult pinned = pin_for_now(held, kReason);
    return pinned == CUDA_SUCCESS ? show(*held) : pinned;
  });
  if (result == CUDA_SUCCESS) return true;
  let_go(held);
  // The graph would lack the operation that NCCL was to capture.
  captures().refuse(held->stream);
  return false;
}

void finish(Held* held, bool in_background) {
  if (in_background) {
    THERMOCLINE_LOG_ONCE(LogLevel::kInfo,
                         "a communicator of NCCL does not block; the buffers that it works on stay on the device");
    count(Counter::kUnseenCollectives);
    keep_pinned(*held);
  }
  show(*held);
  let_go(held);
}

// The operations of this thread in groups that have not ended.
struct Group {
  int depth = 0;
  std::vector<Held> held;
};
thread_local Group group;

void end_group(ncclResult_t result) {
  if (group.depth == 0 || --group.depth > 0) return;
  std::vector<Held> all;
  all.swap(group.held);
  for (Held& held : all) finish(&held, result == kNcclInProgress);
}

template <Nccl F, class... Arguments>
ncclResult_t collective(AccessList accesses, CUstream stream, Arguments... arguments) {
  const EngineSet* const engines = InNccl::now() ? nullptr : engines_now();
  const InNccl mark;
  if (engines == nullptr) return real_call<F>(arguments...);
  accesses.filter([engines](DeviceAddress address) { return engines->owner(address) != nullptr; });
  if (accesses.empty()) return real_call<F>(arguments...);
  if (Runtime::get().broken()) {
    captures().refuse(legacy(stream));
    return kNcclUnhandledCudaError;
  }
  // Equal for equal operations, and different from the numbers of driver functions.
  const std::uint64_t kind = 0x6E63636C00000000u + static_cast<std::uint64_t>(F);
  const ActiveEngine* const first = engines->owner(accesses.all().front().address);
  Held held{.engine = first,
            .stream = legacy(stream),
            .info = {.kind = kind, .operator_class = OperatorClass::kCopy, .name = name_of(F)},
            .accesses = std::move(accesses),
            .pinned = {}};
  if (!hold(&held)) return kNcclUnhandledCudaError;
  const ncclResult_t result = real_call<F>(arguments...);
  if (group.depth > 0 && result == kNcclSuccess) {
    group.held.push_back(std::move(held));
  } else {
    finish(&held, result == kNcclInProgress);
  }
  return result;
}

struct Registrations {
  Mutex mutex{"registrations with NCCL", lock_level::kLeaf};
  // By the arguments of deregistration.
  std::map<std::pair<ncclComm_t, const void*>, Held> all THERMOCLINE_GUARDED_BY(mutex);
};
Registrations& registrations() { return process_lifetime<Registrations>(); }

// `handle` is set when the call returns, except in a group, where it is set later: then the buffer stays pinned until
// it is freed.
template <Nccl F, class Handle, class... Arguments>
ncclResult_t enter(ncclComm_t comm, void* buffer, Handle* handle, Arguments... arguments) {
  const DeviceAddress at{reinterpret_cast<std::uintptr_t>(buffer)};
  const ActiveEngine* active = InNccl::now() ? nullptr : owner_now(at);
  const InNccl mark;
  if (active == nullptr) return real_call<F>(arguments...);
  if (Runtime::get().broken()) return kNcclUnhandledCudaError;
  Held held{.engine = active, .info = {}, .accesses = AccessList().word(at.value), .pinned = {}};
  const auto pin_until_there = [&] {
    const CUresult result = pin_for_now(&held, kRegistered);
    // Other ranks access the buffer unseen.
    return result == CUDA_SUCCESS ? wait_until_fetched(held) : result;
  };
  if (guarded(pin_until_there) != CUDA_SUCCESS) {
    let_go(&held);
    return kNcclUnhandledCudaError;
  }
  const ncclResult_t result = real_call<F>(arguments...);
  if (result != kNcclSuccess && result != kNcclInProgress) {
    let_go(&held);
  } else if (result == kNcclSuccess && group.depth == 0 && handle != nullptr && *handle != nullptr) {
    const MutexLock lock(registrations().mutex);
    registrations().all.insert_or_assign({comm, *handle}, std::move(held));
  } else {
    keep_pinned(held);
    let_go(&held);
  }
  return result;
}

template <Nccl F, class... Arguments>
ncclResult_t leave(ncclComm_t comm, const void* handle, Arguments... arguments) {
  const InNccl mark;
  const ncclResult_t result = real_call<F>(arguments...);
  if (result != kNcclSuccess) return result;
  Held held;
  {
    const MutexLock lock(registrations().mutex);
    auto found = registrations().all.extract({comm, handle});
    if (found.empty()) return result;
    held = std::move(found.mapped());
  }
  // The buffer may have been written at any time since, so earlier host copies are invalid.
  if (Runtime::get().is_there(held.engine)) {
    const CurrentContext context(*held.engine);
    show(held);
  }
  let_go(&held);
  return result;
}

template <Nccl F, class... Arguments>
ncclResult_t inside_nccl(Arguments... arguments) {
  const InNccl mark;
  return real_call<F>(arguments...);
}

}  // namespace

bool nccl_launches() {
  if (InNccl::now()) return true;
  THERMOCLINE_LOG_ONCE(
      LogLevel::kWarning,
      "NCCL is called in a way that is not seen (linked statically?); its buffers may be non-resident");
  count(Counter::kUnseenCollectives);
  return false;
}

void* hook_of_nccl(int index) {
  switch (static_cast<Nccl>(index)) {
#define THERMOCLINE_X(name, parameters) \
  case Nccl::name:                      \
    return reinterpret_cast<void*>(&::name);
    THERMOCLINE_NCCL_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
    default:
      return nullptr;
  }
}

}  // namespace thermocline

using namespace thermocline;  // NOLINT: what follows is NCCL's interface alone

// A tool loaded before this library that uses NCCL's own mechanism (pncclX) must get this hook too.
#define THERMOCLINE_NCCL(name, parameters, ...)             \
  ncclResult_t name parameters {                            \
    [[maybe_unused]] constexpr Nccl kFunction = Nccl::name; \
    __VA_ARGS__                                             \
  }                                                         \
  __attribute__((alias(#name))) ncclResult_t p##name parameters

extern "C" {

THERMOCLINE_NCCL(ncclAllReduce,
                 (const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                  ncclComm_t comm, CUstream stream),
                 {
                   AccessList accesses;
                   add(&accesses, send, count, type, 1, false);
                   add(&accesses, receive, count, type, 1, true);
                   return collective<kFunction>(std::move(accesses), stream, send, receive, count, type, op, comm,
                                                stream);
                 });

THERMOCLINE_NCCL(ncclBroadcast,
                 (const void* send, void* receive, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                  CUstream stream),
                 {
                   AccessList accesses;
                   add(&accesses, send, count, type, 1, false);
                   add(&accesses, receive, count, type, 1, true);
                   return collective<kFunction>(std::move(accesses), stream, send, receive, count, type, root, comm,
                                                stream);
                 });

THERMOCLINE_NCCL(ncclBcast,
                 (void* buffer, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm, CUstream stream), {
                   AccessList accesses;
                   add(&accesses, buffer, count, type, 1, true);
                   return collective<kFunction>(std::move(accesses), stream, buffer, count, type, root, comm, stream);
                 });

THERMOCLINE_NCCL(ncclReduce,
                 (const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                  ncclComm_t comm, CUstream stream),
                 {
                   AccessList accesses;
                   add(&accesses, send, count, type, 1, false);
                   add(&accesses, receive, count, type, 1, true);
                   return collective<kFunction>(std::move(accesses), stream, send, receive, count, type, op, root, comm,
                                                stream);
                 });

THERMOCLINE_NCCL(ncclAllGather,
                 (const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                  CUstream stream),
                 {
                   AccessList accesses;
                   add(&accesses, send, count, type, 1, false);
                   add(&accesses, receive, count, type, ranks_of(comm), true);
                   return collective<kFunction>(std::move(accesses), stream, send, receive, count, type, comm, stream);
                 });

THERMOCLINE_NCCL(ncclReduceScatter,
                 (const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                  ncclComm_t comm, CUstream stream),
                 {
                   AccessList accesses;
                   add(&accesses, send, count, type, ranks_of(comm), false);
                   add(&accesses, receive, count, type, 1, true);
                   return collective<kFunction>(std::move(accesses), stream, send, receive, count, type, op, comm,
                                                stream);
                 });

THERMOCLINE_NCCL(ncclAlltoAll,
                 (const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                  CUstream stream),
                 {
                   AccessList accesses;
                   add(&accesses, send, count, type, ranks_of(comm), false);
                   add(&accesses, receive, count, type, ranks_of(comm), true);
                   return collective<kFunction>(std::move(accesses), stream, send, receive, count, type, comm, stream);
                 });

// In gather and scatter, the buffer that only the root uses may have any size on other ranks.
THERMOCLINE_NCCL(ncclGather,
                 (const void* send, void* receive, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                  CUstream stream),
                 {
                   AccessList accesses;
                   add(&accesses, send, count, type, 1, false);
                   add(&accesses, receive, count, type, 0, true);
                   return collective<kFunction>(std::move(accesses), stream, send, receive, count, type, root, comm,
                                                stream);
                 });

THERMOCLINE_NCCL(ncclScatter,
                 (const void* send, void* receive, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                  CUstream stream),
                 {
                   AccessList accesses;
                   add(&accesses, send, count, type, 0, false);
                   add(&accesses, receive, count, type, 1, true);
                   return collective<kFunction>(std::move(accesses), stream, send, receive, count, type, root, comm,
                                                stream);
                 });

THERMOCLINE_NCCL(ncclSend,
                 (const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream),
                 {
                   AccessList accesses;
                   add(&accesses, send, count, type, 1, false);
                   return collective<kFunction>(std::move(accesses), stream, send, count, type, peer, comm, stream);
                 });

THERMOCLINE_NCCL(ncclRecv,
                 (void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream), {
                   AccessList accesses;
                   add(&accesses, receive, count, type, 1, true);
                   return collective<kFunction>(std::move(accesses), stream, receive, count, type, peer, comm, stream);
                 });

THERMOCLINE_NCCL(ncclPutSignal,
                 (const void* local, std::size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                  std::size_t offset, int signal, int context, unsigned int flags, ncclComm_t comm, CUstream stream),
                 {
                   AccessList accesses;
                   add(&accesses, local, count, type, 1, false);
                   return collective<kFunction>(std::move(accesses), stream, local, count, type, peer, window, offset,
                                                signal, context, flags, comm, stream);
                 });

THERMOCLINE_NCCL(ncclGroupStart, (), {
  const bool nested = InNccl::now();
  const ncclResult_t result = inside_nccl<kFunction>();
  if (result == kNcclSuccess && !nested) ++group.depth;
  return result;
});

THERMOCLINE_NCCL(ncclGroupEnd, (), {
  const bool nested = InNccl::now();
  const ncclResult_t result = inside_nccl<kFunction>();
  if (!nested) end_group(result);
  return result;
});

THERMOCLINE_NCCL(ncclGroupSimulateEnd, (ncclSimInfo_t * info), {
  const bool nested = InNccl::now();
  const ncclResult_t result = inside_nccl<kFunction>(info);
  if (!nested) end_group(result);
  return result;
});

THERMOCLINE_NCCL(ncclCommRegister, (ncclComm_t comm, void* buffer, std::size_t bytes, void** handle),
                 { return enter<kFunction>(comm, buffer, handle, comm, buffer, bytes, handle); });

THERMOCLINE_NCCL(ncclCommDeregister, (ncclComm_t comm, void* handle),
                 { return leave<kFunction>(comm, handle, comm, handle); });

THERMOCLINE_NCCL(ncclCommWindowRegister,
                 (ncclComm_t comm, void* buffer, std::size_t bytes, ncclWindow_t* window, int flags),
                 { return enter<kFunction>(comm, buffer, window, comm, buffer, bytes, window, flags); });

THERMOCLINE_NCCL(ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t window),
                 { return leave<kFunction>(comm, window, comm, window); });

// A scalar on the device is read each time the operation runs.
THERMOCLINE_NCCL(ncclRedOpCreatePreMulSum,
                 (ncclRedOp_t * op, void* scalar, ncclDataType_t type, int residence, ncclComm_t comm), {
                   const CUresult kept = keep(AccessList().word(reinterpret_cast<CUdeviceptr>(scalar)),
                                              "NCCL multiplies by it", [] { return CUDA_SUCCESS; });
                   if (kept != CUDA_SUCCESS) return kNcclUnhandledCudaError;
                   return inside_nccl<kFunction>(op, scalar, type, residence, comm);
                 });

THERMOCLINE_NCCL(ncclMemAlloc, (void** out, std::size_t bytes), { return inside_nccl<kFunction>(out, bytes); });
THERMOCLINE_NCCL(ncclMemFree, (void* at), { return inside_nccl<kFunction>(at); });
THERMOCLINE_NCCL(ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank),
                 { return inside_nccl<kFunction>(comm, ranks, id, rank); });
THERMOCLINE_NCCL(ncclCommInitRankConfig,
                 (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config),
                 { return inside_nccl<kFunction>(comm, ranks, id, rank, config); });
THERMOCLINE_NCCL(ncclCommInitRankScalable,
                 (ncclComm_t * comm, int ranks, int rank, int ids, ncclUniqueId* id, ncclConfig_t* config),
                 { return inside_nccl<kFunction>(comm, ranks, rank, ids, id, config); });
THERMOCLINE_NCCL(ncclCommInitAll, (ncclComm_t * comms, int count, const int* devices),
                 { return inside_nccl<kFunction>(comms, count, devices); });
THERMOCLINE_NCCL(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config),
                 { return inside_nccl<kFunction>(comm, color, key, out, config); });
THERMOCLINE_NCCL(ncclCommShrink,
                 (ncclComm_t comm, int* excluded, int count, ncclComm_t* out, ncclConfig_t* config, int flags),
                 { return inside_nccl<kFunction>(comm, excluded, count, out, config, flags); });
THERMOCLINE_NCCL(ncclCommFinalize, (ncclComm_t comm), { return inside_nccl<kFunction>(comm); });
THERMOCLINE_NCCL(ncclCommDestroy, (ncclComm_t comm), { return inside_nccl<kFunction>(comm); });
THERMOCLINE_NCCL(ncclCommAbort, (ncclComm_t comm), { return inside_nccl<kFunction>(comm); });

}  // extern "C"
