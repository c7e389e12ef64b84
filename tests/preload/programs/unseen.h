// SPDX-License-Identifier: Apache-2.0
// For programs whose kernels access memory in a way that the library can not see: they find their operands in
// memory that it does not read. That memory is freed after the kernels have completed, as the driver does it, if no stream captures any more.
#pragma once

#include "tests/preload/programs/small.h"
#include "tests/preload/programs/unread_memory.h"

#include <vector_types.h>

#include <cstdint>
#include <cstring>

namespace {

const char kUnseen[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry add_up(.param .u64 where)\n{\n"
    "  .reg .pred %none;\n  .reg .b32 %word;\n  .reg .b64 %where, %at, %words, %sum, %wide;\n"
    "  ld.param.u64 %where, [where];\n"
    "  ld.u64 %at, [%where];\n  ld.u64 %words, [%where+8];\n  ld.u64 %sum, [%where+16];\n"
    "each:\n"
    "  setp.eq.u64 %none, %words, 0;\n  @%none bra done;\n"
    "  ld.u32 %word, [%at];\n  cvt.u64.u32 %wide, %word;\n  mad.lo.u64 %sum, %sum, 31, %wide;\n"
    "  add.u64 %at, %at, 4;\n  sub.u64 %words, %words, 1;\n  bra each;\n"
    "done:\n"
    "  st.u64 [%where+16], %sum;\n  ret;\n}\n";

struct Given {
  const std::uint32_t* at;
  std::uint64_t words, sum;
};

// A kernel launch that is not seen, and the streams on which memory is freed after it.
struct Unseen {
  CUmodule more = nullptr;
  CUfunction add_up = nullptr;
  Given* given = nullptr;
  CUstream streams[2] = {};
};

inline Unseen begin_unseen() {
  Unseen made;
  CHECK(cuModuleLoadData(&made.more, kUnseen));
  CHECK(cuModuleGetFunction(&made.add_up, made.more, "add_up"));
  CHECK(allocate_unread(reinterpret_cast<void**>(&made.given), sizeof *made.given));
  for (CUstream& one : made.streams) CHECK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
  return made;
}

inline void end_unseen(const Unseen& unseen) {
  for (CUstream one : unseen.streams) CHECK(cuStreamDestroy(one));
  CHECK(free_unread(unseen.given));
}

// The buffer is freed and allocated again, for another stream, while an unseen kernel may be using it. The first few
// rounds may succeed by chance.
inline void free_behind_what_is_unseen(const Unseen& unseen, int i) {
  Given* given = unseen.given;
  const CUstream one = unseen.streams[i % 2], two = unseen.streams[1 - i % 2];
  static unsigned value = 2;
  const unsigned on = 1;
  void* parameters[] = {&given};
  CHECK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffers[i]));
  CHECK(cuCtxSynchronize());
  *given = {reinterpret_cast<const std::uint32_t*>(buffers[i]), BYTES / 4, 0};
  CHECK(cuLaunchKernel(unseen.add_up, 1, 1, 1, 1, 1, 1, 0, one, parameters, nullptr));
  CHECK(cuMemFree(buffers[i]));
  CHECK(cuMemAlloc(&buffers[i], BYTES));
  CHECK(cuMemsetD32Async(buffers[i], ++value, BYTES / 4, two));
  CHECK(cuStreamSynchronize(two));
  CHECK(cuStreamSynchronize(one));
  printf("sum %llu\n", static_cast<unsigned long long>(given->sum));
}

inline void free_all_behind_what_is_unseen(const Unseen& unseen) {
  for (int i = 0; i < BUFFERS; ++i) free_behind_what_is_unseen(unseen, i);
}

}  // namespace

// NOLINTNEXTLINE(misc-definitions-in-headers): each program that includes this exports it once
extern "C" __attribute__((visibility("default"))) void simulated_add_up(void** arguments, dim3, dim3) {
  Given* given;
  std::memcpy(&given, arguments[0], sizeof given);
  for (std::uint64_t i = 0; i < given->words; ++i) given->sum = given->sum * 31 + given->at[i];
}
