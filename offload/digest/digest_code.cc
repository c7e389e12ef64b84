// SPDX-License-Identifier: Apache-2.0
#include "offload/digest/digest_code.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "driver/hash.h"
#include "offload/digest/digest.h"

namespace thermocline {
namespace {

// Odd, with about as many ones as zeros: 2^64 over the golden ratio, and the multipliers of SplitMix64 (Steele, Lea,
// Flood, 2014), MurmurHash3's finalizer (Appleby) and rrmxmx (Evensen).
constexpr std::uint64_t kNumber = kHashFactor;
constexpr std::array<std::uint64_t, 5> kRounds = {0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xFF51AFD7ED558CCD,
                                                  0xC4CEB9FE1A85EC53, 0x9FB21C651E98DF25};
constexpr unsigned kLoads = 4;

// The contribution of a unit (u, v) with the number in %n to %low and %high; the same as `permuted` below.
constexpr std::string_view kMix = R"(
  {
  .reg .b64 %k, %u, %v, %s;
  add.u64 %k, %n, 1;
  mul.lo.u64 %k, %k, NUMBER;
  xor.b64 %u, U, %k;
  sub.u64 %v, V, %k;
  mul.lo.u64 %u, %u, ROUND0;
  shr.u64 %s, %u, 32;
  xor.b64 %u, %u, %s;
  add.u64 %v, %v, %u;
  mul.lo.u64 %v, %v, ROUND1;
  shr.u64 %s, %v, 32;
  xor.b64 %v, %v, %s;
  add.u64 %u, %u, %v;
  mul.lo.u64 %u, %u, ROUND2;
  shr.u64 %s, %u, 32;
  xor.b64 %u, %u, %s;
  add.u64 %v, %v, %u;
  mul.lo.u64 %v, %v, ROUND3;
  shr.u64 %s, %v, 32;
  xor.b64 %v, %v, %s;
  add.u64 %u, %u, %v;
  mul.lo.u64 %u, %u, ROUND4;
  shr.u64 %s, %u, 32;
  xor.b64 %u, %u, %s;
  add.u64 %v, %v, %u;
  add.u64 %low, %low, %u;
  add.u64 %high, %high, %v;
  }
)";

constexpr std::string_view kHead = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry KERNEL(
  .param .u64 KERNEL_begin,
  .param .u64 KERNEL_bytes,
  .param .u64 KERNEL_records,
  .param .u64 KERNEL_ticket)
.maxntid THREADS, 1, 1
.minnctapersm 3
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %begin, %bytes, %records, %ticket, %units, %first, %n, %step, %low, %high, %a, %b, %at, %stride, %last;
  .reg .b64 %x<8>;
  .shared .align 16 .b8 sums[SHARED];

  ld.param.u64 %begin, [KERNEL_begin];
  ld.param.u64 %bytes, [KERNEL_bytes];
  ld.param.u64 %records, [KERNEL_records];
  ld.param.u64 %ticket, [KERNEL_ticket];
  cvta.to.global.u64 %begin, %begin;
  cvta.to.global.u64 %records, %records;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %first, %r2, %r3;
  cvt.u64.u32 %a, %r1;
  add.u64 %first, %first, %a;
  mul.wide.u32 %step, %r3, %r4;
  shl.b64 %stride, %step, 4;
  shr.u64 %units, %bytes, 4;
  mov.u64 %low, 0;
  mov.u64 %high, 0;
  mov.u64 %n, %first;
)";

constexpr std::string_view kFourUnits = R"(
FOUR:
  mul.lo.u64 %last, %step, 3;
  add.u64 %last, %last, %n;
  setp.ge.u64 %p1, %last, %units;
  @%p1 bra ONE;
  shl.b64 %at, %n, 4;
  add.u64 %at, %at, %begin;
  ld.global.v2.u64 {%x0, %x1}, [%at];
  add.u64 %at, %at, %stride;
  ld.global.v2.u64 {%x2, %x3}, [%at];
  add.u64 %at, %at, %stride;
  ld.global.v2.u64 {%x4, %x5}, [%at];
  add.u64 %at, %at, %stride;
  ld.global.v2.u64 {%x6, %x7}, [%at];
)";

constexpr std::string_view kOneUnit = R"(
  bra FOUR;
ONE:
  setp.ge.u64 %p1, %n, %units;
  @%p1 bra REST;
  shl.b64 %at, %n, 4;
  add.u64 %at, %at, %begin;
  ld.global.v2.u64 {%x0, %x1}, [%at];
)";

// The last bytes, fewer than a unit: one thread reads them one by one, the last byte first.
constexpr std::string_view kRest = R"(
  bra ONE;
REST:
  and.b64 %last, %bytes, 15;
  setp.ne.u64 %p1, %first, 0;
  @%p1 bra REDUCE;
  setp.eq.u64 %p1, %last, 0;
  @%p1 bra REDUCE;
  shl.b64 %at, %units, 4;
  add.u64 %at, %at, %begin;
  mov.u64 %x0, 0;
  mov.u64 %x1, 0;
  mov.u64 %n, %units;
