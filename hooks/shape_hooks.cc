// SPDX-License-Identifier: Apache-2.0
// Copies of rows and layers, and batches of copies.
#include "hooks/macros.h"
#include "hooks/shapes.h"

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

template <Function F, class Copy, class... Arguments>
CUresult submit_shape(StreamHandle stream, Host host, AccessList accesses, const Copy* copy, Arguments... arguments) {
  // Arrays are of their own device.
  if (accesses.moves().empty()) return operate<F>(stream, host, std::move(accesses), copy, arguments...);
  return submit_copy(
      stream, host, std::move(accesses), info_of_copy<F>(), [&] { return real<F>(copy, arguments...); },
      [&](CUstream another) { return in_stream(copy, another); });
}

template <Function F, class Copy>
CUresult copy_and_wait(StreamHandle stream, const Copy* copy) {
  ShapedCopy shape = shape_of(copy);
  const Host host = shape.host == Host::kGoesOn ? Host::kMayGoOn : shape.host;
  return submit_shape<F>(stream, host, std::move(shape.accesses), copy);
}

template <Function F, class Copy>
CUresult copy_in_order(StreamHandle stream, const Copy* copy, CUstream argument) {
  return submit_shape<F>(stream, Host::kGoesOn, shape_of(copy).accesses, copy, argument);
}

AccessList batch(const CUdeviceptr* to, const CUdeviceptr* from, const std::size_t* bytes, std::size_t count) {
  AccessList accesses;
  if (to == nullptr || from == nullptr || bytes == nullptr) return accesses;
  for (std::size_t i = 0; i < count; ++i) accesses.copy(to[i], from[i], bytes[i]);
  return accesses;
}

AccessList batch(const CUDA_MEMCPY3D_BATCH_OP* copies, std::size_t count) {
  AccessList accesses;
  for (std::size_t i = 0; copies != nullptr && i < count; ++i) add_shape(&accesses, copies[i]);
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

AccessList batch(const CUDA_FABRIC_COPY_BATCH_OP* copies, std::size_t count) {
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
                        return operate<kFunction>(stream_of(hStream), host_of(attrs, numAttrs),
                                                  batch(dsts, srcs, sizes, count), dsts, srcs, sizes, count, attrs,
                                                  attrsIdxs, numAttrs, failIdx, hStream);
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpyBatchAsync_v2, _ptsz,
                      (CUdeviceptr * dsts, CUdeviceptr* srcs, size_t* sizes, size_t count, CUmemcpyAttributes* attrs,
                       size_t* attrsIdxs, size_t numAttrs, CUstream hStream),
                      {
                        return operate<kFunction>(stream_of(hStream), host_of(attrs, numAttrs),
                                                  batch(dsts, srcs, sizes, count), dsts, srcs, sizes, count, attrs,
                                                  attrsIdxs, numAttrs, hStream);
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpy3DBatchAsync, _ptsz,
                      (size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx, unsigned long long flags,
                       CUstream hStream),
                      {
                        return operate<kFunction>(stream_of(hStream), host_of(opList, numOps), batch(opList, numOps),
                                                  numOps, opList, failIdx, flags, hStream);
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpy3DBatchAsync_v2, _ptsz,
                      (size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags, CUstream hStream), {
                        return operate<kFunction>(stream_of(hStream), host_of(opList, numOps), batch(opList, numOps),
                                                  numOps, opList, flags, hStream);
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpyWithAttributesAsync, _ptsz,
                      (CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes* attr, CUstream hStream), {
                        return operate<kFunction>(stream_of(hStream), host_of(attr, 1), batch(&dst, &src, &size, 1),
                                                  dst, src, size, attr, hStream);
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpy3DWithAttributesAsync, _ptsz,
                      (CUDA_MEMCPY3D_BATCH_OP * op, unsigned long long flags, CUstream hStream), {
                        return operate<kFunction>(stream_of(hStream), host_of(op, 1), batch(op, 1), op, flags, hStream);
                      })

THERMOCLINE_HOOK_PAIR(cuFabricCpyBatchAsync, _ptsz,
                      (size_t numOps, CUDA_FABRIC_COPY_BATCH_OP* opList, unsigned long long flags, CUstream hStream), {
                        return operate<kFunction>(stream_of(hStream), Host::kGoesOn, batch(opList, numOps), numOps,
                                                  opList, flags, hStream);
                      })
