// SPDX-License-Identifier: Apache-2.0
// The table of observers that are notified when engines and contexts begin and end (hooks/runtime/engine_observer.h).
#include <array>

#include "hooks/capture/capture_state.h"
#include "hooks/diagnostics/fallbacks.h"
#include "hooks/diagnostics/live_statistics.h"
#include "hooks/diagnostics/misuse.h"
#include "hooks/diagnostics/recorder.h"
#include "hooks/entry/idle_thread.h"
#include "hooks/entry/lease_thread.h"
#include "hooks/entry/pool_usage.h"
#include "hooks/entry/sleep_orders.h"
#include "hooks/graphs/graph_memory.h"
#include "hooks/graphs/kept_graphs.h"
#include "hooks/interpose/real_table.h"
#include "hooks/relaunch/kernel_verdicts.h"
#include "hooks/relaunch/loaded_code.h"
#include "hooks/runtime/caching_heaps.h"
#include "hooks/runtime/device_lease.h"
#include "hooks/runtime/engine_observer.h"
#include "hooks/submit/peers.h"
#include "hooks/submit/proxy_streams.h"
#include "hooks/submit/stream_queues.h"
#include "hooks/submit/unwaited.h"
#include "offload/spill/own_descriptors.h"

namespace thermocline {
namespace {

MisuseWatch watch_of(DebugMode mode) {
  return mode == DebugMode::kGuard   ? MisuseWatch::kGuard
         : mode == DebugMode::kTrack ? MisuseWatch::kTrack
                                     : MisuseWatch::kOff;
}

constexpr EngineObserver kCaptures{.engine_begins = [](Engine& engine, CUdevice) {
  if (any_capture()) engine.recording(true);
}};

constexpr EngineObserver kPeers{
    .engine_begins = [](Engine& engine, CUdevice device) { open_to_peers(engine, device); },
    .engine_ended = [](const ActiveEngine& one) { forget_peers_of(one.device); },
};

constexpr EngineObserver kRecorder{
    .engine_began = [](const ActiveEngine& one,
                       const Settings&) { Recorder::begin(Driver(*real_table()), one.engine); },
    .engine_ends = [](const ActiveEngine& one, bool without_driver) { Recorder::end_of(one.engine, without_driver); },
    .forked =
        [] {
          Recorder::abandon();
          close_own_descriptors();
        },
};

constexpr EngineObserver kLiveStatistics{
    .engine_began =
        [](const ActiveEngine&, const Settings& settings) {
          if (!settings.publish) return;
          take_sleep_orders();
          show_statistics();
        },
    .caching_heap_began =
        [](const Settings& settings) {
          if (settings.publish) show_statistics();
        },
};

constexpr EngineObserver kKeptGraphs{.context_ends = &forget_kept_graphs_in};

constexpr EngineObserver kGraphMemory{.memory_is_short = [](const ActiveEngine& one) { trim_graph_memory(one); }};

constexpr EngineObserver kCachingHeaps{.context_ends = [](CUcontext context, bool) { end_blocks_in(context); },
                                       .forked = [] { abandon_caching_heaps(); }};

constexpr EngineObserver kIdleThread{
    .engine_began = [](const ActiveEngine&, const Settings& settings) { look_for_idleness(settings.idle_after); }};

constexpr EngineObserver kLeaseThread{.engine_began = [](const ActiveEngine& one, const Settings&) {
  if (lease_of(one.device) != nullptr) look_after_leases();
}};

constexpr EngineObserver kMisuse{
    .settings_loaded = [](const Settings& settings) { watch_misuse(watch_of(settings.debug)); },
    .engine_ended =
        [](const ActiveEngine& one) {
          if (watches_misuse()) forget_buffers(one.range);
        },
};

constexpr EngineObserver kPoolUsage{.engine_ended = [](const ActiveEngine& one) { forget_pool_memory(one.range); }};

constexpr EngineObserver kStreamQueues{
    .context_ends = [](CUcontext context, bool is_gone) { end_queues_in(context, is_gone); },
    .forked = [] { abandon_queues(); }};

constexpr EngineObserver kProxyStreams{
    .context_ended = [](CUcontext context, bool is_gone) { end_proxy_streams_in(context, is_gone); }};

constexpr EngineObserver kUnwaited{.engine_ended = [](const ActiveEngine& one) { forget_unwaited_of(one); },
                                   .context_ended = [](CUcontext context, bool) { forget_unwaited_in(context); }};

constexpr EngineObserver kRelaunches{.settings_loaded = &read_recompute_setting,
                                     .engine_options = &offer_relaunches,
                                     .context_ended = [](CUcontext, bool) { forget_functions_of_contexts(); }};

constexpr EngineObserver kFallbacks{.fill_in = [](EngineStatistics* statistics) {
  add_fallbacks(statistics);
  add_rerun_counts(statistics);
}};

constexpr std::array kObservers = {
    kCaptures,     kPeers,    kRecorder,   kLiveStatistics, kIdleThread,   kMisuse,     kPoolUsage, kStreamQueues,
    kProxyStreams, kUnwaited, kKeptGraphs, kGraphMemory,    kCachingHeaps, kRelaunches, kFallbacks, kLeaseThread};

}  // namespace

std::span<const EngineObserver> engine_observers() { return kObservers; }

}  // namespace thermocline
