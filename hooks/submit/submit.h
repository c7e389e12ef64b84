// SPDX-License-Identifier: Apache-2.0
// The common path of all hooks that submit work: the engine is told what the operation accesses, then the driver is
// called, in one scope, so that nothing that is accessed can be evicted in between. If the memory belongs to several
// engines, each of them is told (multi_device.h).
//
// While a stream captures a graph, work is not run: what it accesses does not matter before the graph is launched
// (graph_execs.h).
#pragma once

#include <type_traits>
#include <utility>

#include "hooks/interpose/symbols.h"
#include "hooks/operands/accesses.h"
#include "hooks/relaunch/known_launch.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/runtime.h"
#include "hooks/runtime/stream_context.h"
#include "hooks/submit/upload_copies.h"

namespace thermocline {

enum class Host {
  kGoesOn,      // the call returns before the work has run; except copies of pageable memory, which submit() recognizes
  kMayGoOn,     // the same, though it is not asynchronous by name; waits if a buffer asks for it (sync_memops.h)
  kWaits,       // the call returns when the work has run
  kWaitsFirst,  // the call waits for what was submitted before, and perhaps for the work
  // the work may read its source before its turn in the stream, so everything must be there before the call
  kReadsAtOnce,
};

// `accesses` may name any memory. Memory that no engine owns is removed from the list in place, because some threads
// have small stacks.
CUresult submit(StreamHandle stream, Host host, AccessList&& accesses, const OperationInfo& info, Call call);
// A copy that names no context. `in_another`: makes the same copy in a given stream, if necessary
// (proxy_streams.h). `from_host`: submits the same copy from the host copy of its source
// (OperationInfo::reads_host_copy). Null: the source is fetched. `by_way`: submits the same upload by way of host memory
// that keeps its contents. Null: that is not wanted. In both cases the host waits for the copy afterwards if the call
// waits.
CUresult submit_copy(StreamHandle stream, Host host, AccessList&& accesses, const OperationInfo& info, Call call,
                     CallIn in_another, const CallFrom* from_host, const UploadByWay* by_way = nullptr);
// A copy of a batch, or one that names its contexts. Such a copy is never made in another stream.
CUresult submit_copy(StreamHandle stream, Host host, AccessList&& accesses, const OperationInfo& info, Call call,
                     const CallFrom* from_host);
// For work whose accesses are unknown.
CUresult submit_unknown(StreamHandle stream, Call call);

// Whether an audit has found a fault and logged it.
bool audit_fault_was_said();

// Before a call through which something else keeps the addresses: fetches their buffers and pins them. On an error the
// call is not made; if the call fails, they are unpinned.
CUresult keep(const AccessList& accesses, const char* reason, Call call);

// Whether a successful call has written all of the ranges that it names. A batch that fails may have been submitted in
// part; the size of decompressed data is a guess (cuda.h, CUmemDecompressParams::dstNumBytes).
constexpr bool fills_what_it_names(Function function) {
  switch (function) {
    case Function::cuMemBatchDecompressAsync:
    case Function::cuMemBatchDecompressAsync_ptsz:
    case Function::cuMemcpyBatchAsync:
    case Function::cuMemcpyBatchAsync_ptsz:
    case Function::cuMemcpyBatchAsync_v2:
    case Function::cuMemcpyBatchAsync_v2_ptsz:
    case Function::cuMemcpy3DBatchAsync:
    case Function::cuMemcpy3DBatchAsync_ptsz:
    case Function::cuMemcpy3DBatchAsync_v2:
    case Function::cuMemcpy3DBatchAsync_v2_ptsz:
      return false;
    default:
      return true;
  }
}

// For copies and sets.
template <Function F>
OperationInfo info_of_copy() {
  return {.kind = static_cast<std::uint64_t>(F) + 1,
          .operator_class = OperatorClass::kCopy,
          .name = hooked_functions()[static_cast<std::size_t>(F)].base,
          .overwrites = fills_what_it_names(F),
          .may_fail_halfway = !fills_what_it_names(F),
          .relaunch = vouch_for_what_is_named()};
}

// The typical hook: as long as there is no engine, it only calls the driver.
template <Function F, class... Arguments>
CUresult operate(StreamHandle stream, Host host, AccessList&& accesses, Arguments... arguments) {
  return submit(stream, host, std::move(accesses), info_of_copy<F>(), [&] { return real<F>(arguments...); });
}

}  // namespace thermocline
