// SPDX-License-Identifier: Apache-2.0
// The kernel that copies memory if it has changed: see digest_code.h.
#include <algorithm>
#include <string>
#include <string_view>

#include "offload/digest/digest.h"
#include "offload/digest/digest_code.h"

namespace thermocline {
namespace {

// Every block decides for itself: it adds the records of the new digest and subtracts those of the old one. The sums
// are zero if all records are there and equal. %odd collects errors of records.
constexpr std::string_view kDecide = R"(
.visible .entry KERNEL(
  .param .u64 KERNEL_begin,
  .param .u64 KERNEL_bytes,
  .param .u64 KERNEL_host,
  .param .u64 KERNEL_records,
  .param .u64 KERNEL_ticket,
  .param .u64 KERNEL_blocks,
  .param .u64 KERNEL_old_records,
  .param .u64 KERNEL_old_ticket,
  .param .u64 KERNEL_old_blocks,
  .param .u64 KERNEL_old_low,
  .param .u64 KERNEL_old_high,
  .param .u64 KERNEL_verdict)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %begin, %bytes, %host, %records, %ticket, %blocks, %verdict, %units, %first, %n, %step, %low, %high, %odd;
  .reg .b64 %a, %from, %to, %stride, %last;
  .reg .b64 %x<8>;
  .shared .align 16 .b8 differences[SHARED];
  .shared .align 16 .b8 rows[ROWS];

  ld.param.u64 %begin, [KERNEL_begin];
  ld.param.u64 %bytes, [KERNEL_bytes];
  ld.param.u64 %host, [KERNEL_host];
  ld.param.u64 %verdict, [KERNEL_verdict];
  cvta.to.global.u64 %begin, %begin;
  cvta.to.global.u64 %host, %host;
  cvta.to.global.u64 %verdict, %verdict;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %nctaid.x;
  mov.u64 %low, 0;
  mov.u64 %high, 0;
  mov.u64 %odd, 0;

  ld.param.u64 %records, [KERNEL_records];
  ld.param.u64 %ticket, [KERNEL_ticket];
  ld.param.u64 %blocks, [KERNEL_blocks];
  cvta.to.global.u64 %records, %records;
  cvt.u64.u32 %n, %r1;
  cvt.u64.u32 %step, %r3;
NEW:
  setp.ge.u64 %p1, %n, %blocks;
  @%p1 bra NEWDONE;
  mul.lo.u64 %a, %n, RECORD;
  add.u64 %a, %a, %records;
  ld.global.v2.u64 {%x0, %x1}, [%a];
  ld.global.v2.u64 {%x2, %x3}, [%a+16];
  add.u64 %low, %low, %x0;
  add.u64 %high, %high, %x1;
  xor.b64 %x2, %x2, %ticket;
  or.b64 %odd, %odd, %x2;
  xor.b64 %x3, %x3, %bytes;
  or.b64 %odd, %odd, %x3;
  add.u64 %n, %n, %step;
  bra NEW;
NEWDONE:
  ld.param.u64 %records, [KERNEL_old_records];
  ld.param.u64 %ticket, [KERNEL_old_ticket];
  ld.param.u64 %blocks, [KERNEL_old_blocks];
  cvta.to.global.u64 %records, %records;
  cvt.u64.u32 %n, %r1;
OLD:
  setp.ge.u64 %p1, %n, %blocks;
  @%p1 bra OLDDONE;
  mul.lo.u64 %a, %n, RECORD;
  add.u64 %a, %a, %records;
  ld.global.v2.u64 {%x0, %x1}, [%a];
  ld.global.v2.u64 {%x2, %x3}, [%a+16];
  sub.u64 %low, %low, %x0;
  sub.u64 %high, %high, %x1;
  xor.b64 %x2, %x2, %ticket;
  or.b64 %odd, %odd, %x2;
  xor.b64 %x3, %x3, %bytes;
  or.b64 %odd, %odd, %x3;
  add.u64 %n, %n, %step;
  bra OLD;
OLDDONE:
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra SHARE;
  ld.param.u64 %x0, [KERNEL_old_low];
  ld.param.u64 %x1, [KERNEL_old_high];
  sub.u64 %low, %low, %x0;
  sub.u64 %high, %high, %x1;
SHARE:
  mov.u32 %r5, differences;
  mul.lo.u32 %r6, %r1, 32;
  add.u32 %r6, %r5, %r6;
  st.shared.v2.u64 [%r6], {%low, %high};
  st.shared.u64 [%r6+16], %odd;
  bar.sync 0;
  setp.ge.u32 %p1, %r1, GROUP;
  @%p1 bra WAIT;
  mul.lo.u32 %r6, %r1, ROWBYTES;
  add.u32 %r5, %r5, %r6;
SUM
  mov.u32 %r5, rows;
  mul.lo.u32 %r6, %r1, 32;
  add.u32 %r6, %r5, %r6;
  st.shared.v2.u64 [%r6], {%low, %high};
  st.shared.u64 [%r6+16], %odd;
WAIT:
  bar.sync 0;
  mov.u32 %r5, rows;
SUM
  or.b64 %low, %low, %high;
  or.b64 %low, %low, %odd;

