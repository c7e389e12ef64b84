// SPDX-License-Identifier: Apache-2.0
// `thermocline kernels` for files. Programs that are run: tests/simulated_cudart/recorded_directions_test.cc.
#include <nlohmann/json.hpp>

#include "tests/tool/command_fixture.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

// scale(float const*, float*, int): proven; add(S, float*): through a structure, by an atomic operation; and one that
// calls a function.
const std::string kPtx = R"(.version 9.0
.target sm_75
.address_size 64
.visible .entry _Z5scalePKfPfi(
 .param .u64 p0, .param .u64 p1, .param .u32 p2)
{
 .reg .pred %p<2>; .reg .f32 %f<3>; .reg .b32 %r<6>; .reg .b64 %rd<8>;
 ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u32 %r2, [p2];
 mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.s32 %r1, %r3, %r4, %r5;
 setp.ge.s32 %p1, %r1, %r2; @%p1 bra $END;
 mul.wide.s32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
 ld.global.f32 %f1, [%rd4]; st.global.f32 [%rd5], %f1;
$END: ret;
}
.visible .entry add(
 .param .align 8 .b8 p0[16], .param .u64 p1)
{
 .reg .f32 %f<3>; .reg .b64 %rd<8>;
 ld.param.u64 %rd1, [p0+8]; ld.param.u64 %rd2, [p1];
 ld.global.f32 %f1, [%rd1]; atom.global.add.f32 %f2, [%rd2], %f1;
 ret;
}
.visible .entry _Z5callsPKfPf(
 .param .u64 p0, .param .u64 p1)
{
 .reg .b64 %rd<8>;
 call.uni somewhere, ();
 ret;
}
)";

json kernel(const json& object, const std::string& name) {
  for (const json& one : object["kernels"]) {
    if (one["name"] == name) return one;
  }
  return {};
}

TEST_F(Command, KernelsTellsWhatTheCodeInAFileShows) {
  const ProcessResult result = run({"kernels", write("code.ptx", kPtx), "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json object = json::parse(result.out, nullptr, false);
  EXPECT_EQ(object["schema"], "thermocline-kernels/1");
  ASSERT_EQ(object["kernels"].size(), 3u);
  const json scale = kernel(object, "scale"), add = kernel(object, "add"), calls = kernel(object, "calls");
  EXPECT_EQ(scale["evidence"], "code");
  EXPECT_EQ(scale["proven"], true);
  EXPECT_TRUE(scale["why_not"].is_null());
  ASSERT_EQ(scale["arguments"].size(), 2u) << scale;
  EXPECT_EQ(scale["arguments"][0], json::parse(R"({"parameter":1,"offset":0,"access":"read","prototype":"const"})"));
  EXPECT_EQ(scale["arguments"][1],
            json::parse(R"({"parameter":2,"offset":0,"access":"written","prototype":"not const"})"));
  EXPECT_EQ(add["proven"], false);
  EXPECT_EQ(add["why_not"], "it has atomic operations: atom");
  EXPECT_EQ(add["arguments"][0], json::parse(R"({"parameter":1,"offset":8,"access":"read","prototype":null})"));
  EXPECT_EQ(add["arguments"][1]["access"], "both");
  EXPECT_TRUE(calls["evidence"].is_null());
  EXPECT_EQ(calls["why_not"], "it calls a function");
  EXPECT_EQ(calls["arguments"][0]["access"], "unknown");
  EXPECT_EQ(calls["arguments"][0]["prototype"], "const");
}

TEST_F(Command, KernelsPrintsATable) {
  const ProcessResult result = run({"kernels", write("code.ptx", kPtx)});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out,
            "kernel  arguments                     evidence  may run again\n"
            "scale   1 read, 2 written             code      yes, by its code\n"
            "add     1+8 read, 2 both              code      no: it has atomic operations: atom\n"
            "calls   1 unknown (const), 2 unknown  none      no: it calls a function\n");
}

TEST_F(Command, KernelsReadsWhatARunHasPrinted) {
  const std::string printed =
      "before\n{\"schema\": \"thermocline-run/1\", \"kernels\": [{\"name\": \"k\", \"symbol\": \"k\", \"arguments\": "
      "[{\"parameter\": 1, \"offset\": 0, \"access\": \"both\", \"prototype\": null}], \"evidence\": \"code\", "
      "\"proven\": "
      "true, \"launches\": 4, \"may_run_again\": 3, \"trial\": \"promoted\", \"why_not\": \"it was not "
      "alone\"}]}\nbehind\n";
  const ProcessResult result = run({"kernels", write("run.json", printed)});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out,
            "kernel  launches  arguments  evidence  may run again\n"
            "k       4         1 both     code      3 of 4, promoted; else: it was not alone\n");
}

TEST_F(Command, KernelsSaysWhatIsWrongWithAFile) {
  expect_refused({"kernels"}, 2, "kernels needs a file, or a program behind '--': thermocline kernels FILE");
  expect_refused({"kernels", path("none"), "--", "true"}, 2, "kernels takes a file or a program behind '--', not both");
  expect_refused({"kernels", path("none")}, 3, path("none") + ": No such file or directory");
  expect_refused({"kernels", path("")}, 3, path("") + ": Is a directory");
  expect_refused({"kernels", THERMOCLINE_COMMAND}, 3,
                 THERMOCLINE_COMMAND ": it contains no device code (section .nv_fatbin): name the library that does");
  const std::string expected =
      ": expected a program or library with device code, a fat binary, PTX, or what 'thermocline run --stats=json' "
      "prints with recompute = \"auto\"";
  for (const std::string& text : {std::string(), std::string("nothing"), std::string("{\"schema\": 1}\n"),
                                  std::string("\x50\xed\x55\xba\x01\x00\x10\x00\xff\xff\xff\xff\xff\xff\xff\x7f", 16)})
    expect_refused({"kernels", write("text", text)}, 3, path("text") + expected);
}

}  // namespace
}  // namespace thermocline::test
