// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/graph/capture.h"

#include <algorithm>
#include <set>
#include <vector>

namespace simulator::cuda {
namespace {

template <typename Disturbs>
CUresult invalidate_those(State& state, Disturbs disturbs) {
  CUresult result = CUDA_SUCCESS;
  for (auto& [stream, taking_part] : state.capturing) {
    if (disturbs(*taking_part.capture))
      result = invalidate(*taking_part.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return result;
}

// Work of the legacy stream would be ordered after that of every blocking stream of its device, captured or not.
CUresult legacy_stream_is_free(Call& call, StreamId legacy) {
  CUresult result = CUDA_SUCCESS;
  const DeviceId device = call.machine().device_of(legacy);
  for (auto& [stream, taking_part] : call.state().capturing) {
    if (taking_part.is_blocking && call.machine().device_of(stream) == device)
      result = invalidate(*taking_part.capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
  return result;
}

void add_behind(std::vector<CUgraphNode>* behind, const std::vector<CUgraphNode>& more) {
  for (CUgraphNode node : more) {
    if (std::find(behind->begin(), behind->end(), node) == behind->end()) behind->push_back(node);
  }
}

}  // namespace

CUstreamCaptureMode& thread_capture_mode() {
  static thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

Captured* captured(State& state, StreamId stream) {
  const auto found = state.capturing.find(stream);
  return found == state.capturing.end() ? nullptr : &found->second;
}

CUresult invalidate(Capture& capture, CUresult error) {
  capture.is_invalid = true;
  return error;
}

CUresult may_disturb(Call& call) {
  const CUstreamCaptureMode mode = thread_capture_mode();
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  return invalidate_those(call.state(), [&](const Capture& capture) {
    if (capture.thread == thread_number()) return capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  });
}

CUresult may_wait_for_context(Call& call) {
  return invalidate_those(call.state(), [](const Capture&) { return true; });
}

CUresult may_wait_for_stream(Call& call, StreamId stream) {
  if (Captured* const recording = captured(call.state(), stream))
    return invalidate(*recording->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  if (call.machine().is_legacy(stream)) {
    if (const CUresult result = legacy_stream_is_free(call, stream); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// On its own, because programs have threads with little stack, and a node is large.
[[gnu::noinline]] static CUresult submit_captured(Call& call, StreamId stream, Captured& recording, Work&& work,
                                                  CUfunction function) {
  CUgraphNode_st node = node_of(std::move(work), function);
  node.device = call.machine().device_of(stream);
  return add_captured(call, recording, std::move(node));
}

CUresult submit(Call& call, StreamId stream, Work work, CUfunction function, OperationId* operation) {
  if (operation != nullptr) *operation = 0;
  if (Captured* const recording = captured(call.state(), stream))
    return submit_captured(call, stream, *recording, std::move(work), function);
  if (call.machine().is_legacy(stream)) {
    if (const CUresult result = legacy_stream_is_free(call, stream); result != CUDA_SUCCESS) return result;
  }
  const OperationId queued = call.machine().submit(stream, std::move(work));
  if (operation != nullptr) *operation = queued;
  return CUDA_SUCCESS;
}

CUresult add_captured(Call& call, Captured& stream, CUgraphNode_st node) {
  if (stream.capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const CUgraph child = node.child;
  node.child = nullptr;
  CUgraphNode added = add_node(call.state(), stream.capture->graph, std::move(node), stream.behind);
  if (child != nullptr) {
    added->child = clone_graph(call.state(), child);
    added->child->is_child = true;
  }
  stream.behind.assign(1, added);
  return CUDA_SUCCESS;
}

CUresult record_captured(Call& call, CUevent event, Captured& stream, bool external) {
  if (stream.capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (external) {
    CUgraphNode_st node;
    node.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    node.event = event;
    return add_captured(call, stream, std::move(node));
  }
  event->captured = stream;
  return CUDA_SUCCESS;
}

bool wait_captured(Call& call, StreamId stream, bool is_blocking, CUevent event, bool external, CUresult* result) {
  Captured* const recording = captured(call.state(), stream);
  const Captured& recorded = event->captured;
  *result = CUDA_SUCCESS;
  if (recording != nullptr && recording->capture->is_invalid) {
    *result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return true;
  }
  if (recording != nullptr && external) {
    CUgraphNode_st node;
    node.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    node.event = event;
    *result = add_captured(call, *recording, std::move(node));
    return true;
  }
  if (recorded.capture == nullptr) {
    if (recording == nullptr) return false;
    *result = invalidate(*recording->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    return true;
  }
  if (recorded.capture->is_over) {
    // Work of a capture that has ended can not be waited for.
    *result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (recording != nullptr) invalidate(*recording->capture, *result);
  } else if (recorded.capture->is_invalid) {
    *result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (recording == nullptr) {
    if (call.machine().is_legacy(stream)) {
      *result = invalidate(*recorded.capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    } else {
      call.state().capturing[stream] = {recorded.capture, recorded.behind, is_blocking};
    }
  } else if (recording->capture != recorded.capture) {
    invalidate(*recorded.capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    *result = invalidate(*recording->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  } else {
    add_behind(&recording->behind, recorded.behind);
  }
  return true;
}

bool is_behind(const Captured& stream, const Captured& other) {
  std::set<CUgraphNode> before;
  std::vector<CUgraphNode> look_at = stream.behind;
  while (!look_at.empty()) {
    CUgraphNode node = look_at.back();
    look_at.pop_back();
    if (before.insert(node).second) look_at.insert(look_at.end(), node->after.begin(), node->after.end());
  }
  return std::all_of(other.behind.begin(), other.behind.end(), [&](CUgraphNode node) { return before.contains(node); });
}

void forget_captured_stream(Call& call, StreamId stream) {
  Captured* const recording = captured(call.state(), stream);
  if (recording == nullptr) return;
  const std::shared_ptr<Capture> capture = recording->capture;
  const Captured* const origin = captured(call.state(), capture->origin);
  const bool is_joined = stream != capture->origin && origin != nullptr && is_behind(*origin, *recording);
  if (!is_joined) capture->is_invalid = true;
  call.state().capturing.erase(stream);
  if (stream != capture->origin) return;
  // No call can end it any more.
  std::erase_if(call.state().capturing, [&](const auto& entry) { return entry.second.capture == capture; });
  capture->is_over = true;
  if (capture->owns_graph) destroy_graph(call.state(), capture->graph);
}

}  // namespace simulator::cuda
