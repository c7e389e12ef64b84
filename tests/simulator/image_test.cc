// SPDX-License-Identifier: Apache-2.0
// Device images: what they declare, in every form that nvcc writes; and that a damaged image never causes reads outside
// of it.
#include "simulator/image/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "simulator/image/ptx_link.h"
#include "tests/simulated_cuda/ptx.h"

namespace simulator {
namespace {

const ImageKernel* find_kernel(const Image& image, std::string_view name) {
  const auto found =
      std::find_if(image.kernels.begin(), image.kernels.end(), [&](const auto& k) { return k.name == name; });
  return found == image.kernels.end() ? nullptr : &*found;
}

const ImageVariable* find_variable(const Image& image, std::string_view name) {
  const auto found =
      std::find_if(image.variables.begin(), image.variables.end(), [&](const auto& v) { return v.name == name; });
  return found == image.variables.end() ? nullptr : &*found;
}

std::string layout(const ImageKernel& kernel) {
  std::string text;
  for (const ImageParameter& p : kernel.parameters)
    text += std::to_string(p.offset) + "+" + std::to_string(p.size) + " ";
  return text;
}

ImageResult read_text(std::string_view text, Image* out) { return read_image(std::as_bytes(std::span(text)), out); }

std::string layout_of(const std::string& parameters) {
  Image image;
  const ImageResult result = read_text(".version 9.0 .entry k(" + parameters + ") { }", &image);
  return result.ok() ? layout(image.kernels.at(0)) : result.reason;
}

constexpr char kPuzzle[] = R"ptx(
  // .entry in_a_line()
  /* .entry in_a_comment() */
  .version 9.0
  .file 1 ".entry in_a_string()"
  .section .debug_str { info: .b8 46, 101 }
  .extern .func (.param .b32 out) elsewhere (.param .b64 in);
  .func here (.param .b64 in) { .reg .b32 %r<2>; { nested: ret; } }
  .visible .entry only(.param .u64 p) .reqntid 32 { ld.shared.u32 %r1, [s]; { .param .b64 x; call elsewhere, (x); } ret; }
  .entry declared_only(.param .u64 p);
)ptx";

constexpr char kLoads[] = R"ptx(
  .version 9.0
  .target sm_75, debug
  .entry k(.param .u64 p, .param .align 8 .b8 s[16], .param .align 1 .b8 none[1], .param .align 4 .b8 taken[8], .param .u32 n) {
    .reg .b16 %rs<5>; .reg .b32 %r<3>; .reg .b64 %rd<3>;
    mov.b64 %rd2, taken;
    ld.param.u64 %rd1, [p];
    ld.param.v4.u8 {%rs1, %rs2, _, %rs4}, [s+12];
    ld.param::entry.u32 %r1, [s+4];
    ld.param.u32 %r2, [taken];
    add.u16 %rs1, %rs1, %rs4; add.u32 %r1, %r1, %r2; add.u64 %rd1, %rd1, 4;
    ret;
  }
  .entry body_says_nothing(.param .u32 n, .param .align 4 .b8 s[8]) { ret; }
)ptx";

// One letter for each byte: read, unknown, not read.
std::string reads(const ImageKernel& kernel) {
  std::string text;
  for (const ParameterByte byte : kernel.reads)
    text += byte == ParameterByte::kRead ? 'r' : byte == ParameterByte::kUnknown ? '?' : '.';
  return text;
}

constexpr char kInitializers[] = R"(.version 9.0
    .global .u16 shorts[4] = {1, -2, 0x10};
    .global .f32 one = 0f3F800000;
    .const .b64 two[2] = {0d4000000000000000, one};
    .global .s8 rows[2][2] = {{1, 2}, {3, 4}};
    .global .b8 text[] = {104, 105};
    .global .u32 a = 1, b, c = 3;
    .extern .global .u32 other;)";

TEST(PtxImage, LoadsTellWhatAKernelSeesOfItsParameters) {
  Image image;
  ASSERT_TRUE(read_text(kLoads, &image).ok());
  EXPECT_EQ(image.architecture, 75u);
  EXPECT_TRUE(image.is_ptx);
  const ImageKernel* const kernel = find_kernel(image, "k");
  EXPECT_EQ(layout(*kernel), "0+8 8+16 24+1 28+8 36+4 ");
  EXPECT_EQ(reads(*kernel),
            "rrrrrrrr"
            "....rrrr....r..r"
            "."
            "..."
            "rrrr????"
            "....");
  EXPECT_EQ(reads(*find_kernel(image, "body_says_nothing")), "rrrr????????");
}

