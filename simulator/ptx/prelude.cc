// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/prelude.h"

namespace simulator::ptx {

// The table has rights for pages that the kernel has reached in this way before (reached.h). If the inline check fails,
// ptx_access decides: a page that is new, pinned host memory, another state space behind a generic address, or a fault.
const std::string_view kPrelude = R"(
declare void @ptx_access(i8*, i64, i32, i32)
declare void @ptx_span(i8*, i64, i32, i32)
declare void @ptx_shared_access(i8*, i64, i32, i32)
declare void @ptx_local_access(i8*, i64, i32, i32)
declare float @ptx_extreme_f32(float, float, i32)
declare double @ptx_extreme_f64(double, double, i32)
declare void @llvm.memset.p0i8.i64(i8*, i8, i64, i1)
declare i8* @llvm.frameaddress.p0i8(i32)
declare float @llvm.fma.f32(float, float, float)
declare double @llvm.fma.f64(double, double, double)
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)

define internal i64 @check_global(i8* %ctx, i64 %pages, i64 %a, i64 %low, i32 %mask, i32 %bytes, i32 %site) #0 {
  %page = lshr i64 %a, 21
  %index = and i64 %page, 67108863
  %table = inttoptr i64 %pages to i32*
  %slot = getelementptr i32, i32* %table, i64 %index
  %entry = load i32, i32* %slot
  %have = and i32 %entry, %mask
  %lacks = icmp ne i32 %have, %mask
  %high = lshr i64 %a, 47
  %mis = and i64 %a, %low
  %both = or i64 %high, %mis
  %odd = icmp ne i64 %both, 0
  %bad = or i1 %lacks, %odd
  br i1 %bad, label %slow, label %ok, !prof !1
slow:
  call void @ptx_access(i8* %ctx, i64 %a, i32 %bytes, i32 %site)
  br label %ok
ok:
  ret i64 %a
}

; All accesses of a span (spans.h): from %a to %last, both in one page, with all of these rights.
define internal void @check_span(i8* %ctx, i64 %pages, i64 %a, i64 %last, i64 %low, i32 %mask, i64 %base, i32 %site, i32 %count) #0 {
  %page = lshr i64 %a, 21
  %index = and i64 %page, 67108863
  %table = inttoptr i64 %pages to i32*
  %slot = getelementptr i32, i32* %table, i64 %index
  %entry = load i32, i32* %slot
  %have = and i32 %entry, %mask
  %lacks = icmp ne i32 %have, %mask
  %high = lshr i64 %a, 47
  %between = xor i64 %a, %last
  %other = lshr i64 %between, 21
  %mis = and i64 %a, %low
  %both = or i64 %high, %mis
  %any = or i64 %both, %other
  %odd = icmp ne i64 %any, 0
  %bad = or i1 %lacks, %odd
  br i1 %bad, label %slow, label %ok, !prof !1
slow:
  call void @ptx_span(i8* %ctx, i64 %base, i32 %site, i32 %count)
  br label %ok
ok:
  ret void
}

define internal i64 @check_shared(i8* %ctx, i64 %base, i64 %size, i64 %a, i64 %low, i64 %bytes, i32 %site) #0 {
  %end = add i64 %a, %bytes
  %far = icmp ugt i64 %end, %size
  %out = icmp uge i64 %a, %size
  %mis = and i64 %a, %low
  %odd = icmp ne i64 %mis, 0
  %bad1 = or i1 %far, %out
  %bad = or i1 %bad1, %odd
  br i1 %bad, label %slow, label %ok, !prof !1
slow:
  %n = trunc i64 %bytes to i32
  call void @ptx_shared_access(i8* %ctx, i64 %a, i32 %n, i32 %site)
  unreachable
ok:
  %at = add i64 %base, %a
  ret i64 %at
}

define internal i64 @check_local(i8* %ctx, i64 %own, i64 %size, i64 %a, i64 %low, i64 %bytes, i32 %site) #0 {
  %offset = sub i64 %a, %own
  %end = add i64 %offset, %bytes
  %far = icmp ugt i64 %end, %size
  %out = icmp uge i64 %offset, %size
  %mis = and i64 %offset, %low
  %odd = icmp ne i64 %mis, 0
  %bad1 = or i1 %far, %out
  %bad = or i1 %bad1, %odd
  br i1 %bad, label %slow, label %ok, !prof !1
