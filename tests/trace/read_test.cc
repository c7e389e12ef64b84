// SPDX-License-Identifier: Apache-2.0
// The contents that are read from a trace, and the messages with which traces are rejected.
#include "trace/read.h"

#include <gtest/gtest.h>

#include "tests/trace/trace_file.h"

namespace thermocline::test {
namespace {

TEST(ReadTrace, EventsComeInProgramOrderWithDenseNumbers) {
  const Trace trace =
      read_valid(TraceFile({kHeader, alloc(70, 4096), alloc(9, 1024, 5), op("gemm", {70}, {9}, 3.5), release(70),
                            step(0), op("gemm", {}, {9, 9}, 2, 5), release(9, 5), step(1)}));
  ASSERT_EQ(trace.events.size(), 6u);
  EXPECT_EQ(trace.buffers[0].id, 70u);
  EXPECT_EQ(trace.buffers[1].bytes, 1024u);
  EXPECT_EQ(trace.streams, (std::vector<std::uint64_t>{0, 5}));
  EXPECT_EQ(trace.events[1].stream, 1u);
  EXPECT_EQ(trace.names, std::vector<std::string>{"gemm"});
  EXPECT_EQ(trace.operators[0].microseconds, 3.5);
  EXPECT_EQ(trace.reads(trace.operators[0])[0], 0u);
  EXPECT_EQ(trace.writes(trace.operators[0])[0], 1u);
  EXPECT_EQ(trace.steps.size(), 2u);
  EXPECT_EQ(trace.steps[1].begin, 4u);
  EXPECT_EQ(trace.peak_live_bytes, 5120u);
}

TEST(ReadTrace, FieldsThatAreNotKnownAreIgnored) {
  const Trace trace = read_valid(
      TraceFile({R"({"schema":"thermocline-trace/1","extra":{"a":[1,2]}})",
                 R"({"x":[1,{"y":null,"z":"}"}],"e":"alloc","b":0,"n":8,"t":-1.5e3,"u":true})",
                 R"( { "e" : "op" , "k" : "a\"\u00e9" , "r" : [ 0 ] , "w" : [ ] , "flops" : 1e9 , "bytes" : 2 } )"}));
  EXPECT_EQ(trace.names[0], "a\"\xC3\xA9");
  EXPECT_EQ(trace.operators[0].flops, 1e9);
  EXPECT_FALSE(trace.operators[0].is_measured());
}

TEST(ReadTrace, AFileWithoutMarksIsOneStep) {
  const Trace trace = read_valid(TraceFile({kHeader, alloc(0, 8), op("a", {}, {0}, 1)}));
  ASSERT_EQ(trace.steps.size(), 1u);
  EXPECT_EQ(trace.steps[0].end, 2u);
  EXPECT_FALSE(trace.has_marks);
}

TEST(ReadTrace, PlainTextIsReadLikeGzip) {
  EXPECT_EQ(
      read_valid(TraceFile::of_bytes(std::string(kHeader) + "\n" + alloc(0, 8) + "\n" + op("a", {}, {0}, 1) + "\n"))
          .operators.size(),
      1u);
}

TEST(ReadTrace, AnUnknownEventIsNamedWithItsLine) {
  EXPECT_EQ(read_error(TraceFile({kHeader, alloc(0, 8), R"({"e":"launch","k":"a"})"})), "3: unknown event \"launch\"");
  EXPECT_EQ(read_error(TraceFile({kHeader, R"({"b":1})"})), "2: the event has no \"e\"");
}

TEST(ReadTrace, AnIdThatIsNotAliveIsNamed) {
  EXPECT_EQ(read_error(TraceFile({kHeader, op("a", {3}, {}, 1)})), "2: buffer 3 is not alive: it was never allocated");
  EXPECT_EQ(read_error(TraceFile({kHeader, alloc(3, 8), release(3), op("a", {}, {3}, 1)})),
            "4: buffer 3 is not alive: it was freed on line 3");
  EXPECT_EQ(read_error(TraceFile({kHeader, alloc(3, 8), release(3), release(3)})),
            "4: buffer 3 is not alive: it was freed on line 3");
}

TEST(ReadTrace, AnIdIsUsedOnce) {
  EXPECT_EQ(read_error(TraceFile({kHeader, alloc(3, 8), alloc(3, 8)})), "3: buffer 3 is alive already");
  EXPECT_EQ(read_error(TraceFile({kHeader, alloc(3, 8), release(3), alloc(3, 8)})),
            "4: buffer 3 was used before; ids are unique in a file");
}

TEST(ReadTrace, NegativeFiguresAreRefused) {
  EXPECT_EQ(read_error(TraceFile({kHeader, alloc(3, -8)})), "2: negative size -8 of buffer 3");
  EXPECT_EQ(read_error(TraceFile({kHeader, op("a", {}, {}, -1)})), "2: negative \"us\" of operator \"a\"");
  EXPECT_EQ(read_error(TraceFile({kHeader, R"({"e":"op","k":"a","flops":-2,"bytes":1})"})),
            "2: negative \"flops\" of operator \"a\"");
}

TEST(ReadTrace, WhatIsSaidIsOneLineWhateverTheNames) {
  EXPECT_EQ(read_error(TraceFile({kHeader, R"({"e":"op","k":"a\n\u001b[31m","us":-1})"})),
            "2: negative \"us\" of operator \"a??[31m\"");
}

TEST(ReadTrace, FiguresThatNoProgramHasAreRefused) {
  EXPECT_EQ(read_error(TraceFile({kHeader, R"({"e":"op","k":"a","us":1e15})"})),
            "2: up to operator \"a\" the program takes years");
  EXPECT_EQ(read_error(TraceFile({kHeader, R"({"e":"op","k":"a","flops":1e300,"bytes":1})"})),
            "2: up to operator \"a\" the program takes years");
}

TEST(ReadTrace, MissingFieldsAreNamed) {
  EXPECT_EQ(read_error(TraceFile({kHeader, R"({"e":"alloc","n":8})"})), "2: the allocation has no \"b\"");
  EXPECT_EQ(read_error(TraceFile({kHeader, R"({"e":"alloc","b":8})"})), "2: the allocation has no \"n\"");
  EXPECT_EQ(read_error(TraceFile({kHeader, R"({"e":"op","k":"a","flops":2})"})),
            "2: the operator has neither a duration (\"us\") nor both \"flops\" and \"bytes\"");
}

TEST(ReadTrace, WrongTypesAndBrokenLinesAreNamedWithColumnAndField) {
  EXPECT_EQ(read_error(TraceFile({kHeader, R"({"e":"alloc","b":"x","n":8})"})),
            "2: not a valid event at column 18, field \"b\": expected a whole number");
  EXPECT_EQ(read_error(TraceFile({kHeader, R"({"e":"alloc","b":1.5,"n":8})"})),
            "2: not a valid event at column 18, field \"b\": expected a whole number");
  EXPECT_EQ(read_error(TraceFile({kHeader, R"({"e":"alloc","b":1,"n":8)"})),
            "2: not a valid event at column 25: expected ',' or '}'");
  EXPECT_EQ(read_error(TraceFile({kHeader, R"({"e":"all)"})),
            "2: not a valid event at column 10, field \"e\": the line ends within a string");
  EXPECT_EQ(read_error(TraceFile({kHeader, R"([1])"})), "2: not a valid event at column 1: expected an object");
  EXPECT_EQ(read_error(TraceFile({kHeader, step(0) + " x"})),
            "2: not a valid event at column 20: more after the object");
}

TEST(ReadTrace, ATruncatedFileIsRefusedWhereverItWasCut) {
  std::vector<std::string> lines{kHeader};
  for (int i = 0; i < 200; ++i) lines.push_back(alloc(i, 4096 + i * 37));
  lines.push_back(op("a", {0}, {1}, 1));
  const std::string whole = TraceFile(lines).bytes();
  for (const std::size_t size :
       {whole.size() - 1, whole.size() - 8, whole.size() - 9, whole.size() / 2, std::size_t{20}}) {
    const std::string error = read_error(TraceFile::of_bytes(whole.substr(0, size)));
    EXPECT_NE(error.find("truncated"), std::string::npos) << size << ": " << error;
  }
}

TEST(ReadTrace, ATruncatedLastLineIsRefused) {
  const std::string text = std::string(kHeader) + "\n" + alloc(0, 8) + "\n" + op("a", {}, {0}, 1);
  EXPECT_EQ(read_error(TraceFile::of_bytes(text.substr(0, text.size() - 3))).substr(0, 2), "3:");
}

TEST(ReadTrace, DamagedDataIsRefused) {
  std::string bytes = TraceFile({kHeader, alloc(0, 8), op("a", {}, {0}, 1)}).bytes();
  bytes[bytes.size() - 6] = static_cast<char>(bytes[bytes.size() - 6] ^ 1);  // the check sum
  EXPECT_NE(read_error(TraceFile::of_bytes(bytes)).find("damaged"), std::string::npos);
}

TEST(ReadTrace, WhatIsNoTraceIsToldApart) {
  EXPECT_EQ(read_error(TraceFile::of_bytes("")), " not a trace: the file is empty");
  EXPECT_EQ(read_error(TraceFile::of_bytes("hello\n")),
            "1: not a trace: the first line has to be a JSON object with a \"schema\"");
  EXPECT_EQ(read_error(TraceFile({alloc(0, 8)})),
            "1: not a trace: the first line has to be a JSON object with a \"schema\"");
  EXPECT_EQ(read_error(TraceFile({R"({"schema":"thermocline-trace/2"})"})),
            "1: unsupported schema \"thermocline-trace/2\"; this version reads \"thermocline-trace/1\"");
  EXPECT_EQ(read_error(TraceFile({R"({"schema":"other/1"})"})),
            "1: not a trace: its schema is \"other/1\"; this version reads \"thermocline-trace/1\"");
  EXPECT_EQ(read_error(TraceFile({kHeader, alloc(0, 8)})), " the trace has no operators");
}

TEST(ReadTrace, AMissingFileIsNamed) {
  Trace trace;
  TraceError error;
  EXPECT_FALSE(read_trace("/nowhere/at/all", &trace, &error));
  EXPECT_EQ(error.text(), "/nowhere/at/all: can not be opened: No such file or directory");
}

TEST(ReadTrace, AnAnnouncedNumberOfStepsThatIsNotThereIsRemarkedUpon) {
  const TraceFile file({R"({"schema":"thermocline-trace/1","steps":4})", alloc(0, 8), op("a", {}, {0}, 1), step(0)});
  Trace trace;
  TraceError error;
  std::vector<std::string> warnings;
  ASSERT_TRUE(read_trace(file.path(), &trace, &error, &warnings));
  EXPECT_EQ(warnings, std::vector<std::string>{"the header announces 4 steps, the file has 1"});
}

// They would take no time, and every ratio to that be none.
TEST(ReadTrace, StepsWithoutOperatorsAreNone) {
  const TraceFile file({kHeader, step(0), alloc(0, 8), step(1), op("a", {}, {0}, 1), step(2), step(3), step(4)});
  Trace trace;
  TraceError error;
  std::vector<std::string> warnings;
  ASSERT_TRUE(read_trace(file.path(), &trace, &error, &warnings));
  trace.validate();
  ASSERT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.steps[0].begin, 0U);
  EXPECT_EQ(trace.steps[0].end, 2U);
  EXPECT_EQ(warnings, std::vector<std::string>{"4 of 5 steps have no operators; they are not counted as steps"});
}

// All of the file is one step then.
TEST(ReadTrace, MarksBeforeAllOperatorsMarkNothing) {
  const Trace trace = read_valid(TraceFile({kHeader, alloc(0, 8), step(0), op("a", {}, {0}, 1)}));
  ASSERT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.steps[0].end, 2U);
}

TEST(ReadTrace, ALineLongerThanAnyBufferIsRead) {
  std::string padding(std::size_t{3} << 20, 'x');
  const Trace trace =
      read_valid(TraceFile({kHeader, R"({"pad":")" + padding + R"(","e":"alloc","b":0,"n":8})", op("a", {}, {0}, 1)}));
  EXPECT_EQ(trace.buffers.size(), 1u);
}

}  // namespace
}  // namespace thermocline::test
