// SPDX-License-Identifier: Apache-2.0
// Copies of rows and layers, and batches of copies.
#include <algorithm>

#include "hooks/capture/capture_state.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/ends.h"
#include "hooks/submit/macros.h"
#include "hooks/submit/shapes.h"
#include "hooks/submit/to_host.h"

namespace thermocline {
namespace {

CUresult in_stream(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return real<Function::cuMemcpy2DAsync_v2>(copy, stream);
}
CUresult in_stream(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return real<Function::cuMemcpy3DAsync_v2>(copy, stream);
}
CUresult in_stream(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  return real<Function::cuMemcpy3DPeerAsync>(copy, stream);
}

Bytes layers_of(const CUDA_MEMCPY2D&) { return 1; }
template <class Copy>
Bytes layers_of(const Copy& copy) {
  return copy.Depth;
}

template <class Copy>
void take_bytes(Copy* copy, const Region& region) {
  if (region.bytes == 0) return;
  copy->srcXInBytes += region.first_byte;
  copy->dstXInBytes += region.first_byte;
  copy->WidthInBytes = region.bytes;
}

CUDA_MEMCPY2D part_of(CUDA_MEMCPY2D copy, const Region& region) {
  take_bytes(&copy, region);
  copy.srcY += region.first_row;
  copy.dstY += region.first_row;
  copy.Height = region.rows;
  return copy;
}

// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER.
template <class Copy>
Copy part_of(Copy copy, const Region& region) {
  take_bytes(&copy, region);
  copy.srcY += region.first_row;
  copy.dstY += region.first_row;
  copy.srcZ += region.first_layer;
  copy.dstZ += region.first_layer;
  copy.Height = region.rows;
  copy.Depth = region.layers;
  return copy;
}

// If no row length or layer height is given, rows and layers are contiguous, also in a sub-region.
void begin_at(CUmemcpy3DOperand* operand, const CUextent3D& whole, const Region& region) {
  auto& pointer = operand->op.ptr;
  if (pointer.rowLength == 0) pointer.rowLength = whole.width;
  if (pointer.layerHeight == 0) pointer.layerHeight = whole.height;
  pointer.ptr += (region.first_layer * pointer.layerHeight + region.first_row) * pointer.rowLength + region.first_byte;
}

CUDA_MEMCPY3D_BATCH_OP part_of(CUDA_MEMCPY3D_BATCH_OP copy, const Region& region) {
  begin_at(&copy.dst, copy.extent, region);
  begin_at(&copy.src, copy.extent, region);
  if (region.bytes != 0) copy.extent.width = region.bytes;
  copy.extent.height = region.rows;
  copy.extent.depth = region.layers;
  return copy;
}

template <class Copy>
bool is_all_of(const Copy& copy, const Region& region) {
  return region.bytes == 0 && region.rows == copy.Height && region.layers == layers_of(copy);
}

template <Function F, class Copy, class... Arguments>
CUresult copy_rows_to_host(StreamHandle stream, Host host, const ShapedCopy& shape, const Copy* copy,
                           Arguments... arguments) {
  const auto run = [&](const Region& region, const OperationInfo& info, const CallFrom* from_host) {
    const Copy part = part_of(*copy, region);
    return submit_copy(
        stream, host, std::move(shape_of(&part).accesses), info, [&] { return real<F>(&part, arguments...); },
        [&](CUstream another) { return in_stream(&part, another); }, from_host);
  };
  return copy_to_host(stream, host, shape.to, shape.from, info_of_copy<F>(), run);
}

// One region of a copy between an array and memory; arrays belong to their own device.
template <Function F, class Copy, class... Arguments>
CUresult submit_shape_of_array(StreamHandle stream, Host host, ShapedCopy& shape, const Copy* copy,
                               Arguments... arguments) {
  const auto submit_region = [&](const Region& region) {
    if (is_all_of(*copy, region)) return operate<F>(stream, host, std::move(shape.accesses), copy, arguments...);
    const Copy part = part_of(*copy, region);
    return operate<F>(stream, host, std::move(shape_of(&part).accesses), &part, arguments...);
  };
  return in_parts(stream, shape.accesses, shape.to, shape.from, submit_region, kArrayElementBytes);
}

template <Function F, class Copy, class... Arguments>
CUresult submit_shape(StreamHandle stream, Host host, ShapedCopy shape, const Copy* copy, Arguments... arguments) {
  if (shape.accesses.empty()) return operate<F>(stream, host, std::move(shape.accesses), copy, arguments...);
  if (shape.accesses.moves().empty()) return submit_shape_of_array<F>(stream, host, shape, copy, arguments...);
  if (is_copy_to_host(shape) && !is_recording(stream))
    return copy_rows_to_host<F>(stream, host, shape, copy, arguments...);
  const bool is_plain = is_ordinary(shape.to.box) && is_ordinary(shape.from.box);
  return in_parts(stream, shape.accesses, shape.to, shape.from, [&](const Region& region) {
    const Copy part = is_all_of(*copy, region) ? *copy : part_of(*copy, region);
    if (!is_all_of(*copy, region)) shape.accesses = std::move(shape_of(&part).accesses);
    const auto copy_there = [&](const void* host_copy) {
      return copy_from_host_copy(stream, part_of(shape.to, region), host_copy, part_of(shape.from, region).box);
    };
    const CallFrom from_host = copy_there;
    return submit_copy(
        stream, host, std::move(shape.accesses), info_of_copy<F>(), [&] { return real<F>(&part, arguments...); },
        [&](CUstream another) { return in_stream(&part, another); }, is_plain ? &from_host : nullptr);
  });
}

template <Function F, class Copy>
CUresult copy_and_wait(StreamHandle stream, const Copy* copy) {
  ShapedCopy shape = shape_of(copy);
  const Host host = shape.host == Host::kGoesOn ? Host::kMayGoOn : shape.host;
  return submit_shape<F>(stream, host, std::move(shape), copy);
}

template <Function F, class Copy>
CUresult copy_in_order(StreamHandle stream, const Copy* copy, CUstream argument) {
  return submit_shape<F>(stream, Host::kGoesOn, shape_of(copy), copy, argument);
}

AccessList named_by(const CUdeviceptr* to, const CUdeviceptr* from, const std::size_t* bytes, std::size_t count) {
  AccessList accesses;
  if (to == nullptr || from == nullptr || bytes == nullptr) return accesses;
  for (std::size_t i = 0; i < count; ++i) accesses.copy(to[i], from[i], bytes[i]);
  return accesses;
}

AccessList named_by(const CUDA_MEMCPY3D_BATCH_OP* copies, std::size_t count) {
  AccessList accesses;
  for (std::size_t i = 0; copies != nullptr && i < count; ++i) accesses.join(shape_of(&copies[i]).accesses);
  return accesses;
}

Host host_of(CUmemcpySrcAccessOrder order) {
  return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ? Host::kGoesOn : Host::kReadsAtOnce;
}

Host host_of(const CUmemcpyAttributes* attributes, std::size_t count) {
  for (std::size_t i = 0; attributes != nullptr && i < count; ++i) {
    if (host_of(attributes[i].srcAccessOrder) != Host::kGoesOn) return Host::kReadsAtOnce;
  }
  return Host::kGoesOn;
}

AccessList named_by(const CUDA_FABRIC_COPY_BATCH_OP* copies, std::size_t count) {
  AccessList accesses;
  for (std::size_t i = 0; copies != nullptr && i < count; ++i) {
    const CUDA_FABRIC_COPY_BATCH_OP& copy = copies[i];
    if (copy.dst.type == CU_FABRIC_COPY_OPERAND_TYPE_POINTER) accesses.write(copy.dst.op.ptr.ptr, copy.size);
    if (copy.src.type == CU_FABRIC_COPY_OPERAND_TYPE_POINTER) accesses.read(copy.src.op.ptr.ptr, copy.size);
  }
  return accesses;
}

Host host_of(const CUDA_MEMCPY3D_BATCH_OP* copies, std::size_t count) {
  for (std::size_t i = 0; copies != nullptr && i < count; ++i) {
    if (host_of(copies[i].srcAccessOrder) != Host::kGoesOn) return Host::kReadsAtOnce;
  }
  return Host::kGoesOn;
}

// The arguments of cuMemcpyBatchAsync. Attributes k apply to the copies from first[k] on.
struct Batch {
  CUdeviceptr* to;
  CUdeviceptr* from;
  std::size_t* bytes;
  std::size_t count;
  CUmemcpyAttributes* attributes;
  std::size_t* first;
  std::size_t kinds;

