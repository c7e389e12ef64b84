// SPDX-License-Identifier: Apache-2.0
// Sets: of a range, and of rows. None of them makes the host wait.
#include "hooks/in_parts.h"
#include "hooks/macros.h"
#include "hooks/shapes.h"

namespace thermocline {
namespace {

AccessList filled(CUdeviceptr at, std::size_t elements, std::size_t element_bytes) {
  return AccessList().write(at, elements * element_bytes);
}

template <Function F, class Element, class... More>
CUresult fill(StreamHandle stream, Host host, CUdeviceptr at, Element value, std::size_t elements, More... more) {
  const std::size_t bytes = elements * sizeof value;
  return in_parts(stream, filled(at, elements, sizeof value), at, 0, bytes, [&](std::size_t done, std::size_t now) {
    const std::size_t count = done == 0 && now == bytes ? elements : now / sizeof value;
    return operate<F>(stream, host, filled(at + done, count, sizeof value), at + done, value, count, more...);
  });
}

AccessList filled_rows(CUdeviceptr at, std::size_t pitch, std::size_t width, std::size_t rows,
                       std::size_t element_bytes) {
  AccessList accesses;
  add_write(&accesses, at, Box{.width = width * element_bytes, .rows = rows, .pitch = pitch});
  return accesses;
}

}  // namespace
}  // namespace thermocline

// `bits` names the function, `element` is the type of what is written.
#define THERMOCLINE_SET_HOOKS(bits, element)                                                                           \
  THERMOCLINE_HOOK_PAIR(cuMemsetD##bits##_v2, _ptds, (CUdeviceptr dst, element value, size_t N),                       \
                        { return fill<kFunction>(stream_of(nullptr), Host::kMayGoOn, dst, value, N); })                \
  THERMOCLINE_HOOK_PAIR(cuMemsetD##bits##Async, _ptsz, (CUdeviceptr dst, element value, size_t N, CUstream hStream),   \
                        { return fill<kFunction>(stream_of(hStream), Host::kGoesOn, dst, value, N, hStream); })        \
  THERMOCLINE_HOOK_PAIR(cuMemsetD2D##bits##_v2, _ptds,                                                                 \
                        (CUdeviceptr dst, size_t pitch, element value, size_t width, size_t height), {                 \
                          return operate<kFunction>(stream_of(nullptr), Host::kMayGoOn,                                \
                                                    filled_rows(dst, pitch, width, height, sizeof value), dst, pitch,  \
                                                    value, width, height);                                             \
                        })                                                                                             \
  THERMOCLINE_HOOK_PAIR(cuMemsetD2D##bits##Async, _ptsz,                                                               \
                        (CUdeviceptr dst, size_t pitch, element value, size_t width, size_t height, CUstream hStream), \
                        {                                                                                              \
                          return operate<kFunction>(stream_of(hStream), Host::kGoesOn,                                 \
                                                    filled_rows(dst, pitch, width, height, sizeof value), dst, pitch,  \
                                                    value, width, height, hStream);                                    \
                        })

THERMOCLINE_SET_HOOKS(8, unsigned char)
THERMOCLINE_SET_HOOKS(16, unsigned short)
THERMOCLINE_SET_HOOKS(32, unsigned int)
