// SPDX-License-Identifier: Apache-2.0
#include "hooks/pointers/write_combined.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hooks/interpose/symbols.h"

#if defined(__x86_64__)
#include <smmintrin.h>
#endif

namespace thermocline {
namespace {

#if defined(__x86_64__)
constexpr std::size_t kLine = 64;

// Reads whole cache lines, from an address that is a multiple of 16. The loads of a line must be adjacent: they are
// served by one buffer (Intel 64 and IA-32 Architectures Optimization Reference Manual, "Streaming load").
__attribute__((target("sse4.1"))) void stream_lines(unsigned char* to, const unsigned char* from, std::size_t bytes) {
  // Streaming loads are not ordered after writes of other processors (Intel SDM, volume 1, 12.10.3).
  _mm_mfence();
  for (std::size_t done = 0; done < bytes; done += kLine) {
    auto* line = reinterpret_cast<__m128i*>(const_cast<unsigned char*>(from + done));
    auto* out = reinterpret_cast<__m128i*>(to + done);
    const __m128i a = _mm_stream_load_si128(line), b = _mm_stream_load_si128(line + 1);
    const __m128i c = _mm_stream_load_si128(line + 2), d = _mm_stream_load_si128(line + 3);
    _mm_storeu_si128(out, a);
    _mm_storeu_si128(out + 1, b);
    _mm_storeu_si128(out + 2, c);
    _mm_storeu_si128(out + 3, d);
  }
}
#endif

}  // namespace

bool is_write_combined(const void* at) {
  using Ask = CUresult (*)(unsigned int*, void*);
  static const auto ask = reinterpret_cast<Ask>(real_symbol("cuMemHostGetFlags"));
  unsigned int flags = 0;
  const Inside inside;
  return ask != nullptr && ask(&flags, const_cast<void*>(at)) == CUDA_SUCCESS &&
         (flags & CU_MEMHOSTALLOC_WRITECOMBINED) != 0;
}

void read_write_combined(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
#if defined(__x86_64__)
  static const bool can_stream = __builtin_cpu_supports("sse4.1") != 0;
  const std::size_t before = std::min<std::size_t>(bytes, -reinterpret_cast<std::uintptr_t>(in) % kLine);
  if (can_stream && bytes - before >= kLine) {
    std::memcpy(out, in, before);
    const std::size_t lines = (bytes - before) / kLine * kLine;
    stream_lines(out + before, in + before, lines);
    out += before + lines;
    in += before + lines;
    bytes -= before + lines;
  }
#endif
  std::memcpy(out, in, bytes);
}

}  // namespace thermocline