  bool is_complete() const {
    return to != nullptr && from != nullptr && bytes != nullptr && attributes != nullptr && first != nullptr &&
           kinds != 0 && first[0] == 0;
  }
  CUmemcpyAttributes* attributes_of(std::size_t i) const {
    return &attributes[std::upper_bound(first, first + kinds, i) - first - 1];
  }
};

// Whether a copy of a batch is served from the host copy as far as it is evicted. The legacy stream, for which the
// driver refuses batches, is left to the driver.
bool may_read_host_copy(StreamHandle stream, CUdeviceptr to, CUdeviceptr from) {
  return static_cast<std::uintptr_t>(stream) > 1 && is_copy_to_host(to, from);
}
// Whether a copy within the device may read the host copy of its source; its ends may not fit together.
bool may_read_source_there(StreamHandle stream, CUdeviceptr to, CUdeviceptr from) {
  return static_cast<std::uintptr_t>(stream) > 1 && !is_copy_to_host(to, from);
}
bool may_read_host_copy(StreamHandle stream, const ShapedCopy& shape) {
  return static_cast<std::uintptr_t>(stream) > 1 && is_copy_to_host(shape);
}

// Whether one of the copies is served from the host copy.
bool any_reads_host_copy(StreamHandle stream, const Batch& batch) {
  for (std::size_t i = 0; i < batch.count; ++i) {
    if (may_read_host_copy(stream, batch.to[i], batch.from[i]) && is_on_host(batch.from[i], batch.bytes[i]))
      return true;
  }
  return false;
}
bool any_reads_host_copy(StreamHandle stream, const CUDA_MEMCPY3D_BATCH_OP* copies, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const ShapedCopy shape = shape_of(&copies[i]);
    if (may_read_host_copy(stream, shape) && is_on_host(shape.from.at, span_of(shape.from.box))) return true;
  }
  return false;
}

// `at_once`: everything fits on the device, and nothing is better read from a host copy; or it must be one operation.
template <class Reads>
CUresult ask_whether_at_once(StreamHandle stream, const AccessList& accesses, bool* at_once, Reads any_reads) {
  const CUresult asked = ask_whether_at_once(stream, accesses, at_once);
  if (asked != CUDA_SUCCESS || !*at_once || engines_now() == nullptr || is_recording(stream)) return asked;
  return guarded([&] {
    *at_once = !any_reads();
    return CUDA_SUCCESS;
  });
}

// One copy of a batch; the parts that are not evicted are copied with the same driver function.
template <Function F, class Call>
CUresult copy_one(StreamHandle stream, Host host, const Batch& batch, std::size_t i, Call call) {
  CUdeviceptr to = batch.to[i], from = batch.from[i];
  std::size_t bytes = batch.bytes[i], first = 0;
  Batch one{&to, &from, &bytes, 1, batch.attributes_of(i), &first, 1};
  AccessList accesses;
  const bool within_device = may_read_source_there(stream, to, from);
  const auto copy_there = [&](const void* copy) { return copy_from_host_copy(stream, to, copy, bytes); };
  const CallFrom within = copy_there;
  const auto submit_part = [&](std::size_t begin, std::size_t length, const OperationInfo& info,
                               const CallFrom* from_host) {
    accesses.clear();
    accesses.copy(batch.to[i] + begin, batch.from[i] + begin, length);
    const auto part = [&](std::size_t done, std::size_t now) {
      to = batch.to[i] + begin + done;
      from = batch.from[i] + begin + done;
      bytes = now;
      accesses.clear();
      accesses.copy(to, from, bytes);
      return submit_copy(
          stream, host, std::move(accesses), info, [&] { return call(one); },
          within_device ? &within : (now == length ? from_host : nullptr));
    };
    return in_parts(stream, accesses, batch.to[i] + begin, batch.from[i] + begin, length, part);
  };
  if (bytes == 0 || !may_read_host_copy(stream, to, from)) return submit_part(0, bytes, info_of_copy<F>(), nullptr);
  return copy_to_host(stream, host, to, from, bytes, info_of_copy<F>(),
                      [&](std::size_t begin, std::size_t length, const OperationInfo& info, const CallFrom& from_host) {
                        return submit_part(begin, length, info, &from_host);
                      });
}

// One copy of a batch of rows and layers.
template <Function F, class Call>
CUresult copy_one(StreamHandle stream, Host host, const CUDA_MEMCPY3D_BATCH_OP& copy, Call call) {
  ShapedCopy shape = shape_of(&copy);
  const auto submit_part = [&](CUDA_MEMCPY3D_BATCH_OP part, const OperationInfo& info, const CallFrom* from_host) {
    return submit_copy(
        stream, host, std::move(shape.accesses), info, [&] { return call(&part, std::size_t{1}); }, from_host);
  };
  const auto submit_region = [&](const Region& region, const OperationInfo& info, const CallFrom* from_host) {
    const CUDA_MEMCPY3D_BATCH_OP part = part_of(copy, region);
    shape.accesses = shape_of(&part).accesses;
    return submit_part(part, info, from_host);
  };
  if (shape.accesses.moves().empty()) return submit_part(copy, info_of_copy<F>(), nullptr);
  if (may_read_host_copy(stream, shape))
    return copy_to_host(stream, host, shape.to, shape.from, info_of_copy<F>(), submit_region);
  const bool is_plain = may_read_source_there(stream, shape.to.at, shape.from.at) && is_ordinary(shape.to.box) &&
                        is_ordinary(shape.from.box);
  return in_parts(stream, shape.accesses, shape.to, shape.from, [&](const Region& region) {
    const auto copy_there = [&](const void* host_copy) {
      return copy_from_host_copy(stream, part_of(shape.to, region), host_copy, part_of(shape.from, region).box);
    };
    const CallFrom from_host = copy_there;
    return submit_region(region, info_of_copy<F>(), is_plain ? &from_host : nullptr);
  });
}

// If one copy of a batch ends behind a buffer, no copy is submitted. `one(i)` returns the accesses of copy i.
template <class One>
CUresult refuse_past_an_end(StreamHandle stream, const AccessList& all, std::size_t count, std::size_t* failed,
                            One one) {
  const CUresult refused = thermocline::refuse_past_an_end(stream, all);
  for (std::size_t i = 0; refused != CUDA_SUCCESS && failed != nullptr && i < count; ++i) {
    if (thermocline::refuse_past_an_end(stream, one(i)) == CUDA_SUCCESS) continue;
    *failed = i;
    break;
  }
  return refused;
}

// Submits a batch at once if everything fits on the device, else one copy after the other: their order is unspecified.
// `call` makes the driver call for a batch. `failed`, if the function has it, is the index of the copy that failed.
template <Function F, class Call>
CUresult copy_batch(StreamHandle stream, const Batch& batch, std::size_t* failed, Call call) {
  AccessList accesses = named_by(batch.to, batch.from, batch.bytes, batch.count);
  const auto one = [&](std::size_t i) { return named_by(batch.to + i, batch.from + i, batch.bytes + i, 1); };
  const CUresult refused = refuse_past_an_end(stream, accesses, batch.count, failed, one);
  if (refused != CUDA_SUCCESS) return refused;
  const Host host = host_of(batch.attributes, batch.kinds);
  bool at_once = true;
  if (batch.is_complete()) {
    const CUresult asked =
        ask_whether_at_once(stream, accesses, &at_once, [&] { return any_reads_host_copy(stream, batch); });
    if (asked != CUDA_SUCCESS) return asked;
  }
  if (at_once) return submit(stream, host, std::move(accesses), info_of_copy<F>(), [&] { return call(batch); });
  for (std::size_t i = 0; i < batch.count; ++i) {
    const CUresult result = copy_one<F>(stream, host, batch, i, call);
    if (result == CUDA_SUCCESS) continue;
    if (failed != nullptr) *failed = i;
    return result;
  }
  return CUDA_SUCCESS;
}

template <Function F, class Call>
CUresult copy_batch(StreamHandle stream, CUDA_MEMCPY3D_BATCH_OP* copies, std::size_t count, std::size_t* failed,
                    Call call) {
  AccessList accesses = named_by(copies, count);
  const auto one = [&](std::size_t i) { return named_by(copies + i, 1); };
  const CUresult refused = refuse_past_an_end(stream, accesses, count, failed, one);
  if (refused != CUDA_SUCCESS) return refused;
  const Host host = host_of(copies, count);
  bool at_once = copies == nullptr;
  if (!at_once) {
    const CUresult asked =
        ask_whether_at_once(stream, accesses, &at_once, [&] { return any_reads_host_copy(stream, copies, count); });
    if (asked != CUDA_SUCCESS) return asked;
  }
  if (at_once) {
    return submit(stream, host, std::move(accesses), info_of_copy<F>(), [&] { return call(copies, count); });
  }
  for (std::size_t i = 0; i < count; ++i) {
    const CUresult result = copy_one<F>(stream, host, copies[i], call);
    if (result == CUDA_SUCCESS) continue;
    if (failed != nullptr) *failed = i;
    return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace thermocline

THERMOCLINE_HOOK_PAIR(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* pCopy),
                      { return copy_and_wait<kFunction>(stream_of(nullptr), pCopy); })
THERMOCLINE_HOOK_PAIR(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* pCopy),
                      { return copy_and_wait<kFunction>(stream_of(nullptr), pCopy); })
THERMOCLINE_HOOK_PAIR(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* pCopy),
                      { return copy_and_wait<kFunction>(stream_of(nullptr), pCopy); })
