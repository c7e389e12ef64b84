// SPDX-License-Identifier: Apache-2.0
// Uploads that leave their contents on the host, too (offload/engine/upload_copies.cc): the source is copied to memory
// of the library's, and from there to the device. Sources in pageable memory are read before the call returns, as the
// driver does, which stages them anyway. Those in pinned memory are read by a host function at their turn in the stream,
// because until then the program may change them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "hooks/interpose/cuda_api.h"
#include "hooks/runtime/guarded.h"
#include "offload/engine/engine.h"

namespace thermocline {

using CopyByWay = CallOf<std::span<const UploadCopy>>;

// How such an upload is submitted.
struct UploadByWay {
  OperationInfo::Source source;
  CopyByWay copy;
};

// kElsewhere: the copy is submitted as usual. kAtOnce: what the stream was given before has completed, so the source has
// the contents that are to be copied.
OperationInfo::Source source_of_upload(StreamHandle stream, CUdeviceptr to, CUdeviceptr from, std::size_t bytes);

// Copies `bytes` from `from` to `to`, by way of the parts that are given. After an error a part of it may have been
// submitted.
CUresult copy_by_way_of_host(StreamHandle stream, OperationInfo::Source source, CUdeviceptr to, CUdeviceptr from,
                             std::size_t bytes, std::span<const UploadCopy> parts);

}  // namespace thermocline
