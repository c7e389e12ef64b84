// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/upload_copies.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "hooks/capture/capture_state.h"
#include "hooks/pointers/uploads.h"
#include "hooks/pointers/write_combined.h"
#include "hooks/runtime/runtime.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {
namespace {

using Source = OperationInfo::Source;

// For smaller units no digests are taken (offload/residency/clean_drop.cc).
constexpr std::size_t kLeastBytes = 256 * kKiB;
// The link copies one piece while the host copies the next.
constexpr std::size_t kPieceBytes = 4 * kMiB;

bool is_managed(CUdeviceptr at) {
  const Inside inside;
  unsigned int managed = 0;
  return real<Function::cuPointerGetAttribute>(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at) == CUDA_SUCCESS &&
         managed != 0;
}

Source kind_of_source(CUdeviceptr from, std::size_t bytes) {
  const CUdeviceptr last = from + bytes - 1;
  if (is_pageable(from)) return is_pageable(last) ? Source::kAtOnce : Source::kElsewhere;
  const bool is_plain = is_pinned(from) && is_pinned(last) && !is_managed(from) &&
                        !is_write_combined(reinterpret_cast<const void*>(from));  // NOLINT: the driver's interface
  return is_plain ? Source::kInStream : Source::kElsewhere;
}

// Waits for everything that a copy in the stream would run behind, the legacy stream's work included.
bool wait_for_turn_of_copy(StreamHandle stream) {
  const Inside inside;
  const CaptureTruce truce(CaptureTruce::Always::kYes);
  CUevent turn = nullptr;
  if (real<Function::cuEventCreate>(&turn, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return false;
  const bool has_come = real<Function::cuEventRecord>(turn, to_cu(stream)) == CUDA_SUCCESS &&
                        real<Function::cuEventSynchronize>(turn) == CUDA_SUCCESS;
  real<Function::cuEventDestroy_v2>(turn);
  return has_come;
}

struct CopyToHostCopy {
  void* to;
  const void* from;
  std::size_t bytes;
};

void CUDA_CB copy_to_host_copy(void* data) {
  const std::unique_ptr<CopyToHostCopy> copy(static_cast<CopyToHostCopy*>(data));
  std::memcpy(copy->to, copy->from, copy->bytes);
}

const void* at_host(CUdeviceptr address) { return reinterpret_cast<const void*>(address); }  // NOLINT: as above

CUresult copy_in_stream(StreamHandle stream, CUdeviceptr to, const UploadCopy& part, CUdeviceptr from) {
  auto copy = std::make_unique<CopyToHostCopy>(CopyToHostCopy{part.host, at_host(from), part.bytes});
  const CUresult result = real<Function::cuLaunchHostFunc>(to_cu(stream), copy_to_host_copy, copy.get());
  if (result != CUDA_SUCCESS) return result;
  static_cast<void>(copy.release());
  return real<Function::cuMemcpyHtoDAsync_v2>(to, part.host, part.bytes, to_cu(stream));
}

CUresult copy_at_once(StreamHandle stream, CUdeviceptr to, const UploadCopy& part, CUdeviceptr from) {
  for (std::size_t done = 0; done < part.bytes; done += kPieceBytes) {
    const std::size_t bytes = std::min(kPieceBytes, part.bytes - done);
    void* const piece = static_cast<char*>(part.host) + done;
    std::memcpy(piece, at_host(from + done), bytes);
    const CUresult result = real<Function::cuMemcpyHtoDAsync_v2>(to + done, piece, bytes, to_cu(stream));
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

Source source_of_upload(StreamHandle stream, CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  if (bytes < kLeastBytes) return Source::kElsewhere;
  Source source = Source::kElsewhere;
  const CUresult asked = guarded([&] {
    const HeldEngines engines;
    if (engines.none() || Runtime::get().broken() || engines->owner(DeviceAddress{from}) != nullptr)
      return CUDA_SUCCESS;
    const ActiveEngine* const owner = engines->owner(DeviceAddress{to});
    if (owner == nullptr || !owner->engine->may_want_upload_copies() || any_capture()) return CUDA_SUCCESS;
    const StreamPlace place = place_of(*engines, stream);
    if (place.here != owner || place.current != place.context || place.refused) return CUDA_SUCCESS;
    const Source kind = kind_of_source(from, bytes);
    if (!owner->engine->wants_upload_copy({DeviceAddress{to}, bytes}, kind)) return CUDA_SUCCESS;
    // The stream may be blocked until this thread acts.
    if (!owner->engine->is_behind_blocked(stream)) source = kind;
    return CUDA_SUCCESS;
  });
  if (asked != CUDA_SUCCESS) return Source::kElsewhere;
  return source != Source::kAtOnce || wait_for_turn_of_copy(stream) ? source : Source::kElsewhere;
}

CUresult copy_by_way_of_host(StreamHandle stream, Source source, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                             std::span<const UploadCopy> parts) {
  std::size_t done = 0;
  const auto copy_directly = [&](std::size_t end) {
    if (done == end) return CUDA_SUCCESS;
    return real<Function::cuMemcpyHtoDAsync_v2>(to + done, at_host(from + done), end - done, to_cu(stream));
  };
  for (const UploadCopy& part : parts) {
    if (const CUresult result = copy_directly(part.offset); result != CUDA_SUCCESS) return result;
    const CUdeviceptr target = to + part.offset, origin = from + part.offset;
    const CUresult result = source == Source::kAtOnce ? copy_at_once(stream, target, part, origin)
                                                      : copy_in_stream(stream, target, part, origin);
    if (result != CUDA_SUCCESS) return result;
    done = part.offset + part.bytes;
  }
  return copy_directly(bytes);
}

}  // namespace thermocline