THERMOCLINE_HOOK_PAIR(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER* pCopy),
                      { return copy_and_wait<kFunction>(stream_of(nullptr), pCopy); })

THERMOCLINE_HOOK_PAIR(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D* pCopy, CUstream hStream),
                      { return copy_in_order<kFunction>(stream_of(hStream), pCopy, hStream); })
THERMOCLINE_HOOK_PAIR(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D* pCopy, CUstream hStream),
                      { return copy_in_order<kFunction>(stream_of(hStream), pCopy, hStream); })
THERMOCLINE_HOOK_PAIR(cuMemcpy3DPeerAsync, _ptsz, (const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream),
                      { return copy_in_order<kFunction>(stream_of(hStream), pCopy, hStream); })

THERMOCLINE_HOOK_PAIR(cuMemcpyBatchAsync, _ptsz,
                      (CUdeviceptr * dsts, CUdeviceptr* srcs, size_t* sizes, size_t count, CUmemcpyAttributes* attrs,
                       size_t* attrsIdxs, size_t numAttrs, size_t* failIdx, CUstream hStream),
                      {
                        return copy_batch<kFunction>(
                            stream_of(hStream), Batch{dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs}, failIdx,
                            [&](const Batch& b) {
                              return real<kFunction>(b.to, b.from, b.bytes, b.count, b.attributes, b.first, b.kinds,
                                                     failIdx, hStream);
                            });
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpyBatchAsync_v2, _ptsz,
                      (CUdeviceptr * dsts, CUdeviceptr* srcs, size_t* sizes, size_t count, CUmemcpyAttributes* attrs,
                       size_t* attrsIdxs, size_t numAttrs, CUstream hStream),
                      {
                        return copy_batch<kFunction>(stream_of(hStream),
                                                     Batch{dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs},
                                                     nullptr, [&](const Batch& b) {
                                                       return real<kFunction>(b.to, b.from, b.bytes, b.count,
                                                                              b.attributes, b.first, b.kinds, hStream);
                                                     });
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpy3DBatchAsync, _ptsz,
                      (size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx, unsigned long long flags,
                       CUstream hStream),
                      {
                        return copy_batch<kFunction>(stream_of(hStream), opList, numOps, failIdx,
                                                     [&](CUDA_MEMCPY3D_BATCH_OP* copies, std::size_t count) {
                                                       return real<kFunction>(count, copies, failIdx, flags, hStream);
                                                     });
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpy3DBatchAsync_v2, _ptsz,
                      (size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags, CUstream hStream), {
                        return copy_batch<kFunction>(stream_of(hStream), opList, numOps, nullptr,
                                                     [&](CUDA_MEMCPY3D_BATCH_OP* copies, std::size_t count) {
                                                       return real<kFunction>(count, copies, flags, hStream);
                                                     });
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpyWithAttributesAsync, _ptsz,
                      (CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes* attr, CUstream hStream), {
                        std::size_t first = 0;
                        return copy_batch<kFunction>(stream_of(hStream), Batch{&dst, &src, &size, 1, attr, &first, 1},
                                                     nullptr, [&](const Batch& one) {
                                                       return real<kFunction>(*one.to, *one.from, *one.bytes, attr,
                                                                              hStream);
                                                     });
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpy3DWithAttributesAsync, _ptsz,
                      (CUDA_MEMCPY3D_BATCH_OP * op, unsigned long long flags, CUstream hStream), {
                        return copy_batch<kFunction>(stream_of(hStream), op, op == nullptr ? 0 : 1, nullptr,
                                                     [&](CUDA_MEMCPY3D_BATCH_OP* copy, std::size_t) {
                                                       return real<kFunction>(copy, flags, hStream);
                                                     });
                      })

THERMOCLINE_HOOK_PAIR(cuFabricCpyBatchAsync, _ptsz,
                      (size_t numOps, CUDA_FABRIC_COPY_BATCH_OP* opList, unsigned long long flags, CUstream hStream), {
                        return operate<kFunction>(stream_of(hStream), Host::kGoesOn, named_by(opList, numOps), numOps,
                                                  opList, flags, hStream);
                      })
