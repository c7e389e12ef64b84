// SPDX-License-Identifier: Apache-2.0
// Beginning and ending captures, and queries about them.
#include <algorithm>

#include "simulator/cuda/graph/capture.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

bool is_mode(CUstreamCaptureMode mode) {
  return mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUresult begin(CUstream stream, CUstreamCaptureMode mode, CUgraph into, const CUgraphNode* behind, std::size_t count,
               const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (!is_mode(mode)) return CUDA_ERROR_INVALID_VALUE;
  if (call.machine().is_legacy(id)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (captured(call.state(), id) != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  State& state = call.state();
  auto capture = std::make_shared<Capture>();
  capture->id = state.next_id++;
  capture->origin = id;
  capture->mode = mode;
  capture->thread = thread_number();
  capture->owns_graph = into == nullptr;
  capture->graph = into == nullptr ? create_graph(state) : into;
  state.capturing[id] = {capture, std::vector<CUgraphNode>(behind, behind + count), call.is_blocking(stream)};
  return CUDA_SUCCESS;
}

CUresult begin_into(CUstream stream, CUgraph graph, const CUgraphNode* behind, std::size_t count,
                    CUstreamCaptureMode mode, const char* caller) {
  {
    Call call(Needs::kContext, caller);
    if (!call) return call.result();
    if (!call.state().graphs.has(graph) || !are_nodes_of(call.state(), graph, behind, count))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return begin(stream, mode, graph, behind, count, "");
}

// Whether every stream of the capture has been joined: its last work is ordered before the origin's next.
bool is_joined(State& state, const Captured& origin) {
  return std::all_of(state.capturing.begin(), state.capturing.end(), [&](const auto& entry) {
    return entry.second.capture != origin.capture || is_behind(origin, entry.second);
  });
}

struct Info {
  CUstreamCaptureStatus* status = nullptr;
  cuuint64_t* id = nullptr;
  CUgraph* graph = nullptr;
  const CUgraphNode** behind = nullptr;
  const CUgraphEdgeData** edges = nullptr;
  std::size_t* count = nullptr;
};

CUresult info_of(CUstream stream, const Info& info, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (info.status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  State& state = call.state();
  const DeviceId device = call.machine().device_of(id);
  const auto holds_it_up = [&](const auto& one) {
    return one.second.is_blocking && call.machine().device_of(one.first) == device;
  };
  if (call.machine().is_legacy(id) && std::any_of(state.capturing.begin(), state.capturing.end(), holds_it_up))
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  const Captured* const recording = captured(state, id);
  *info.status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (recording == nullptr) return CUDA_SUCCESS;
  const Capture& capture = *recording->capture;
  *info.status = capture.is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (capture.is_invalid) return CUDA_SUCCESS;
  if (info.id != nullptr) *info.id = capture.id;
  if (info.graph != nullptr) *info.graph = capture.graph;
  if (info.behind != nullptr) *info.behind = recording->behind.data();
  if (info.edges != nullptr) *info.edges = nullptr;  // no edge has data
  if (info.count != nullptr) *info.count = recording->behind.size();
  return CUDA_SUCCESS;
}

CUresult update(CUstream stream, CUgraphNode* behind, std::size_t count, unsigned flags,
                const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  Captured* const recording = captured(call.state(), id);
  if (recording == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (recording->capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES ||
      !are_nodes_of(call.state(), recording->capture->graph, behind, count))
    return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) recording->behind.clear();
  for (std::size_t i = 0; i < count; ++i) {
    auto& all = recording->behind;
    if (std::find(all.begin(), all.end(), behind[i]) == all.end()) all.push_back(behind[i]);
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API CUresult cuStreamBeginCapture(CUstream stream) {
  return begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, nullptr, nullptr, 0);
}

SIMULATED_API CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return begin(stream, mode, nullptr, nullptr, 0);
}

SIMULATED_API CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* behind,
                                                   const CUgraphEdgeData*, std::size_t count,
                                                   CUstreamCaptureMode mode) {
  return begin_into(stream, graph, behind, count, mode, "cuStreamBeginCaptureToGraph");
}

SIMULATED_API CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (graph != nullptr) *graph = nullptr;
  State& state = call.state();
  const Captured* const recording = captured(state, id);
  if (recording == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  const std::shared_ptr<Capture> capture = recording->capture;
  if (id != capture->origin) return invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != thread_number())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult result = capture->is_invalid            ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                    : is_joined(state, *recording) ? CUDA_SUCCESS
                                                   : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  std::erase_if(state.capturing, [&](const auto& entry) { return entry.second.capture == capture; });
  capture->is_over = true;
  const bool hand_over = result == CUDA_SUCCESS && graph != nullptr;
  if (hand_over) *graph = capture->graph;
  if (!hand_over && capture->owns_graph) destroy_graph(state, capture->graph);
  return result;
}

SIMULATED_API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return info_of(stream, {.status = status});
}

SIMULATED_API CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return info_of(stream, {.status = status, .id = id});
}

SIMULATED_API CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                                 CUgraph* graph, const CUgraphNode** behind, std::size_t* count) {
  return info_of(stream, {status, id, graph, behind, nullptr, count});
}

SIMULATED_API CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                                 CUgraph* graph, const CUgraphNode** behind,
                                                 const CUgraphEdgeData** edges, std::size_t* count) {
  return info_of(stream, {status, id, graph, behind, edges, count});
}

SIMULATED_API CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* behind, std::size_t count,
                                                         unsigned flags) {
  return update(stream, behind, count, flags);
}

SIMULATED_API CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* behind,
                                                            const CUgraphEdgeData*, std::size_t count, unsigned flags) {
  return update(stream, behind, count, flags);
}

SIMULATED_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (mode == nullptr || !is_mode(*mode)) return CUDA_ERROR_INVALID_VALUE;
  std::swap(thread_capture_mode(), *mode);
  return CUDA_SUCCESS;
}
