// SPDX-License-Identifier: Apache-2.0
// How every hook that orders work reaches the driver: what it accesses is shown to the engine, then the driver is
// called, under one scope, so that nothing that is accessed can leave in between. What belongs to several engines is
// shown to each (spanning.h).
//
// While a stream records a graph, work is not run: what it accesses is of no matter before the graph is launched
// (graph_execs.h).
#pragma once

#include <type_traits>
#include <utility>

#include "hooks/accesses.h"
#include "hooks/places.h"
#include "hooks/runtime.h"
#include "hooks/symbols.h"

namespace thermocline {

// The stream that a hook was given, as the engine knows it. 0 and CU_STREAM_LEGACY are one stream; in the per-thread
// variants 0 means the thread's own.
StreamHandle legacy(CUstream stream);
StreamHandle per_thread(CUstream stream);

enum class Host {
  kGoesOn,   // the call returns before the work has run; but copies of pageable memory, which submit() tells apart
  kMayGoOn,  // so does a call that is not asynchronous by name: it waits where a buffer asks for that (sync_memops.h)
  kWaits,    // it returns when the work has run
  kWaitsFirst,   // it waits for what was submitted before, and perhaps for the work
  kReadsAtOnce,  // the work may read its source before its turn in the stream: all that it needs has to be there
};

// Refers to a callable for the time of a call.
template <class... Arguments>
class CallOf {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, CallOf>)
      CallOf(F&& function)  // NOLINT: implicit on purpose, as std::function is
      : object_(const_cast<void*>(static_cast<const void*>(&function))),
        invoke_([](void* object, Arguments... arguments) {
          return (*static_cast<std::remove_reference_t<F>*>(object))(arguments...);
        }) {}
  CUresult operator()(Arguments... arguments) const { return invoke_(object_, arguments...); }

 private:
  void* object_;
  CUresult (*invoke_)(void*, Arguments...);
};
using Call = CallOf<>;
using CallIn = CallOf<CUstream>;
using CallFrom = CallOf<const void*>;

// Runs `body`, which works with the engine. What it throws becomes an error of the call; nothing of ours reaches the
// program. The thread is not cancelled meanwhile.
CUresult guarded(Call body);
// The same where the engine sees to that itself (allocate, free).
CUresult guarded_lightly(Call body);

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

// Stream capture, as far as it must be known: whether any stream records.
// capture_began() comes before the driver's own call; if that fails, capture_ended() follows.
void capture_began();
void capture_ended();
bool is_recording(StreamHandle stream);
bool any_capture();
// Waits for all that was submitted in the engine's context, which is current. Not where any stream records, for that
// would end its recording (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED). Under `Inside`, and not from within an engine.
CUresult synchronize_unless_recorded(const ActiveEngine& active);

// While one lives, driver calls on this thread do not disturb anybody's capture (cuThreadExchangeStreamCaptureMode).
class CaptureTruce {
 public:
  CaptureTruce();
  ~CaptureTruce();
  CaptureTruce(const CaptureTruce&) = delete;
  CaptureTruce& operator=(const CaptureTruce&) = delete;

 private:
  bool active_ = false;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// Kernels on the device may change what a node of some graph is given: from then on a launch of a graph accesses all
// that is live, where that fits.
void nodes_change_on_the_device();
bool any_node_changes_on_the_device();

// Of the buffer that is there now: no other of its engine ever had it. 0: none is.
std::uint64_t number_of(const EngineSet& engines, DeviceAddress at);

}  // namespace thermocline
