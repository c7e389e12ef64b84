// SPDX-License-Identifier: Apache-2.0
// The kernels of the small programs (small.h), in PTX.
#pragma once

// The kernels mix cells of 16 bytes, of each only the first word: so an address that is a few words further in the same
// buffer reads nothing that the kernel writes, and results do not depend on the order of threads. Each thread mixes
// CELLS cells, at distances of the number of threads, so a launch reads and writes the first 512 bytes per thread.
#define CELLS 32
#define BYTES_PER_THREAD ((size_t)16 * CELLS)

#define PTX_HEADER ".version 8.0\n.target sm_70\n.address_size 64\n"

// A body is PTX_BEGIN, what sets %out and %in, PTX_EACH_CELL, what is to be done with a cell, PTX_NEXT_CELL. %cell is the
// number of the cell, %offset where it is in a buffer, %at its address in `out`. 32 is CELLS.
#define PTX_BEGIN                                                                 \
  "{\n"                                                                           \
  "  .reg .pred %more;\n"                                                         \
  "  .reg .b32 %cell, %threads, %cells, %block, %value, %other, %x, %y, %t<4>;\n" \
  "  .reg .b64 %out, %in, %offset, %at, %from, %byte, %d<8>;\n"                   \
  "  .reg .f32 %u, %v, %f<4>;\n"                                                  \
  "  mov.u32 %cell, %tid.x;\n"                                                    \
  "  mov.u32 %threads, %ntid.x;\n"                                                \
  "  mov.u32 %block, %ctaid.x;\n"                                                 \
  "  mad.lo.u32 %cell, %block, %threads, %cell;\n"                                \
  "  mov.u32 %block, %nctaid.x;\n"                                                \
  "  mul.lo.u32 %threads, %threads, %block;\n"                                    \
  "  mul.lo.u32 %cells, %threads, 32;\n"
#define PTX_EACH_CELL                    \
  "each:\n"                              \
  "  mul.wide.u32 %offset, %cell, 16;\n" \
  "  add.u64 %at, %out, %offset;\n"
#define PTX_NEXT_CELL                     \
  "  add.u32 %cell, %cell, %threads;\n"   \
  "  setp.lt.u32 %more, %cell, %cells;\n" \
  "  @%more bra each;\n"                  \
  "  ret;\n}\n"

#define PTX_TWO "  ld.param.u64 %out, [out];\n  ld.param.u64 %in, [in];\n"

// The word of `in` in %other.
#define PTX_READ "  add.u64 %from, %in, %offset;\n  ld.u32 %other, [%from];\n"

// The word of `out` becomes 31 times itself, plus %other, plus the number of its cell.
#define PTX_MIX                                \
  "  ld.u32 %value, [%at];\n"                  \
  "  mad.lo.u32 %value, %value, 31, %other;\n" \
  "  add.u32 %value, %value, %cell;\n"         \
  "  st.u32 [%at], %value;\n"

// The middle of a texel in %u and %v: of `mask` + 1 = 2^`bits` in a row, of 512 rows.
#define PTX_POSITION(mask, bits)    \
  "  and.b32 %x, %cell, " mask      \
  ";\n"                             \
  "  shr.u32 %y, %cell, " bits      \
  ";\n"                             \
  "  and.b32 %y, %y, 511;\n"        \
  "  cvt.rn.f32.u32 %u, %x;\n"      \
  "  cvt.rn.f32.u32 %v, %y;\n"      \
  "  add.f32 %u, %u, 0f3F000000;\n" \
  "  add.f32 %v, %v, 0f3F000000;\n"

// A word of a packed structure, byte by byte: it is at an odd offset.
#define PTX_BYTE(into, offset, shift)                                                                        \
  "  ld.param.u8 %byte, [block+" offset "];\n  shl.b64 %byte, %byte, " shift ";\n  or.b64 %" into ", %" into \
  ", %byte;\n"
#define PTX_PACKED(into, o0, o1, o2, o3, o4, o5, o6, o7)                                                  \
  "  mov.u64 %" into ", 0;\n" PTX_BYTE(into, o0, "0") PTX_BYTE(into, o1, "8") PTX_BYTE(into, o2, "16")    \
      PTX_BYTE(into, o3, "24") PTX_BYTE(into, o4, "32") PTX_BYTE(into, o5, "40") PTX_BYTE(into, o6, "48") \
          PTX_BYTE(into, o7, "56")

// Mixes one of many buffers with those before it, unless it is missing.
#define PTX_ONE_OF_MANY(number)                                     \
  "  setp.eq.u64 %more, %d" number ", 0;\n  @%more bra none" number \
  ";\n"                                                             \
  "  add.u64 %at, %d" number ", %offset;\n" PTX_MIX "  mov.u32 %other, %value;\nnone" number ":\n"