slow:
  %n = trunc i64 %bytes to i32
  call void @ptx_local_access(i8* %ctx, i64 %a, i32 %n, i32 %site)
  br label %ok
ok:
  ret i64 %a
}

; flags: as in float_helpers.cc
define internal float @extreme_f32(float %a, float %b, i32 %flags) #0 {
  %differ = fcmp one float %a, %b
  %modified = icmp uge i32 %flags, 4
  %unlike = xor i1 %modified, true
  %easy = and i1 %differ, %unlike
  br i1 %easy, label %fast, label %slow
fast:
  %above = fcmp ogt float %a, %b
  %bit = trunc i32 %flags to i1
  %first = icmp eq i1 %above, %bit
  %one = select i1 %first, float %a, float %b
  br label %done
slow:
  %other = call float @ptx_extreme_f32(float %a, float %b, i32 %flags)
  br label %done
done:
  %result = phi float [ %one, %fast ], [ %other, %slow ]
  ret float %result
}

; flags: as in float_helpers.cc
define internal double @extreme_f64(double %a, double %b, i32 %flags) #0 {
  %differ = fcmp one double %a, %b
  %modified = icmp uge i32 %flags, 4
  %unlike = xor i1 %modified, true
  %easy = and i1 %differ, %unlike
  br i1 %easy, label %fast, label %slow
fast:
  %above = fcmp ogt double %a, %b
  %bit = trunc i32 %flags to i1
  %first = icmp eq i1 %above, %bit
  %one = select i1 %first, double %a, double %b
  br label %done
slow:
  %other = call double @ptx_extreme_f64(double %a, double %b, i32 %flags)
  br label %done
done:
  %result = phi double [ %one, %fast ], [ %other, %slow ]
  ret double %result
}

define internal float @ftz(float %x) #0 {
  %bits = bitcast float %x to i32
  %exponent = and i32 %bits, 2139095040
  %tiny = icmp eq i32 %exponent, 0
  %sign = and i32 %bits, -2147483648
  %kept = select i1 %tiny, i32 %sign, i32 %bits
  %result = bitcast i32 %kept to float
  ret float %result
}

; exponent: which bits are the exponent
define internal i16 @ftz_half(i16 %bits, i16 %exponent) #0 {
  %kept_exponent = and i16 %bits, %exponent
  %tiny = icmp eq i16 %kept_exponent, 0
  %sign = and i16 %bits, -32768
  %result = select i1 %tiny, i16 %sign, i16 %bits
  ret i16 %result
}

define internal float @saturate_float(float %x) #0 {
  %over = fcmp ogt float %x, 1.0
  %least = select i1 %over, float 1.0, float %x
  %above = fcmp ogt float %least, 0.0
  %result = select i1 %above, float %least, float 0.0
  ret float %result
}

define internal double @saturate_double(double %x) #0 {
  %over = fcmp ogt double %x, 1.0
  %least = select i1 %over, double 1.0, double %x
  %above = fcmp ogt double %least, 0.0
  %result = select i1 %above, double %least, double 0.0
  ret double %result
}

define internal float @bf16_to_float(i16 %x) #0 {
  %wide = zext i16 %x to i32
  %bits = shl i32 %wide, 16
  %result = bitcast i32 %bits to float
  ret float %result
}

define internal i16 @float_to_bf16(float %x) #0 {
  %bits = bitcast float %x to i32
  %upper = lshr i32 %bits, 16
  %odd = and i32 %upper, 1
  %bias = add i32 %odd, 32767
  %sum = add i32 %bits, %bias
  %rounded = lshr i32 %sum, 16
  %nan = fcmp uno float %x, %x
  %kept = select i1 %nan, i32 32767, i32 %rounded
  %result = trunc i32 %kept to i16
  ret i16 %result
}
)";

const std::string_view kPostlude = R"(
attributes #0 = { alwaysinline nounwind }
attributes #1 = { nounwind }
!0 = !{}
!1 = !{!"branch_weights", i32 1, i32 1000000}
)";

}  // namespace simulator::ptx
