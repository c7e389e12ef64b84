// SPDX-License-Identifier: Apache-2.0
// Copies of one range. Whether the host waits follows "API synchronization behavior" in the CUDA driver API's manual:
// copies to the host return when they are done, copies from the host when the source may be changed, copies on the
// device at once.
#include <optional>
#include <type_traits>

#include "hooks/capture/capture_state.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/in_parts.h"
#include "hooks/submit/macros.h"
#include "hooks/submit/to_host.h"

namespace thermocline {
namespace {

AccessList copied(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) { return AccessList().copy(to, from, bytes); }
// Mapped memory that is accessible only to its own device can be copied to another device only by the calls that name
// both contexts (PyTorch 2.5, c10/cuda/CUDACachingAllocator.cpp, memcpyAsync); the driver's own memory by any call. So
// a copy that names no contexts is replaced by the corresponding call that does.
constexpr Function peer_of(Function function) {
  switch (function) {
    case Function::cuMemcpy:
    case Function::cuMemcpyDtoD_v2:
      return Function::cuMemcpyPeer;
    case Function::cuMemcpy_ptds:
    case Function::cuMemcpyDtoD_v2_ptds:
      return Function::cuMemcpyPeer_ptds;
    case Function::cuMemcpyAsync:
    case Function::cuMemcpyDtoDAsync_v2:
      return Function::cuMemcpyPeerAsync;
    default:
      return Function::cuMemcpyPeerAsync_ptsz;
  }
}

// The contexts of source and destination.
struct Ends {
  CUcontext to = nullptr, from = nullptr;
};

// Null: host memory, or unknown.
CUcontext context_at(const EngineSet& engines, CUdeviceptr at) {
  if (const ActiveEngine* const owner = engines.owner(DeviceAddress{at})) return owner->context;
  const Inside inside;
  unsigned int type = 0;
  CUcontext context = nullptr;
  if (real<Function::cuPointerGetAttribute>(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) != CUDA_SUCCESS ||
      type != CU_MEMORYTYPE_DEVICE ||
      real<Function::cuPointerGetAttribute>(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at) != CUDA_SUCCESS) {
    return nullptr;
  }
  return context;
}

// Set if there are several engines, one of which owns one end, and the other end belongs to another context. If the
// other device has no engine, its memory is the driver's own, and the stream is what matters (proxy_streams.h).
std::optional<Ends> ends_on_two_devices(CUdeviceptr to, CUdeviceptr from) {
  const EngineSet* const engines = engines_now();
  if (engines == nullptr || engines->size() == 1) return std::nullopt;
  const ActiveEngine* const to_owner = engines->owner(DeviceAddress{to});
  const ActiveEngine* const from_owner = engines->owner(DeviceAddress{from});
  if (to_owner == from_owner) return std::nullopt;
  const Ends ends{context_at(*engines, to), context_at(*engines, from)};
  if (ends.to == nullptr || ends.from == nullptr || ends.to == ends.from) return std::nullopt;
  return ends;
}

CUdeviceptr address_of(CUdeviceptr at) { return at; }
CUdeviceptr address_of(const void* at) { return reinterpret_cast<CUdeviceptr>(at); }
CUdeviceptr behind(CUdeviceptr at, std::size_t bytes) { return at + bytes; }
void* behind(void* at, std::size_t bytes) { return static_cast<char*>(at) + bytes; }
const void* behind(const void* at, std::size_t bytes) { return static_cast<const char*>(at) + bytes; }

// The parts that are not evicted are copied with the same driver function.
template <Function F, class To, class... More>
CUresult copy_runs_to_host(StreamHandle stream, Host host, To to, CUdeviceptr from, std::size_t bytes, More... more) {
  const auto run = [&](std::size_t begin, std::size_t length, const OperationInfo& info, const CallFrom& from_host) {
    return in_parts(stream, copied(address_of(to) + begin, from + begin, length), 0, from + begin, length,
                    [&](std::size_t done, std::size_t now) {
                      const To target = behind(to, begin + done);
                      const CUdeviceptr source = from + begin + done;
                      AccessList accesses = copied(address_of(target), source, now);
                      const auto call = [&] { return real<F>(target, source, now, more...); };
                      const auto in_another = [&](CUstream another) {
                        return real<Function::cuMemcpyAsync>(address_of(target), source, now, another);
                      };
                      return submit_copy_to_host(stream, host, std::move(accesses), info, call, in_another,
                                                 now == length ? &from_host : nullptr);
                    });
  };
  return copy_to_host(stream, host, address_of(to), from, bytes, info_of_copy<F>(), run);
}

// With unified addresses, the addresses determine the direction.
template <Function F, class To, class From, class... More>
CUresult copy_anywhere(StreamHandle stream, Host host, To to, From from, std::size_t bytes, More... more) {
  if constexpr (std::is_same_v<From, CUdeviceptr>) {
    if (is_copy_to_host(address_of(to), from) && !is_recording(stream))
      return copy_runs_to_host<F>(stream, host, to, from, bytes, more...);
  }
  // One list is reused instead of several, because threads may have small stacks.
  AccessList accesses = copied(address_of(to), address_of(from), bytes);
  return in_parts(stream, accesses, address_of(to), address_of(from), bytes, [&](std::size_t done, std::size_t now) {
    const To target = behind(to, done);
    const From source = behind(from, done);
    accesses.clear();
    accesses.copy(address_of(target), address_of(source), now);
    return submit_copy(
        stream, host, std::move(accesses), info_of_copy<F>(), [&] { return real<F>(target, source, now, more...); },
        [&](CUstream another) {
          return real<Function::cuMemcpyAsync>(address_of(target), address_of(source), now, another);
        });
  });
}

template <Function F, class... More>
CUresult copy_on_devices(StreamHandle stream, Host host, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                         More... more) {
  const std::optional<Ends> ends = ends_on_two_devices(to, from);
  if (!ends.has_value()) return copy_anywhere<F>(stream, host, to, from, bytes, more...);
  return submit(stream, host, copied(to, from, bytes), info_of_copy<F>(),
                [&] { return real<peer_of(F)>(to, ends->to, from, ends->from, bytes, more...); });
}

AccessList written(CUdeviceptr to, std::size_t bytes) { return AccessList().write(to, bytes); }
AccessList taken(CUdeviceptr from, std::size_t bytes) { return AccessList().read(from, bytes); }

}  // namespace
}  // namespace thermocline

