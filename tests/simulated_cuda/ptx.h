// SPDX-License-Identifier: Apache-2.0
// Kernels as PTX text. Their bodies are never run: kernels with a host implementation call that, the others mix.
#pragma once

inline constexpr char kPtx[] = R"(
.version 9.0
.target sm_80
.address_size 64

.global .align 4 .u32 counter = 7;
.global .align 8 .u64 where = generic(counter)+2;
.const .align 4 .b8 table[16] = {1, 0, 0, 0, 2};

.visible .entry _Z5scalePffi(
  .param .u64 .ptr .align 1 _Z5scalePffi_param_0,
  .param .f32 _Z5scalePffi_param_1,
  .param .u32 _Z5scalePffi_param_2
) { ret; }

.visible .entry packed(.param .u8 first, .param .align 1 .b8 second[9], .param .u64 third) { ret; }

.visible .entry mystery(.param .u64 to, .param .u64 from) { ret; }

.visible .entry nothing() .maxntid 64, 2, 1 { .shared .align 4 .b8 pad[256]; ret; }
)";