static const char kKernels[] = PTX_HEADER
    ".visible .entry mix(.param .u64 out, .param .u64 in)\n"
    PTX_BEGIN PTX_TWO PTX_EACH_CELL PTX_READ PTX_MIX PTX_NEXT_CELL
    // For memory that nobody has written: it reads only `in`.
    ".visible .entry mix_new(.param .u64 out, .param .u64 in)\n"
    PTX_BEGIN PTX_TWO PTX_EACH_CELL PTX_READ
    "  mad.lo.u32 %value, %other, 31, %cell;\n  st.u32 [%at], %value;\n"
    PTX_NEXT_CELL
    // A byte, `out`, four bytes, `in`.
    ".visible .entry mix_packed(.param .align 1 .b8 block[21])\n"
    PTX_BEGIN
    PTX_PACKED("out", "1", "2", "3", "4", "5", "6", "7", "8")
    PTX_PACKED("in", "13", "14", "15", "16", "17", "18", "19", "20")
    PTX_EACH_CELL PTX_READ PTX_MIX PTX_NEXT_CELL
    // Up to eight buffers, all of which it reads and writes.
    ".visible .entry mix_many(.param .align 8 .b8 block[64])\n"
    PTX_BEGIN
    "  ld.param.u64 %d0, [block];\n  ld.param.u64 %d1, [block+8];\n"
    "  ld.param.u64 %d2, [block+16];\n  ld.param.u64 %d3, [block+24];\n"
    "  ld.param.u64 %d4, [block+32];\n  ld.param.u64 %d5, [block+40];\n"
    "  ld.param.u64 %d6, [block+48];\n  ld.param.u64 %d7, [block+56];\n"
    "  mov.u64 %out, 0;\n"
    PTX_EACH_CELL
    "  mov.u32 %other, 0;\n"
    PTX_ONE_OF_MANY("0") PTX_ONE_OF_MANY("1") PTX_ONE_OF_MANY("2") PTX_ONE_OF_MANY("3")
    PTX_ONE_OF_MANY("4") PTX_ONE_OF_MANY("5") PTX_ONE_OF_MANY("6") PTX_ONE_OF_MANY("7")
    PTX_NEXT_CELL
    // A texture over linear memory of at least half of BYTES, one word a texel.
    ".visible .entry mix_line(.param .u64 out, .param .u64 in)\n"
    PTX_BEGIN PTX_TWO PTX_EACH_CELL
    "  shl.b32 %x, %cell, 1;\n  tex.1d.v4.u32.s32 {%other, %t1, %t2, %t3}, [%in, {%x}];\n"
    PTX_MIX PTX_NEXT_CELL
    // A texture over rows of linear memory, at least 64 texels wide and 512 high, four floating-point numbers a texel.
    ".visible .entry mix_rows(.param .u64 out, .param .u64 in)\n"
    PTX_BEGIN PTX_TWO PTX_EACH_CELL PTX_POSITION("63", "6")
    "  tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%in, {%u, %v}];\n"
    "  mov.b32 %t0, %f0;\n  mov.b32 %t1, %f1;\n  mov.b32 %t2, %f2;\n  mov.b32 %t3, %f3;\n"
    "  mad.lo.u32 %other, %t0, 7, %t1;\n  mad.lo.u32 %other, %other, 7, %t2;\n  mad.lo.u32 %other, %other, 7, %t3;\n"
    PTX_MIX PTX_NEXT_CELL
    // A texture over an array of 512 x 512 words.
    ".visible .entry mix_image(.param .u64 out, .param .u64 in)\n"
    PTX_BEGIN PTX_TWO PTX_EACH_CELL PTX_POSITION("511", "9")
    "  tex.2d.v4.u32.f32 {%other, %t1, %t2, %t3}, [%in, {%u, %v}];\n"
    PTX_MIX PTX_NEXT_CELL
    // A surface over such an array, which it writes, too.
    ".visible .entry mix_surface(.param .u64 out, .param .u64 in)\n"
    PTX_BEGIN PTX_TWO PTX_EACH_CELL
    "  and.b32 %x, %cell, 511;\n  shl.b32 %x, %x, 2;\n  shr.u32 %y, %cell, 9;\n  and.b32 %y, %y, 511;\n"
    "  suld.b.2d.b32.trap {%other}, [%in, {%x, %y}];\n"
    PTX_MIX
    "  sust.b.2d.b32.trap [%in, {%x, %y}], {%value};\n"
    PTX_NEXT_CELL;

// Another kernel of the same name, with other parameters.
#define KERNELS_WITH_ANOTHER_MIX                                                                                    \
  PTX_HEADER                                                                                                        \
  ".visible .entry mix(.param .u32 words, .param .u64 factor, .param .u64 out, .param .u64 in)\n" PTX_BEGIN PTX_TWO \
  "  ld.param.u32 %t0, [words];\n  ld.param.u64 %d0, [factor];\n  cvt.u32.u64 %t1, %d0;\n" PTX_EACH_CELL PTX_READ   \
  "  mad.lo.u32 %other, %other, %t1, %t0;\n" PTX_MIX PTX_NEXT_CELL
