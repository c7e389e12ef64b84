// SPDX-License-Identifier: Apache-2.0
// Copies of one range. Whether the host waits follows "API synchronization behavior" in the CUDA driver API's manual:
// copies to the host return when they are done, copies from the host when the source may be changed, copies on the
// device at once.
#include "hooks/macros.h"

namespace thermocline {
namespace {

TouchList copied(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) { return TouchList().copy(to, from, bytes); }
TouchList written(CUdeviceptr to, std::size_t bytes) { return TouchList().write(to, bytes); }
TouchList taken(CUdeviceptr from, std::size_t bytes) { return TouchList().read(from, bytes); }

}  // namespace
}  // namespace thermocline

THERMOCLINE_HOOK_PAIR(cuMemcpy, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount), {
  return operate<kFunction>(stream_of(nullptr), Host::kWaitsFirst, copied(dst, src, ByteCount), dst, src, ByteCount);
})

THERMOCLINE_HOOK_PAIR(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr dst, const void* src, size_t ByteCount), {
  return operate<kFunction>(stream_of(nullptr), Host::kWaitsFirst,
                            copied(dst, reinterpret_cast<CUdeviceptr>(src), ByteCount), dst, src, ByteCount);
})

THERMOCLINE_HOOK_PAIR(cuMemcpyDtoH_v2, _ptds, (void* dst, CUdeviceptr src, size_t ByteCount), {
  return operate<kFunction>(stream_of(nullptr), Host::kWaits,
                            copied(reinterpret_cast<CUdeviceptr>(dst), src, ByteCount), dst, src, ByteCount);
})

THERMOCLINE_HOOK_PAIR(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount), {
  return operate<kFunction>(stream_of(nullptr), Host::kMayGoOn, copied(dst, src, ByteCount), dst, src, ByteCount);
})

THERMOCLINE_HOOK_PAIR(cuMemcpyDtoA_v2, _ptds, (CUarray dst, size_t dstOffset, CUdeviceptr src, size_t ByteCount), {
  return operate<kFunction>(stream_of(nullptr), Host::kMayGoOn, taken(src, ByteCount), dst, dstOffset, src, ByteCount);
})

THERMOCLINE_HOOK_PAIR(cuMemcpyAtoD_v2, _ptds, (CUdeviceptr dst, CUarray src, size_t srcOffset, size_t ByteCount), {
  return operate<kFunction>(stream_of(nullptr), Host::kMayGoOn, written(dst, ByteCount), dst, src, srcOffset,
                            ByteCount);
})

THERMOCLINE_HOOK_PAIR(cuMemcpyPeer, _ptds,
                      (CUdeviceptr dst, CUcontext dstContext, CUdeviceptr src, CUcontext srcContext, size_t ByteCount),
                      {
                        return operate<kFunction>(stream_of(nullptr), Host::kMayGoOn, copied(dst, src, ByteCount), dst,
                                                  dstContext, src, srcContext, ByteCount);
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpyAsync, _ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream), {
  return operate<kFunction>(stream_of(hStream), Host::kGoesOn, copied(dst, src, ByteCount), dst, src, ByteCount,
                            hStream);
})

THERMOCLINE_HOOK_PAIR(cuMemcpyHtoDAsync_v2, _ptsz,
                      (CUdeviceptr dst, const void* src, size_t ByteCount, CUstream hStream), {
                        return operate<kFunction>(stream_of(hStream), Host::kGoesOn,
                                                  copied(dst, reinterpret_cast<CUdeviceptr>(src), ByteCount), dst, src,
                                                  ByteCount, hStream);
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpyDtoHAsync_v2, _ptsz, (void* dst, CUdeviceptr src, size_t ByteCount, CUstream hStream), {
  return operate<kFunction>(stream_of(hStream), Host::kGoesOn,
                            copied(reinterpret_cast<CUdeviceptr>(dst), src, ByteCount), dst, src, ByteCount, hStream);
})

THERMOCLINE_HOOK_PAIR(cuMemcpyDtoDAsync_v2, _ptsz,
                      (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream), {
                        return operate<kFunction>(stream_of(hStream), Host::kGoesOn, copied(dst, src, ByteCount), dst,
                                                  src, ByteCount, hStream);
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpyPeerAsync, _ptsz,
                      (CUdeviceptr dst, CUcontext dstContext, CUdeviceptr src, CUcontext srcContext, size_t ByteCount,
                       CUstream hStream),
                      {
                        return operate<kFunction>(stream_of(hStream), Host::kGoesOn, copied(dst, src, ByteCount), dst,
                                                  dstContext, src, srcContext, ByteCount, hStream);
                      })
