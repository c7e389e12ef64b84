// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kernels.h"

#include <cstring>

#include <vector_types.h>

namespace conformance {

const char kKernels[] = R"(.version 6.4
.target sm_75
.address_size 64

.visible .global .align 4 .u32 conformance_words[4] = {41, 42, 43, 44};

.visible .entry conformance_add(.param .u64 at, .param .u32 words, .param .u32 value)
{
  .reg .pred %p;
  .reg .b32 %r<7>;
  .reg .b64 %d<3>;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.s32 %r0, %r0, %r1, %r2;
  ld.param.u32 %r3, [words];
  setp.ge.u32 %p, %r0, %r3;
  @%p ret;
  ld.param.u64 %d0, [at];
  ld.param.u32 %r4, [value];
  mul.wide.u32 %d1, %r0, 4;
  add.s64 %d2, %d0, %d1;
  ld.u32 %r5, [%d2];
  add.u32 %r6, %r5, %r4;
  st.u32 [%d2], %r6;
  ret;
}

.visible .entry conformance_copy(.param .u64 to, .param .u64 from, .param .u32 words)
{
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .b64 %d<5>;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.s32 %r0, %r0, %r1, %r2;
  ld.param.u32 %r3, [words];
  setp.ge.u32 %p, %r0, %r3;
  @%p ret;
  ld.param.u64 %d0, [to];
  ld.param.u64 %d1, [from];
  mul.wide.u32 %d2, %r0, 4;
  add.s64 %d3, %d1, %d2;
  ld.u32 %r4, [%d3];
  add.s64 %d4, %d0, %d2;
  st.u32 [%d4], %r4;
  ret;
}

.visible .entry conformance_shape(.param .u64 to)
{
  .reg .b32 %r<6>;
  .reg .b64 %d<1>;
  ld.param.u64 %d0, [to];
  mov.u32 %r0, %nctaid.x;
  mov.u32 %r1, %nctaid.y;
  mov.u32 %r2, %nctaid.z;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %ntid.y;
  mov.u32 %r5, %ntid.z;
  st.u32 [%d0], %r0;
  st.u32 [%d0+4], %r1;
  st.u32 [%d0+8], %r2;
  st.u32 [%d0+12], %r3;
  st.u32 [%d0+16], %r4;
  st.u32 [%d0+20], %r5;
  ret;
}

.visible .entry conformance_layout(.param .u8 a, .param .u64 to, .param .u16 b, .param .align 4 .b8 c[12], .param .u32 d)
{
  .reg .b32 %r<6>;
  .reg .b64 %d<1>;
  ld.param.u64 %d0, [to];
  ld.param.u8 %r0, [a];
  ld.param.u16 %r1, [b];
  ld.param.u32 %r2, [c];
  ld.param.u32 %r3, [c+4];
  ld.param.u32 %r4, [c+8];
  ld.param.u32 %r5, [d];
  st.u32 [%d0], %r0;
  st.u32 [%d0+4], %r1;
  st.u32 [%d0+8], %r2;
  st.u32 [%d0+12], %r3;
  st.u32 [%d0+16], %r4;
  st.u32 [%d0+20], %r5;
  ret;
}

.visible .entry conformance_nothing()
{
  .shared .align 4 .b8 pad[256];
  .reg .b32 %r<2>;
  mov.u32 %r0, pad;
  mov.u32 %r1, %tid.x;
  st.shared.u32 [%r0], %r1;
  ret;
}
)";

namespace {

template <class T>
T read(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace
}  // namespace conformance

extern "C" {

using conformance::read;

__attribute__((visibility("default"))) void simulated_conformance_add(void** arguments, dim3, dim3) {
  auto* const at = read<std::uint32_t*>(arguments[0]);
  const auto words = read<std::uint32_t>(arguments[1]);
  const auto value = read<std::uint32_t>(arguments[2]);
  for (std::uint32_t i = 0; i < words; ++i) at[i] += value;
}

__attribute__((visibility("default"))) void simulated_conformance_copy(void** arguments, dim3, dim3) {
  std::memcpy(read<void*>(arguments[0]), read<const void*>(arguments[1]),
              std::size_t{4} * read<std::uint32_t>(arguments[2]));
}

__attribute__((visibility("default"))) void simulated_conformance_shape(void** arguments, dim3 grid, dim3 block) {
  const std::uint32_t words[] = {grid.x, grid.y, grid.z, block.x, block.y, block.z};
  std::memcpy(read<void*>(arguments[0]), words, sizeof words);
}

__attribute__((visibility("default"))) void simulated_conformance_layout(void** arguments, dim3, dim3) {
  std::uint32_t words[6] = {read<unsigned char>(arguments[0]), read<unsigned short>(arguments[2]), 0, 0, 0, 0};
  std::memcpy(words + 2, arguments[3], 12);
  words[5] = read<std::uint32_t>(arguments[4]);
  std::memcpy(read<void*>(arguments[1]), words, sizeof words);
}

__attribute__((visibility("default"))) void simulated_conformance_nothing(void**, dim3, dim3) {}

}  // extern "C"
