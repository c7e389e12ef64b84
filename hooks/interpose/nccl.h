// SPDX-License-Identifier: Apache-2.0
// NCCL's public functions, as far as they are given memory of the program or allocate memory. NCCL allows others to
// replace every `ncclX` and provides its own function under the name `pncclX`. So its functions are exported here and
// call the copy of NCCL that the process has loaded. Types and values: nccl.h of NCCL 2.28 and 2.30, which need not be
// installed.
//
// Invariants:
//   - The buffers that a call names are on the device and stay there until the call, or the group that contains it, has
//     been submitted; after that its stream has used them, as with any operation. Registered buffers stay until they
//     are deregistered.
//   - NCCL's own memory is the driver's, and counts against the budget. It is recognized by its allocator: a thread
//     inside one of these calls, or code of a library whose name begins with libnccl (NCCL's own threads).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hooks/interpose/cuda_api.h"
#include "hooks/interpose/functions.h"

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.
using ncclResult_t = int;
using ncclDataType_t = int;
using ncclRedOp_t = int;
using ncclComm_t = struct ncclComm*;
using ncclWindow_t = void*;
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t;
struct ncclSimInfo_t;

// X(name, parameters)
// clang-format off
#define THERMOCLINE_NCCL_FUNCTIONS(X) \
  X(ncclAllReduce, (const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, CUstream stream)) \
  X(ncclBroadcast, (const void* send, void* receive, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm, CUstream stream)) \
  X(ncclBcast, (void* buffer, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm, CUstream stream)) \
  X(ncclReduce, (const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm, CUstream stream)) \
  X(ncclAllGather, (const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t comm, CUstream stream)) \
  X(ncclReduceScatter, (const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, CUstream stream)) \
  X(ncclAlltoAll, (const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t comm, CUstream stream)) \
  X(ncclGather, (const void* send, void* receive, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm, CUstream stream)) \
  X(ncclScatter, (const void* send, void* receive, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm, CUstream stream)) \
  X(ncclSend, (const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream)) \
  X(ncclRecv, (void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream)) \
  X(ncclPutSignal, (const void* local, std::size_t count, ncclDataType_t type, int peer, ncclWindow_t window, std::size_t offset, int signal, int context, unsigned int flags, ncclComm_t comm, CUstream stream)) \
  X(ncclGroupStart, ()) \
  X(ncclGroupEnd, ()) \
  X(ncclGroupSimulateEnd, (ncclSimInfo_t * info)) \
  X(ncclCommRegister, (ncclComm_t comm, void* buffer, std::size_t bytes, void** handle)) \
  X(ncclCommDeregister, (ncclComm_t comm, void* handle)) \
  X(ncclCommWindowRegister, (ncclComm_t comm, void* buffer, std::size_t bytes, ncclWindow_t * window, int flags)) \
  X(ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t window)) \
  X(ncclRedOpCreatePreMulSum, (ncclRedOp_t * op, void* scalar, ncclDataType_t type, int residence, ncclComm_t comm)) \
  X(ncclMemAlloc, (void** out, std::size_t bytes)) \
  X(ncclMemFree, (void* at)) \
  X(ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank)) \
  X(ncclCommInitRankConfig, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config)) \
  X(ncclCommInitRankScalable, (ncclComm_t * comm, int ranks, int rank, int ids, ncclUniqueId* id, ncclConfig_t* config)) \
  X(ncclCommInitAll, (ncclComm_t * comms, int count, const int* devices)) \
  X(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config)) \
  X(ncclCommShrink, (ncclComm_t comm, int* excluded, int count, ncclComm_t* out, ncclConfig_t* config, int flags)) \
  X(ncclCommFinalize, (ncclComm_t comm)) \
  X(ncclCommDestroy, (ncclComm_t comm)) \
  X(ncclCommAbort, (ncclComm_t comm))

// clang-format on

#pragma GCC visibility push(default)
extern "C" {
#define THERMOCLINE_X(name, parameters) \
  ncclResult_t name parameters;         \
  ncclResult_t p##name parameters;
THERMOCLINE_NCCL_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
}
#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)

namespace thermocline {

enum class Nccl : std::uint8_t {
#define THERMOCLINE_X(name, parameters) name,
  THERMOCLINE_NCCL_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
      kCount
};

inline constexpr ncclResult_t kNcclSuccess = 0, kNcclUnhandledCudaError = 1, kNcclInvalidUsage = 5, kNcclInProgress = 7;

// Index of the function in Nccl, or -1.
int find_nccl(std::string_view name);
const char* name_of(Nccl function);
void* hook_of_nccl(int index);
// The function in the process's copy of NCCL; null if there is no copy, or it lacks the function.
void* real_nccl(Nccl function);
// The hook for the function that a search has found; null if that is not in the known copy of NCCL.
void* hook_for_nccl(int index, const void* found);
// ncclCommCount of that copy; 0 if it is not available.
int ranks_of(ncclComm_t comm);

// While an object of this class lives, this thread runs code of NCCL.
class InNccl {
 public:
  InNccl();
  ~InNccl();
  InNccl(const InNccl&) = delete;
  InNccl& operator=(const InNccl&) = delete;
  static bool now();
  // Whether any thread ever has, since the process began.
  static bool ever();
};

// True for a call from code of NCCL, according to its return address, or on a thread inside NCCL.
bool is_of_nccl(const void* return_address);

bool is_kernel_of_nccl(const char* name);
// An NCCL kernel is launched. Whether it is known which call launched it; if not, it is counted.
bool nccl_launches();

}  // namespace thermocline
