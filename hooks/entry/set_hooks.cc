// SPDX-License-Identifier: Apache-2.0
// Sets of ranges and of rows. The host does not wait in any of them.
#include "hooks/submit/in_parts.h"
#include "hooks/submit/macros.h"
#include "hooks/submit/shapes.h"

namespace thermocline {
namespace {

Bytes bytes_of(std::size_t elements, std::size_t element_bytes) {
  Bytes bytes = 0;
  return __builtin_mul_overflow(elements, element_bytes, &bytes) ? kNoMemoryIsAsLarge : bytes;
}

AccessList filled(CUdeviceptr at, std::size_t elements, std::size_t element_bytes) {
  return AccessList().write(at, bytes_of(elements, element_bytes));
}

template <Function F, class Element, class... More>
CUresult fill(StreamHandle stream, Host host, CUdeviceptr at, Element value, std::size_t elements, More... more) {
  const std::size_t bytes = bytes_of(elements, sizeof value);
  return in_parts(stream, filled(at, elements, sizeof value), at, 0, bytes, [&](std::size_t done, std::size_t now) {
    const std::size_t count = done == 0 && now == bytes ? elements : now / sizeof value;
    return operate<F>(stream, host, filled(at + done, count, sizeof value), at + done, value, count, more...);
  });
}

template <Function F, class Element, class... More>
CUresult fill_rows(StreamHandle stream, Host host, CUdeviceptr at, std::size_t pitch, Element value, std::size_t width,
                   std::size_t rows, More... more) {
  const Placed to{at, Box{.width = bytes_of(width, sizeof value), .rows = rows, .pitch = pitch}};
  AccessList accesses;
  add_write(&accesses, to.at, to.box);
  return in_parts(stream, accesses, to, Placed{0, Box{.width = 0}}, [&](const Region& region) {
    const Placed part = part_of(to, region);
    const std::size_t elements = region.bytes == 0 ? width : region.bytes / sizeof value;
    accesses.clear();
    add_write(&accesses, part.at, part.box);
    return operate<F>(stream, host, std::move(accesses), part.at, pitch, value, elements, region.rows, more...);
  });
}

}  // namespace
}  // namespace thermocline

// `bits` is part of the function's name; `element` is the type of the written value.
#define THERMOCLINE_SET_HOOKS(bits, element)                                                                         \
  THERMOCLINE_HOOK_PAIR(cuMemsetD##bits##_v2, _ptds, (CUdeviceptr dst, element value, size_t N),                     \
                        { return fill<kFunction>(stream_of(nullptr), Host::kMayGoOn, dst, value, N); })              \
  THERMOCLINE_HOOK_PAIR(cuMemsetD##bits##Async, _ptsz, (CUdeviceptr dst, element value, size_t N, CUstream hStream), \
                        { return fill<kFunction>(stream_of(hStream), Host::kGoesOn, dst, value, N, hStream); })      \
  THERMOCLINE_HOOK_PAIR(                                                                                             \
      cuMemsetD2D##bits##_v2, _ptds, (CUdeviceptr dst, size_t pitch, element value, size_t width, size_t height),    \
      { return fill_rows<kFunction>(stream_of(nullptr), Host::kMayGoOn, dst, pitch, value, width, height); })        \
  THERMOCLINE_HOOK_PAIR(                                                                                             \
      cuMemsetD2D##bits##Async, _ptsz,                                                                               \
      (CUdeviceptr dst, size_t pitch, element value, size_t width, size_t height, CUstream hStream),                 \
      { return fill_rows<kFunction>(stream_of(hStream), Host::kGoesOn, dst, pitch, value, width, height, hStream); })

THERMOCLINE_SET_HOOKS(8, unsigned char)
THERMOCLINE_SET_HOOKS(16, unsigned short)
THERMOCLINE_SET_HOOKS(32, unsigned int)
