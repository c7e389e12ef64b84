// SPDX-License-Identifier: Apache-2.0
// How every hook that orders work reaches the driver: what it accesses is shown to the engine, then the driver is
// called, under one scope, so that nothing that is accessed can leave in between. What belongs to several engines is
// shown to each (multi_device.h).
//
// While a stream records a graph, work is not run: what it accesses is of no matter before the graph is launched
// (graph_execs.h).
#pragma once

#include <type_traits>
#include <utility>

#include "hooks/interpose/symbols.h"
#include "hooks/operands/accesses.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/runtime.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {

enum class Host {
  kGoesOn,   // the call returns before the work has run; but copies of pageable memory, which submit() tells apart
  kMayGoOn,  // so does a call that is not asynchronous by name: it waits where a buffer asks for that (sync_memops.h)
  kWaits,    // it returns when the work has run
  kWaitsFirst,   // it waits for what was submitted before, and perhaps for the work
  kReadsAtOnce,  // the work may read its source before its turn in the stream: all that it needs has to be there
};

// `accesses` may name anything; what is not ours is left out of it: where it is, since some threads have little stack.
CUresult submit(StreamHandle stream, Host host, AccessList&& accesses, OperationInfo info, Call call);
// A copy that names no context. `in_another`: the same in a given stream, where it has to be (proxy_streams.h).
CUresult submit_copy(StreamHandle stream, Host host, AccessList&& accesses, OperationInfo info, Call call,
                     CallIn in_another);
// A copy to the host, of one range. `from_host`: the same out of that memory of ours, where what it reads is evicted,
// submitted to the stream; what the call waits for is waited for behind it.
CUresult submit_copy_to_host(StreamHandle stream, Host host, AccessList&& accesses, OperationInfo info, Call call,
                             CallIn in_another, CallFrom from_host);
// Nothing is known about what the work accesses.
CUresult submit_unknown(StreamHandle stream, Call call);

// Before a call that lets somebody else keep the addresses: their buffers come to the device and stay. An error: the
// call is not made.
CUresult keep(const AccessList& accesses, const char* reason, Call call);

// Whether a call that succeeds has written all of the ranges that it names. Of a batch that ends with an error, part
// may have been submitted; of what is decompressed the size is a guess (cuda.h, CUmemDecompressParams::dstNumBytes).
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

// Of copies and sets.
template <Function F>
OperationInfo info_of_copy() {
  return {.kind = static_cast<std::uint64_t>(F) + 1,
          .operator_class = OperatorClass::kCopy,
          .name = hooked_functions()[static_cast<std::size_t>(F)].base,
          .overwrites = fills_what_it_names(F)};
}

// What a hook looks like: as long as nothing of ours exists, a call.
template <Function F, class... Arguments>
CUresult operate(StreamHandle stream, Host host, AccessList&& accesses, Arguments... arguments) {
  return submit(stream, host, std::move(accesses), info_of_copy<F>(), [&] { return real<F>(arguments...); });
}

}  // namespace thermocline