THERMOCLINE_HOOK_PAIR(cuMemcpy, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount), {
  return copy_on_devices<kFunction>(stream_of(nullptr), Host::kWaitsFirst, dst, src, ByteCount);
})

THERMOCLINE_HOOK_PAIR(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr dst, const void* src, size_t ByteCount),
                      { return copy_anywhere<kFunction>(stream_of(nullptr), Host::kWaitsFirst, dst, src, ByteCount); })

THERMOCLINE_HOOK_PAIR(cuMemcpyDtoH_v2, _ptds, (void* dst, CUdeviceptr src, size_t ByteCount),
                      { return copy_anywhere<kFunction>(stream_of(nullptr), Host::kWaits, dst, src, ByteCount); })

THERMOCLINE_HOOK_PAIR(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount),
                      { return copy_on_devices<kFunction>(stream_of(nullptr), Host::kMayGoOn, dst, src, ByteCount); })

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
  return copy_on_devices<kFunction>(stream_of(hStream), Host::kGoesOn, dst, src, ByteCount, hStream);
})

THERMOCLINE_HOOK_PAIR(cuMemcpyHtoDAsync_v2, _ptsz,
                      (CUdeviceptr dst, const void* src, size_t ByteCount, CUstream hStream), {
                        return copy_anywhere<kFunction>(stream_of(hStream), Host::kGoesOn, dst, src, ByteCount,
                                                        hStream);
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpyDtoHAsync_v2, _ptsz, (void* dst, CUdeviceptr src, size_t ByteCount, CUstream hStream), {
  return copy_anywhere<kFunction>(stream_of(hStream), Host::kGoesOn, dst, src, ByteCount, hStream);
})

THERMOCLINE_HOOK_PAIR(cuMemcpyDtoDAsync_v2, _ptsz,
                      (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream), {
                        return copy_on_devices<kFunction>(stream_of(hStream), Host::kGoesOn, dst, src, ByteCount,
                                                          hStream);
                      })

THERMOCLINE_HOOK_PAIR(cuMemcpyPeerAsync, _ptsz,
                      (CUdeviceptr dst, CUcontext dstContext, CUdeviceptr src, CUcontext srcContext, size_t ByteCount,
                       CUstream hStream),
                      {
                        return operate<kFunction>(stream_of(hStream), Host::kGoesOn, copied(dst, src, ByteCount), dst,
                                                  dstContext, src, srcContext, ByteCount, hStream);
                      })