// As ptxas 13.0 places them (KPARAM_INFO of its cubins).
TEST(PtxImage, ParametersAreAlignedInTheConstantBank) {
  constexpr char kText[] =
      ".version 9.0 .target sm_90 .entry k(.param .u64 out, .param .align 64 .b8 map[128], .param .u64 in) {"
      " .reg .b64 %rd<3>; ld.param.u64 %rd1, [map+8]; add.u64 %rd1, %rd1, 4; ret; }"
      " .entry k32(.param .align 32 .b8 map[32]) { ret; } .entry k128(.param .align 128 .b8 map[128]) { ret; }"
      " .entry k16(.param .u32 n, .param .align 16 .b8 map[16]) { ret; }";
  const struct {
    std::uint32_t architecture;
    const char *places, *aligned_32, *aligned_128;
  } known[] = {{75, "0+8 32+128 160+8 ", "0+32 ", "32+128 "},
               {89, "0+8 32+128 160+8 ", "0+32 ", "32+128 "},
               {90, "0+8 48+128 176+8 ", "16+32 ", "112+128 "},
               {100, "0+8 64+128 192+8 ", "0+32 ", "0+128 "},
               {120, "0+8 64+128 192+8 ", "0+32 ", "0+128 "}};
  for (const auto& expected : known) {
    SCOPED_TRACE(expected.architecture);
    Image image;
    ASSERT_TRUE(read_text(kText, &image).ok());
    for (int again = 0; again < 2; ++again) {
      place_parameters(expected.architecture, &image);
      const ImageKernel& kernel = *find_kernel(image, "k");
      EXPECT_EQ(layout(kernel), expected.places);
      ASSERT_EQ(kernel.reads.size(), kernel.parameter_bytes);
      const std::string seen = reads(kernel);
      EXPECT_EQ(seen.find('r'), kernel.parameters[1].offset + 8);
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 'r'), 8);
      EXPECT_EQ(layout(*find_kernel(image, "k32")), expected.aligned_32);
      EXPECT_EQ(layout(*find_kernel(image, "k128")), expected.aligned_128);
      EXPECT_EQ(layout(*find_kernel(image, "k16")), "0+4 16+16 ");
    }
  }
}

// Likewise.
TEST(PtxImage, ParametersWithLargeAlignmentsAndManyOfThemAreElsewhere) {
  constexpr char kText[] =
      ".version 9.0 .target sm_75 .entry k256(.param .u32 n, .param .align 256 .b8 map[256]) { ret; }"
      " .entry k512(.param .align 512 .b8 map[512]) { ret; }"
      " .entry many(.param .b8 all[5000], .param .align 64 .b8 map[64]) { ret; }";
  const struct {
    std::uint32_t architecture;
    const char *aligned_256, *aligned_512, *many;
  } known[] = {{75, "0+4 160+256 ", "160+512 ", "0+5000 5056+64 "},
               {80, "0+4 160+256 ", "160+512 ", "0+5000 5056+64 "},
               {100, "0+4 256+256 ", "0+512 ", "0+5000 5056+64 "},
               {121, "0+4 256+256 ", "0+512 ", "0+5000 5056+64 "}};
  for (const auto& expected : known) {
    SCOPED_TRACE(expected.architecture);
    Image image;
    ASSERT_TRUE(read_text(kText, &image).ok());
    place_parameters(expected.architecture, &image);
    EXPECT_EQ(layout(*find_kernel(image, "k256")), expected.aligned_256);
    EXPECT_EQ(layout(*find_kernel(image, "k512")), expected.aligned_512);
    EXPECT_EQ(layout(*find_kernel(image, "many")), expected.many);
  }
}