  mul.wide.u32 %first, %r2, %r3;
  cvt.u64.u32 %a, %r1;
  add.u64 %first, %first, %a;
  setp.ne.u64 %p1, %first, 0;
  @%p1 bra DECIDED;
  setp.ne.u64 %p1, %low, 0;
  selp.u64 %x0, CHANGED, EQUAL, %p1;
  ld.param.u64 %ticket, [KERNEL_ticket];
  st.global.v2.u64 [%verdict], {%ticket, %x0};
DECIDED:
  setp.eq.u64 %p1, %low, 0;
  @%p1 bra END;
)";

// The sums of GROUP entries from %r5 on.
constexpr std::string_view kSum = R"(
  mov.u64 %low, 0;
  mov.u64 %high, 0;
  mov.u64 %odd, 0;
  mov.u32 %r7, 0;
LOOP:
  ld.shared.v2.u64 {%x0, %x1}, [%r5];
  ld.shared.u64 %x2, [%r5+16];
  add.u64 %low, %low, %x0;
  add.u64 %high, %high, %x1;
  or.b64 %odd, %odd, %x2;
  add.u32 %r5, %r5, 32;
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p1, %r7, GROUP;
  @%p1 bra LOOP;)";

constexpr std::string_view kCopy = R"(
  mul.wide.u32 %step, %r3, %r4;
  shl.b64 %stride, %step, 4;
  shr.u64 %units, %bytes, 4;
  mov.u64 %n, %first;
FOUR:
  mul.lo.u64 %last, %step, 3;
  add.u64 %last, %last, %n;
  setp.ge.u64 %p1, %last, %units;
  @%p1 bra ONE;
  shl.b64 %a, %n, 4;
  add.u64 %from, %begin, %a;
  add.u64 %to, %host, %a;
  ld.global.v2.u64 {%x0, %x1}, [%from];
  add.u64 %from, %from, %stride;
  ld.global.v2.u64 {%x2, %x3}, [%from];
  add.u64 %from, %from, %stride;
  ld.global.v2.u64 {%x4, %x5}, [%from];
  add.u64 %from, %from, %stride;
  ld.global.v2.u64 {%x6, %x7}, [%from];
  st.global.v2.u64 [%to], {%x0, %x1};
  add.u64 %to, %to, %stride;
  st.global.v2.u64 [%to], {%x2, %x3};
  add.u64 %to, %to, %stride;
  st.global.v2.u64 [%to], {%x4, %x5};
  add.u64 %to, %to, %stride;
  st.global.v2.u64 [%to], {%x6, %x7};
  add.u64 %n, %last, %step;
  bra FOUR;
ONE:
  setp.ge.u64 %p1, %n, %units;
  @%p1 bra REST;
  shl.b64 %a, %n, 4;
  add.u64 %from, %begin, %a;
  add.u64 %to, %host, %a;
  ld.global.v2.u64 {%x0, %x1}, [%from];
  st.global.v2.u64 [%to], {%x0, %x1};
  add.u64 %n, %n, %step;
  bra ONE;
REST:
  setp.ne.u64 %p1, %first, 0;
  @%p1 bra END;
  shl.b64 %n, %units, 4;
BYTE:
  setp.ge.u64 %p1, %n, %bytes;
  @%p1 bra END;
  add.u64 %from, %begin, %n;
  add.u64 %to, %host, %n;
  ld.global.u8 %x0, [%from];
  st.global.u8 [%to], %x0;
  add.u64 %n, %n, 1;
  bra BYTE;
END:
  ret;
}
)";

constexpr unsigned kGroup = 16;
static_assert(kGroup * kGroup == kCopyThreads);
constexpr unsigned kEntryBytes = 32;  // two sums, errors of records, and padding

}  // namespace

std::string copy_code() {
  std::string code(kDecide);
  for (const char* const loop : {"ROW", "ALL"}) {
    code.replace(code.find("\nSUM\n") + 1, 3, replaced(std::string(kSum), "LOOP", loop));
  }
  code += kCopy;
  code = replaced(code, "ROWBYTES", std::to_string(kGroup * kEntryBytes));
  code = replaced(code, "ROWS", std::to_string(kGroup * kEntryBytes));
  code = replaced(code, "GROUP", std::to_string(kGroup));
  code = replaced(code, "KERNEL", kCopyKernel);
  code = replaced(code, "SHARED", std::to_string(kCopyThreads * kEntryBytes));
  code = replaced(code, "CHANGED", std::to_string(CopyVerdict::kChanged));
  code = replaced(code, "EQUAL", std::to_string(CopyVerdict::kEqual));
  return replaced(code, "RECORD", std::to_string(sizeof(DigestRecord)));
}

unsigned copy_blocks(Bytes bytes) {
  // Four units for each thread.
  constexpr Bytes kBlockBytes = Bytes{kCopyThreads} * 4 * kDigestUnit;
  return static_cast<unsigned>(std::clamp<Bytes>(bytes / kBlockBytes, 1, kMostCopyBlocks));
}

}  // namespace thermocline
