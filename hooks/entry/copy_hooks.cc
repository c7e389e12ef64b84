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
#include "hooks/submit/upload_copies.h"

namespace thermocline {
namespace {

AccessList written(CUdeviceptr to, std::size_t bytes) { return AccessList().write(to, bytes); }
AccessList taken(CUdeviceptr from, std::size_t bytes) { return AccessList().read(from, bytes); }
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
                      return submit_copy(stream, host, std::move(accesses), info, call, in_another,
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
    const auto copy_there = [&](const void* copy) {
      return copy_from_host_copy(stream, address_of(target), copy, now);
    };
    const CallFrom from_host = copy_there;
    const OperationInfo::Source kind = source_of_upload(stream, address_of(target), address_of(source), now);
    const auto copy_by_way = [&](std::span<const UploadCopy> parts) {
      return copy_by_way_of_host(stream, kind, address_of(target), address_of(source), now, parts);
    };
    const UploadByWay by_way{kind, copy_by_way};
    return submit_copy(
        stream, host, std::move(accesses), info_of_copy<F>(), [&] { return real<F>(target, source, now, more...); },
        [&](CUstream another) {
          return real<Function::cuMemcpyAsync>(address_of(target), address_of(source), now, another);
        },
        std::is_same_v<From, CUdeviceptr> ? &from_host : nullptr,
        kind != OperationInfo::Source::kElsewhere ? &by_way : nullptr);
  });
}

// A copy that names the contexts of its ends. The program called `F`; `Called` is the driver's function that is used.
template <Function F, Function Called, class... More>
CUresult copy_between(StreamHandle stream, Host host, CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, std::size_t bytes, More... more) {
  AccessList accesses = copied(to, from, bytes);
  return in_parts(stream, accesses, to, from, bytes, [&](std::size_t done, std::size_t now) {
    accesses.clear();
    accesses.copy(to + done, from + done, now);
    const auto copy_there = [&](const void* copy) { return copy_from_host_copy(stream, to + done, copy, now); };
    const CallFrom from_host = copy_there;
    const auto call = [&] { return real<Called>(to + done, to_context, from + done, from_context, now, more...); };
    return submit_copy(stream, host, std::move(accesses), info_of_copy<F>(), call, &from_host);
  });
}

template <Function F, class... More>
CUresult copy_on_devices(StreamHandle stream, Host host, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                         More... more) {
  const std::optional<Ends> ends = ends_on_two_devices(to, from);
  if (!ends.has_value()) return copy_anywhere<F>(stream, host, to, from, bytes, more...);
  return copy_between<F, peer_of(F)>(stream, host, to, ends->to, from, ends->from, bytes, more...);
}

// Copies between an array and memory of the device.
template <Function F>
CUresult copy_to_array(StreamHandle stream, CUarray to, std::size_t offset, CUdeviceptr from, std::size_t bytes) {
  return in_parts(
      stream, taken(from, bytes), 0, from, bytes,
      [&](std::size_t done, std::size_t now) {
        return operate<F>(stream, Host::kMayGoOn, taken(from + done, now), to, offset + done, from + done, now);
      },
      kArrayElementBytes);
}

template <Function F>
CUresult copy_from_array(StreamHandle stream, CUdeviceptr to, CUarray from, std::size_t offset, std::size_t bytes) {
  return in_parts(
      stream, written(to, bytes), to, 0, bytes,
      [&](std::size_t done, std::size_t now) {
        return operate<F>(stream, Host::kMayGoOn, written(to + done, now), to + done, from, offset + done, now);
      },
      kArrayElementBytes);
}

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

THERMOCLINE_HOOK_PAIR(cuMemcpyDtoA_v2, _ptds, (CUarray dst, size_t dstOffset, CUdeviceptr src, size_t ByteCount),
                      { return copy_to_array<kFunction>(stream_of(nullptr), dst, dstOffset, src, ByteCount); })

THERMOCLINE_HOOK_PAIR(cuMemcpyAtoD_v2, _ptds, (CUdeviceptr dst, CUarray src, size_t srcOffset, size_t ByteCount),
                      { return copy_from_array<kFunction>(stream_of(nullptr), dst, src, srcOffset, ByteCount); })

THERMOCLINE_HOOK_PAIR(cuMemcpyPeer, _ptds,
                      (CUdeviceptr dst, CUcontext dstContext, CUdeviceptr src, CUcontext srcContext, size_t ByteCount),
                      {
                        return copy_between<kFunction, kFunction>(stream_of(nullptr), Host::kMayGoOn, dst, dstContext,
                                                                  src, srcContext, ByteCount);
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
                        return copy_between<kFunction, kFunction>(stream_of(hStream), Host::kGoesOn, dst, dstContext,
                                                                  src, srcContext, ByteCount, hStream);
                      })