TEST(PtxImage, DeclarationsAreFound) {
  Image image;
  ASSERT_TRUE(read_text(kPtx, &image).ok());
  ASSERT_EQ(image.kernels.size(), 4u);
  EXPECT_EQ(layout(*find_kernel(image, "_Z5scalePffi")), "0+8 8+4 12+4 ");
  EXPECT_EQ(layout(*find_kernel(image, "packed")), "0+1 1+9 16+8 ");
  EXPECT_EQ(find_kernel(image, "nothing")->max_threads, 128u);
  EXPECT_EQ(find_kernel(image, "nothing")->shared_bytes, 256u);
  EXPECT_EQ(find_variable(image, "where")->addresses.at(0).variable, "counter");
  EXPECT_EQ(find_variable(image, "where")->addresses.at(0).addend, 2);
  EXPECT_TRUE(find_variable(image, "table")->constant);
}

TEST(PtxImage, EveryTypeHasItsSizeAndAlignment) {
  EXPECT_EQ(layout_of(".param .u8 a, .param .u16 b, .param .u32 c, .param .u64 d"), "0+1 2+2 4+4 8+8 ");
  EXPECT_EQ(layout_of(".param .pred a, .param .f16 b, .param .f16x2 c, .param .bf16 d, .param .b128 e"),
            "0+1 2+2 4+4 8+2 16+16 ");
  EXPECT_EQ(layout_of(".param .u8 a, .param .align 16 .b8 b[20], .param .u8 c"), "0+1 16+20 36+1 ");
  EXPECT_EQ(layout_of(".param .u8 a, .param .v4 .f32 b, .param .f32 c[3]"), "0+1 16+16 32+12 ");
  EXPECT_EQ(layout_of(".param .u64 .ptr .global .align 16 a, .param .u64 .ptr b"), "0+8 8+8 ");
  EXPECT_EQ(layout_of(""), "");
}

TEST(PtxImage, WhatLooksLikeADeclarationInCommentsStringsAndBodiesIsNone) {
  Image image;
  ASSERT_TRUE(read_text(kPuzzle, &image).ok());
  ASSERT_EQ(image.kernels.size(), 1u);
  EXPECT_EQ(image.kernels[0].name, "only");
  EXPECT_EQ(image.kernels[0].max_threads, 32u);
  EXPECT_EQ(image.kernels[0].shared_bytes, 0u);
}

TEST(PtxImage, InitializersAreUnderstood) {
  Image image;
  ASSERT_TRUE(read_text(kInitializers, &image).ok());
  const auto bytes = [&](const char* name) { return find_variable(image, name)->contents; };
  EXPECT_EQ(bytes("shorts"), (std::vector<std::byte>{std::byte{1}, std::byte{0}, std::byte{0xfe}, std::byte{0xff},
                                                     std::byte{16}, std::byte{0}}));
  EXPECT_EQ(std::to_integer<int>(bytes("one").at(3)), 0x3f);
  EXPECT_EQ(find_variable(image, "two")->addresses.at(0).offset, 8u);
  EXPECT_EQ(bytes("rows").size(), 4u);
  EXPECT_EQ(find_variable(image, "text")->bytes, 2u);
  EXPECT_EQ(std::to_integer<int>(bytes("c").at(0)), 3);
  EXPECT_EQ(find_variable(image, "other"), nullptr);
}

TEST(PtxImage, AnErrorSaysWhichLine) {
  Image image;
  const ImageResult result = read_text(".version 9.0\n\n.entry k(.param .nonsense x) {}", &image);
  EXPECT_EQ(result.error, ImageError::kBadText);
  EXPECT_NE(result.reason.find("line 3"), std::string::npos) << result.reason;
}

TEST(PtxImage, WhatIsTooLargeIsRefused) {
  Image image;
  EXPECT_FALSE(read_text(".version 9.0 .entry k(.param .b8 x[40000]) {}", &image).ok());
  EXPECT_FALSE(read_text(".version 9.0 .global .b8 x[99999999999999][99999999999];", &image).ok());
  EXPECT_FALSE(read_text(".version 9.0 .global .u32 x = {1, 2};", &image).ok());
}

// In a block of exactly its size, so that a sanitizer detects the first byte read outside.
ImageResult read_exactly(const std::vector<std::byte>& bytes, Image* out) {
  const std::unique_ptr<std::byte[]> block(new std::byte[bytes.size() + 1]);
  std::copy(bytes.begin(), bytes.end(), block.get());
  return read_image(std::span(block.get(), bytes.size()), out);
}

