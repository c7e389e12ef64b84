// SPDX-License-Identifier: Apache-2.0
#include "hooks/graphs/cut_graphs.h"

#include <algorithm>
#include <set>
#include <string>

#include "driver/locks.h"
#include "hooks/capture/captures.h"
#include "hooks/graphs/cut_segments.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/lost_context.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/backoff.h"
#include "hooks/runtime/counters.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/refusals.h"
#include "hooks/submit/driver_room.h"
#include "hooks/submit/multi_device.h"
#include "hooks/submit/stream_queues.h"
#include "hooks/submit/stream_turns.h"
#include "offload/engine/too_large.h"
#include "offload/sharing/budget_source.h"

namespace thermocline {
namespace {

// Obstacles are few and literals: each is said once.
struct Said {
  Mutex mutex{"obstacles to cuts of graphs", lock_level::kLeaf};
  std::set<std::string> all THERMOCLINE_GUARDED_BY(mutex);
};

// Before others wait for the whole launch.
void wait_for_turns() {
  const HeldEngines engines;
  if (engines.none()) return;
  for (const ActiveEngine* active : *engines) active->engine->wait_for_turn();
}

// Work that waits for something that the host has yet to do, perhaps this thread, keeps its memory, and a segment in the
// middle could find no room.
bool is_any_stream_blocked() {
  if (!any_stream_may_block()) return false;
  const HeldEngines engines;
  if (engines.none()) return false;
  const Status status = with_backoff([&] {
    for (const ActiveEngine* active : *engines) {
      const CurrentContext context(*active);
      const Inside inside;
      const CaptureTruce truce;
      if (context.is_refused() || active->engine->any_blocked()) return Status::not_ready();
    }
    return Status();
  });
  return !status.ok();
}

// Comes behind all earlier launches. False: it can not.
bool come_behind_earlier_launches(KeptGraph& kept, StreamHandle stream) {
  const CaptureTruce truce;
  if (kept.newest != nullptr) {
    return real<Function::cuStreamWaitEvent>(to_cu(stream), kept.newest, 0u) == CUDA_SUCCESS;
  }
  // Where it ran is not remembered: it fitted until now. No stream is blocked (is_any_stream_blocked).
  if (!kept.ran_whole) return true;
  const Inside inside;
  if (captures().synchronize_current() != CUDA_SUCCESS) return false;
  kept.ran_whole = false;
  return true;
}

void note_newest_launch(KeptGraph& kept, StreamHandle stream) {
  const CaptureTruce truce;
  if (kept.newest == nullptr && real<Function::cuEventCreate>(&kept.newest, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    kept.newest = nullptr;
  if (kept.newest != nullptr && real<Function::cuEventRecord>(kept.newest, to_cu(stream)) == CUDA_SUCCESS) return;
  // Then the next launch has nothing to wait for, because nothing runs.
  real<Function::cuStreamSynchronize>(to_cu(stream));
}

// An exception must not end a launch of which a part runs already.
bool try_to_halve(KeptGraph& kept, std::size_t at) {
  bool is_halved = false;
  const CUresult result = guarded([&] {
    is_halved = halve_segment(kept, at);
    return CUDA_SUCCESS;
  });
  return result == CUDA_SUCCESS && is_halved;
}

// A segment that is refused although it had fitted is halved: addresses that an earlier one has stored may lead to more,
// or others have taken memory. Once a part of the graph runs the others have to: nobody could tell afterwards what has
// run.
CUresult submit_segment(KeptGraph& kept, std::size_t at, CallOf<CUgraphExec> submit) {
  const HoldsReport until_it_is_clear;
  const bool is_first = at == 0;
  // Others could give back all that they hold, and it would still not fit: addresses that earlier segments have stored
  // lead to more than one of its nodes alone was known to use.
  bool never_fits = false;
  static_cast<void>(take_was_too_large());
  CUresult result = submit(kept.segments[at].exec);
  for (Backoff backoff; result != CUDA_SUCCESS; result = submit(kept.segments[at].exec)) {
    const bool was_too_large = take_was_too_large();
    if (result == CUDA_ERROR_OUT_OF_MEMORY && try_to_halve(kept, at)) {
      forget_report();
      continue;
    }
    // Others give the memory back, or end their captures, during which some of the driver's calls are forbidden.
    const bool may_pass = result == CUDA_ERROR_OUT_OF_MEMORY || result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (is_first || !may_pass) break;
    never_fits = was_too_large && result == CUDA_ERROR_OUT_OF_MEMORY;
    if (never_fits || !backoff.wait()) break;
    forget_report();
  }
  if (is_first || result == CUDA_SUCCESS || loses_the_context(result)) return result;
  log_line(LogLevel::kError, "a CUDA graph that was launched in parts could not be completed (%s)",
           never_fits ? "addresses that an earlier part has stored lead one of its nodes to more than the budget"
           : result == CUDA_ERROR_OUT_OF_MEMORY              ? "others took the memory meanwhile"
           : result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ? "another thread's capture forbade what a part needs"
                                                             : "the driver refused a part");
  Runtime::get().declare_broken();
  return CUDA_ERROR_UNKNOWN;
}

void note_uncut_graph(const char* obstacle) {
  count(Counter::kUncutGraphs);
  Said& said = process_lifetime<Said>();
  {
    const MutexLock lock(said.mutex);
    if (!said.all.insert(obstacle).second) return;
  }
  log_line(LogLevel::kWarning, "a CUDA graph does not fit in the budget, and is not launched in parts because of %s",
           obstacle);
}

// Makes the driver take its memory for all segments before any of them runs, while the graph can still be refused.
bool upload(const KeptGraph& kept, StreamHandle stream) {
  const CaptureTruce truce;
  return std::ranges::all_of(kept.segments, [&](const GraphSegment& segment) {
    const RoomInQueue room(stream);
    return with_driver_room([&] { return heard(real<Function::cuGraphUpload>(segment.exec, to_cu(stream))); }) ==
           CUDA_SUCCESS;
  });
}

}  // namespace

bool must_be_cut(const KeptGraph& kept, const GraphAccess& access) {
  const HeldEngines engines;
  if (engines.none() || Runtime::get().broken()) return false;
  return std::ranges::any_of(*engines, [&](const ActiveEngine* active) {
    const bool follows = active->engine->has_references() || !access.words_in_place.empty();
    if (!follows && active->engine->has_room_for(kept.named)) return false;
    const AccessList part = part_of(access.accesses, *active);
    if (part.empty()) return false;
    const Demand demand = active->engine->demand_of(part.all());
    return demand.takes_turns && !demand.fits();
  });
}

std::optional<CUresult> launch_in_segments(KeptGraph& kept, StreamHandle stream, CallOf<CUgraphExec> submit) {
  const auto refused = [](const char* obstacle) {
    note_uncut_graph(obstacle);
    return std::nullopt;
  };
  if (kept.obstacle != nullptr) return refused(kept.obstacle);
  wait_for_turns();
  if (is_any_stream_blocked()) return refused("streams that wait for values or host functions");
  const StreamTurn turn(stream, &kept);
  const AmidParts as_one;
  if (kept.segments.empty() || !segments_fit(kept)) {
    const CaptureTruce truce;
    if (const char* const obstacle = cut_into_segments(kept); obstacle != nullptr) return refused(obstacle);
    if (!upload(kept, stream)) {
      kept.drop_segments();
      return refused("a segment that the driver did not upload");
    }
  }
  {
    const RoomInQueue room(stream);
    if (!come_behind_earlier_launches(kept, stream)) return refused("an earlier launch of it, while a stream captures");
  }
  const CaptureTruce truce(CaptureTruce::Always::kYes);
  for (std::size_t at = 0; at < kept.segments.size(); ++at) {
    if (const CUresult result = submit_segment(kept, at, submit); result != CUDA_SUCCESS) return result;
    count(Counter::kGraphSegments);
  }
  const RoomInQueue room(stream);
  note_newest_launch(kept, stream);
  return CUDA_SUCCESS;
}

CUresult launch_as_a_whole(KeptGraph& kept, StreamHandle stream, Call launch) {
  if (kept.newest == nullptr) {
    kept.ran_whole = true;
    return launch();
  }
  {
    const RoomInQueue room(stream);
    if (!come_behind_earlier_launches(kept, stream)) return CUDA_ERROR_UNKNOWN;
  }
  const CUresult result = launch();
  if (result != CUDA_SUCCESS) return result;
  const RoomInQueue room(stream);
  note_newest_launch(kept, stream);
  return result;
}

}  // namespace thermocline