BYTE:
  sub.u64 %last, %last, 1;
  add.u64 %a, %at, %last;
  ld.global.u8 %b, [%a];
  shr.u64 %a, %x0, 56;
  shl.b64 %x1, %x1, 8;
  or.b64 %x1, %x1, %a;
  shl.b64 %x0, %x0, 8;
  or.b64 %x0, %x0, %b;
  setp.ne.u64 %p1, %last, 0;
  @%p1 bra BYTE;
)";

// GROUP threads add up the sums of LENGTH threads each; the first thread adds up theirs.
constexpr std::string_view kReduce = R"(
REDUCE:
  mov.u32 %r5, sums;
  shl.b32 %r6, %r1, 4;
  add.u32 %r5, %r5, %r6;
  st.shared.v2.u64 [%r5], {%low, %high};
  bar.sync 0;
  setp.ge.u32 %p1, %r1, GROUP;
  @%p1 bra WAIT;
  mov.u32 %r6, 1;
ROW:
  mul.lo.u32 %r7, %r6, ROWBYTES;
  add.u32 %r7, %r5, %r7;
  ld.shared.v2.u64 {%a, %b}, [%r7];
  add.u64 %low, %low, %a;
  add.u64 %high, %high, %b;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p1, %r6, LENGTH;
  @%p1 bra ROW;
  st.shared.v2.u64 [%r5], {%low, %high};
WAIT:
  bar.sync 0;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra END;
  mov.u32 %r6, 1;
COLUMN:
  shl.b32 %r7, %r6, 4;
  add.u32 %r7, %r5, %r7;
  ld.shared.v2.u64 {%a, %b}, [%r7];
  add.u64 %low, %low, %a;
  add.u64 %high, %high, %b;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p1, %r6, GROUP;
  @%p1 bra COLUMN;
  mul.wide.u32 %a, %r2, RECORD;
  add.u64 %a, %a, %records;
  st.global.v2.u64 [%a], {%low, %high};
  st.global.v2.u64 [%a+16], {%ticket, %bytes};
END:
  ret;
}
)";

constexpr unsigned kGroup = 16;
static_assert(kDigestThreads % kGroup == 0);

// The mixing of the registers that load number `load` has filled.
std::string mix(unsigned load) {
  std::string text = replaced(std::string(kMix), "NUMBER", std::to_string(static_cast<std::int64_t>(kNumber)));
  for (std::size_t i = 0; i < kRounds.size(); ++i) {
    text = replaced(text, "ROUND" + std::to_string(i), std::to_string(static_cast<std::int64_t>(kRounds[i])));
  }
  text = replaced(text, " U,", " %x" + std::to_string(2 * load) + ",");
  return replaced(text, " V,", " %x" + std::to_string(2 * load + 1) + ",") + "  add.u64 %n, %n, %step;\n";
}

Digest permuted(std::uint64_t u, std::uint64_t v, std::uint64_t n) {
  const std::uint64_t k = (n + 1) * kNumber;
  u = (u ^ k) * kRounds[0];
  v -= k;
  u ^= u >> 32;
  v = (v + u) * kRounds[1];
  v ^= v >> 32;
  u = (u + v) * kRounds[2];
  u ^= u >> 32;
  v = (v + u) * kRounds[3];
  v ^= v >> 32;
  u = (u + v) * kRounds[4];
  u ^= u >> 32;
  return {u, v + u};
}

}  // namespace

std::string replaced(std::string text, std::string_view name, std::string_view value) {
  for (auto at = text.find(name); at != text.npos; at = text.find(name, at + value.size())) {
    text.replace(at, name.size(), value);
  }
  return text;
}

Digest digest_of(std::span<const std::byte> memory) {
  Digest sum;
  for (std::size_t at = 0; at < memory.size(); at += kDigestUnit) {
    std::uint64_t words[2] = {};
    std::memcpy(words, memory.data() + at, std::min<std::size_t>(kDigestUnit, memory.size() - at));
    sum += permuted(words[0], words[1], at / kDigestUnit);
  }
  return sum;
}

std::string digest_code() {
  std::string code(kHead);
  code += kFourUnits;
  for (unsigned load = 0; load < kLoads; ++load) code += mix(load);
  code += kOneUnit;
  code += mix(0);
  code += kRest;
  code += mix(0);
  code += kReduce;
  code = replaced(code, "KERNEL", kDigestKernel);
  code = replaced(code, "SHARED", std::to_string(kDigestThreads * sizeof(Digest)));
  code = replaced(code, "THREADS", std::to_string(kDigestThreads));
  code = replaced(code, "LENGTH", std::to_string(kDigestThreads / kGroup));
  code = replaced(code, "ROWBYTES", std::to_string(kGroup * sizeof(Digest)));
  code = replaced(code, "GROUP", std::to_string(kGroup));
  return replaced(code, "RECORD", std::to_string(sizeof(DigestRecord))) + copy_code();
}

unsigned digest_blocks(Bytes bytes) {
  constexpr Bytes kTurnBytes = Bytes{kDigestThreads} * kLoads * kDigestUnit;
  const Bytes block_turns = std::max<Bytes>(bytes / kTurnBytes, 1);
  const Bytes turns = (block_turns + kMostDigestBlocks - 1) / kMostDigestBlocks;
  return static_cast<unsigned>((block_turns + turns - 1) / turns);
}

}  // namespace thermocline