// As files of one program, joined by a linker.
TEST(LinkedPtx, WhatAFileKeepsToItselfGetsANameOfItsOwn) {
  const std::string texts[] = {
      ".version 9.0\n.target sm_90\n.extern .global .u32 shared;\n.global .u32 own = 1, more = 2;\n"
      ".func (.param .b32 r) helper(.param .b32 x) { .reg .b32 own; ret; }\n"
      ".weak .entry both(.param .u64 p) { call (r), helper, (x); ret; }\n.visible .func alone() { ret; }",
      ".version 9.0\n.target sm_90\n.visible .global .u32 shared = 7;\n.global .u32 own = 3;\n.global .u32 single;\n"
      ".func (.param .b32 r) helper(.param .b32 x) { ret; }\n.weak .entry both(.param .u64 p) { ret; }\n"
      ".weak .global .u32 weak = 5;\n.visible .entry second() { helper: ret; }\n.func alone() { ret; }",
      ".version 9.0\n.target sm_90\n.visible .global .u32 weak = 6;"};
  Image image;
  const ImageResult result = read_text(link_ptx(texts), &image);
  ASSERT_TRUE(result.ok()) << result.reason;
  std::string variables, functions;
  for (const ImageVariable& variable : image.variables) {
    variables += variable.name + "=" +
                 std::to_string(variable.contents.empty() ? 0 : std::to_integer<int>(variable.contents[0])) + " ";
  }
  for (const std::string& function : image.functions) functions += function + " ";
  EXPECT_EQ(variables, "own$of_file_0=1 more=2 shared=7 own$of_file_1=3 single=0 weak=6 ");
  EXPECT_EQ(functions, "helper$of_file_0 both alone helper$of_file_1 second alone$of_file_1 ");
  EXPECT_EQ(image.kernels.size(), 2u);
  EXPECT_NE(image.text->find("call (r), helper$of_file_0, (x)"), std::string::npos);
}

// The code of a library was compiled for other architectures.
TEST(LinkedPtx, KernelsKeepTheArchitectureOfTheirFile) {
  const std::string texts[] = {".version 9.0\n.target sm_90\n.visible .entry own() { ret; }",
                               ".version 9.0\n.target sm_121\n.visible .entry of_library() { ret; }"};
  Image image;
  ASSERT_TRUE(read_text(link_ptx(texts), &image).ok());
  ASSERT_EQ(image.kernels.size(), 2u);
  EXPECT_EQ(image.kernels[0].architecture, 90u);
  EXPECT_EQ(image.kernels[1].architecture, 121u);
}

TEST(LinkedPtx, DamagedFilesAreJoinedAndRefusedByTheReader) {
  for (const char* text :
       {"", ".global", ".func (", ".func f {", ".global .u32 a = {", ".section", ".weak", "\"", "/*"}) {
    const std::string texts[] = {".version 9.0", text, ".func f() { }"};
    Image image;
    static_cast<void>(read_text(link_ptx(texts), &image));
  }
}

TEST(DamagedImage, EveryPrefixOfATextIsReadOrRefused) {
  const std::span text = std::as_bytes(std::span(kPtx));
  int refused = 0;
  for (std::size_t length = 0; length < text.size(); ++length) {
    Image image;
    refused += read_exactly({text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length)}, &image).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 300);
}

#ifdef IMAGES_FOLDER

std::vector<std::byte> file(const std::string& name) {
  std::ifstream stream(IMAGES_FOLDER "/" + name, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const std::span bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class NvccImage : public testing::TestWithParam<const char*> {};

TEST_P(NvccImage, SaysTheSameInEveryForm) {
  Image image;
  const std::vector<std::byte> bytes = file(GetParam());
  const ImageResult result = read_image(std::span(bytes), &image);
  ASSERT_TRUE(result.ok()) << result.reason;
  ASSERT_EQ(image.kernels.size(), 4u);
  const ImageKernel* add = find_kernel(image, "_Z3addIfEvPT_PKS0_6Packed7Alignedsm");
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(layout(*add), "0+8 8+8 16+9 32+32 64+2 72+8 ");
  EXPECT_EQ(add->parameter_bytes, 80u);
  EXPECT_EQ(reads(*add).size(), 80u);
  EXPECT_NE(image.architecture, 0u);
  EXPECT_EQ(layout(*find_kernel(image, "take_long")), "0+24000 24000+4 ");
  EXPECT_EQ(layout(*find_kernel(image, "nothing")), "");
  EXPECT_EQ(find_kernel(image, "nothing")->max_threads, 256u);
  EXPECT_EQ(find_kernel(image, "sum_shared")->shared_bytes, 256u);

  const ImageVariable* counter = find_variable(image, "counter");
  ASSERT_NE(counter, nullptr);
  EXPECT_EQ(counter->bytes, 4u);
  EXPECT_EQ(std::to_integer<int>(counter->contents.at(0)), 7);
  EXPECT_EQ(find_variable(image, "big")->bytes, 400u);
  EXPECT_TRUE(find_variable(image, "managed")->managed);
  EXPECT_TRUE(find_variable(image, "table")->constant);
  EXPECT_EQ(std::to_integer<int>(find_variable(image, "table")->contents.at(3)), 0x3f);
  std::vector<ImageAddress> addresses = find_variable(image, "pointers")->addresses;
  std::sort(addresses.begin(), addresses.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  ASSERT_EQ(addresses.size(), 2u);
  EXPECT_EQ(addresses[1].variable, "big");
  EXPECT_EQ(addresses[1].offset, 16u);
  EXPECT_EQ(addresses[1].addend, 20);
}

TEST_P(NvccImage, IsReadThroughABarePointerAsWell) {
  std::vector<std::byte> bytes = file(GetParam());
  bytes.push_back(std::byte{0});  // ends a text
  Image image;
  EXPECT_TRUE(read_image(bytes.data(), &image).ok());
  EXPECT_EQ(image.kernels.size(), 4u);
}

TEST_P(NvccImage, ACutImageIsRefusedOrReadWithoutLeavingIt) {
  const std::vector<std::byte> bytes = file(GetParam());
  const std::size_t step = std::max<std::size_t>(1, bytes.size() / 300);
  int refused = 0, tried = 0;
  for (std::size_t length = 0; length < bytes.size(); length += step, ++tried) {
    Image image;
    refused += read_exactly({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)}, &image).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, tried / 10);
}

TEST_P(NvccImage, AFlippedByteLeadsNowhereElse) {
  const std::vector<std::byte> bytes = file(GetParam());
  std::uint64_t random = 0x9e3779b97f4a7c15;
  for (int i = 0; i < 400; ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    std::vector<std::byte> damaged = bytes;
    // Half of the damage is in the headers.
    const std::size_t range = i % 2 == 0 ? std::min<std::size_t>(256, damaged.size()) : damaged.size();
    damaged[(random >> 33) % range] ^= static_cast<std::byte>((random >> 20) | 1);
    Image image;
    const ImageResult result = read_exactly(damaged, &image);
    EXPECT_EQ(result.ok(), result.reason.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, NvccImage,
                         testing::Values("plain.ptx", "plain.cubin", "long.cubin", "zstd.fatbin", "ptx_only.fatbin",
                                         "uncompressed.fatbin", "lz4.fatbin", "sass_only.fatbin"),
                         [](const auto& form) {
                           std::string name = form.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(FatBinary, IsFoundBehindItsWrapper) {
  const std::vector<std::byte> bytes = file("zstd.fatbin");
  struct {
    std::uint32_t magic = 0x466243b1, version = 1;
    const void* data;
    const void* unused = nullptr;
  } wrapper{.data = bytes.data()};
  Image image;
  EXPECT_TRUE(read_image(&wrapper, &image).ok());
  EXPECT_EQ(image.kernels.size(), 4u);
  wrapper.version = 77;
  EXPECT_EQ(read_image(&wrapper, &image).error, ImageError::kInvalid);
}

TEST(FatBinary, WithoutCodeThatCanBeReadThereIsNoBinary) {
  std::vector<std::byte> bytes = file("sass_only.fatbin");
  bytes.at(16) = std::byte{8};  // the first entry's kind: intermediate code for link-time optimization
  Image image;
  EXPECT_EQ(read_image(std::span(std::as_const(bytes)), &image).error, ImageError::kNoBinary);
}

#endif

}  // namespace
}  // namespace simulator
