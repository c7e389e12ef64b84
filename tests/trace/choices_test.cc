// SPDX-License-Identifier: Apache-2.0
// Traces whose operators have alternatives: what is read, which programs result, and what is rejected.
#include "trace/choices.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/trace/trace_file.h"
#include "trace/convert.h"
#include "trace/read.h"

namespace thermocline::test {
namespace {

constexpr const char* kAttention = R"({"e":"choice","c":7,"k":"attention","of":["math","flash"]})";

std::string in(const std::string& alternative, std::string event, int choice = 7) {
  event.pop_back();
  return event + ",\"c\":" + std::to_string(choice) + ",\"a\":\"" + alternative + "\"}";
}

// Buffer 0 is the input and 1 the output; 2 is saved by "math" alone, 3 by "flash" alone.
std::vector<std::string> attention() {
  return {kHeader,
          kAttention,
          alloc(0, 64),
          op("input", {}, {0}, 1),
          in("math", alloc(2, 4096)),
          in("flash", alloc(3, 16)),
          alloc(1, 64),
          in("math", op("softmax", {0}, {2}, 5)),
          in("math", op("multiply", {0, 2}, {1}, 6)),
          in("flash", op("flash_attention", {0}, {1, 3}, 7)),
          op("loss", {1}, {1}, 1),
          in("math", op("attention_backward", {1, 2}, {0}, 9)),
          in("flash", op("flash_backward", {1, 3}, {0}, 8)),
          in("math", release(2)),
          in("flash", release(3)),
          release(0),
          release(1),
          step(0)};
}

TraceFamily family_of(const std::vector<std::string>& lines) {
  const TraceFile file(lines);
  TraceFamily family;
  TraceError error;
  EXPECT_TRUE(family.read(file.path(), &error)) << error.text();
  return family;
}

Trace taken(const TraceFamily& family, const ChoiceSelection& selection) {
  Trace trace;
  TraceError error;
  EXPECT_TRUE(family.take(selection, &trace, &error)) << error.text();
  trace.validate();
  return trace;
}

// The attention of the lines above, with this line before the one at `at`.
std::string error_with(std::size_t at, const std::string& line) {
  std::vector<std::string> lines = attention();
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), line);
  return read_error(TraceFile(lines));
}
std::string error_without(std::size_t at) {
  std::vector<std::string> lines = attention();
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
  return read_error(TraceFile(lines));
}

TEST(Choices, AReaderThatDoesNotChooseTakesTheFirst) {
  const Trace trace = read_valid(TraceFile(attention()));
  trace.validate();
  ASSERT_EQ(trace.choices.size(), 1u);
  EXPECT_EQ(trace.choices[0].id, 7);
  EXPECT_EQ(trace.choices[0].name, "attention");
  EXPECT_EQ(trace.choices[0].alternatives, (std::vector<std::string>{"math", "flash"}));
  EXPECT_EQ(trace.choices[0].chosen, 0u);
  EXPECT_EQ(trace.peak_live_bytes, 4096u + 128u);
  EXPECT_EQ(trace.operators.size(), 5u);
}

TEST(Choices, EachAlternativeIsAProgram) {
  const TraceFamily family = family_of(attention());
  ASSERT_TRUE(family.has_choices());
  const Trace math = taken(family, {0}), flash = taken(family, {1});
  EXPECT_EQ(math.operators.size(), 5u);
  EXPECT_EQ(math.names, family.recorded().names);
  EXPECT_EQ(flash.operators.size(), 4u);
  EXPECT_EQ(flash.names, (std::vector<std::string>{"input", "flash_attention", "loss", "flash_backward"}));
  EXPECT_EQ(flash.peak_live_bytes, 16u + 128u);
  EXPECT_EQ(flash.choices[0].chosen, 1u);
}

TEST(Choices, AFileWithoutThemHasOneProgram) {
  const TraceFamily family = family_of({kHeader, alloc(0, 8), op("a", {}, {0}, 1)});
  EXPECT_FALSE(family.has_choices());
  EXPECT_EQ(taken(family, {}).operators.size(), 1u);
}

TEST(Choices, WhatEveryAlternativeAllocatesIsUsableByAll) {
  // In place: the activation has the buffer of its input, which is therefore not saved.
  const TraceFamily family = family_of(
      {kHeader, R"({"e":"choice","c":1,"k":"relu","of":["apart","in place"]})", in("apart", alloc(0, 64), 1),
       in("in place", alloc(1, 64), 1), in("apart", op("conv", {}, {0}, 4), 1), in("apart", alloc(1, 64), 1),
       in("apart", op("relu", {0}, {1}, 1), 1), in("apart", release(0), 1), in("in place", op("conv", {}, {1}, 4), 1),
       in("in place", op("relu", {1}, {1}, 1), 1), op("next", {1}, {}, 1), release(1)});
  EXPECT_EQ(taken(family, {0}).peak_live_bytes, 128u);
  EXPECT_EQ(taken(family, {1}).peak_live_bytes, 64u);
}

TEST(Choices, AnAlternativeMayFreeEarlierWhatAllFree) {
  const TraceFamily family =
      family_of({kHeader, alloc(0, 64), op("a", {}, {0}, 1), kAttention, alloc(1, 64), in("math", op("m", {0}, {1}, 1)),
                 in("flash", op("f", {0}, {1}, 1)), in("flash", release(0)), op("b", {1}, {}, 1),
                 in("math", op("m2", {0}, {}, 1)), in("math", release(0)), release(1)});
  EXPECT_EQ(taken(family, {1}).events.size(), 7u);
  EXPECT_EQ(taken(family, {0}).events.size(), 8u);
}

TEST(Choices, AConversionKeepsThem) {
  const TraceFile file(attention());
  const auto folder = std::filesystem::temp_directory_path();
  const std::string packed = (folder / ("choices_" + std::to_string(getpid()) + ".trace")).string();
  const std::string lines = packed + ".jsonl.gz";
  Converted converted;
  TraceError error;
  ASSERT_TRUE(convert_trace(file.path(), packed, nullptr, &converted, &error, nullptr)) << error.text();
  ASSERT_TRUE(convert_trace(packed, lines, nullptr, &converted, &error, nullptr)) << error.text();
  EXPECT_EQ(converted.events, attention().size());
  TraceFamily family;
  ASSERT_TRUE(family.read(lines, &error)) << error.text();
  EXPECT_EQ(taken(family, {1}).peak_live_bytes, 16u + 128u);
  std::filesystem::remove(packed);
  std::filesystem::remove(lines);
}

TEST(Choices, ADeclarationIsChecked) {
  const auto error = [](const std::string& line) { return read_error(TraceFile({kHeader, line})); };
  EXPECT_EQ(error(R"({"e":"choice","k":"x","of":["a","b"]})"), "2: the choice has no number (\"c\")");
  EXPECT_EQ(error(R"({"e":"choice","c":1,"of":["a","b"]})"), "2: the choice has no name (\"k\")");
  EXPECT_EQ(error(R"({"e":"choice","c":1,"k":"x","of":["a"]})"),
            "2: choice 1 has 1 alternatives (\"of\"); 2 to 32 are possible");
  EXPECT_EQ(error(R"({"e":"choice","c":1,"k":"x","of":["a","a"]})"), "2: choice 1 has two alternatives \"a\"");
  EXPECT_EQ(error(R"({"e":"choice","c":1,"k":"x","of":["a",""]})"), "2: choice 1 has an alternative without a name");
  EXPECT_EQ(error(R"({"e":"choice","c":1,"k":"x","of":["a","auto"]})"),
            "2: choice 1 has an alternative \"auto\"; that name has another meaning");
  EXPECT_EQ(error(R"({"e":"choice","c":1,"k":"x","of":["a",2]})"),
            "2: not a valid event at column 39, field \"of\": expected a string");
  EXPECT_EQ(error_with(2, kAttention), "3: choice 7 is declared twice; numbers are unique in a file");
}

TEST(Choices, AMarkIsChecked) {
  EXPECT_EQ(error_with(4, R"({"e":"op","k":"x","us":1,"c":7})"),
            "5: the event has a choice (\"c\") and no alternative (\"a\")");
  EXPECT_EQ(error_with(4, R"({"e":"op","k":"x","us":1,"a":"math"})"),
            "5: the event has an alternative (\"a\") and no choice (\"c\")");
  EXPECT_EQ(error_with(4, in("mth", op("x", {}, {}, 1))),
            "5: choice 7 (attention) has no alternative \"mth\"; it has math, flash");
  EXPECT_EQ(error_with(4, in("math", op("x", {}, {}, 1), 8)),
            "5: choice 8 is unknown; a line {\"e\":\"choice\"} has to come before");
  EXPECT_EQ(error_with(17, in("math", step(0))), "18: a step ends whatever is chosen: it has no choice (\"c\")");
}

TEST(Choices, ABufferOfOneAlternativeIsUsedThereAlone) {
  EXPECT_EQ(error_with(10, op("x", {2}, {}, 1)),
            "11: buffer 2 is not alive here: only where choice 7 (attention) takes math");
  EXPECT_EQ(error_with(10, op("x", {3}, {}, 1)),
            "11: buffer 3 is not alive here: only where choice 7 (attention) takes flash");
  EXPECT_EQ(error_with(10, in("flash", op("x", {2}, {}, 1))),
            "11: buffer 2 is not alive here: only where choice 7 (attention) takes math");
  EXPECT_EQ(error_with(10, release(2)), "11: buffer 2 is not alive here: only where choice 7 (attention) takes math");
  EXPECT_EQ(error_with(16, op("x", {2}, {}, 1)),
            "17: buffer 2 is not alive: it belonged to alternatives of choice 7 (attention)");
  // Another choice can not know what this one takes.
  std::vector<std::string> lines = attention();
  lines.insert(lines.begin() + 2, R"({"e":"choice","c":8,"k":"other","of":["a","b"]})");
  lines.insert(lines.begin() + 11, in("a", op("x", {2}, {}, 1), 8));
  EXPECT_EQ(read_error(TraceFile(lines)), "12: buffer 2 is not alive here: only where choice 7 (attention) takes math");
}

TEST(Choices, WhatIsFreedInOneAlternativeIsNotUsedByAll) {
  EXPECT_EQ(error_with(15, in("math", release(0))),
            "17: buffer 0 is not alive here: only where choice 7 (attention) takes flash");
}

TEST(Choices, AnIdBelongsToOneBuffer) {
  EXPECT_EQ(error_with(10, in("math", alloc(2, 4096))),
            "11: buffer 2 was allocated before; ids are unique in a file, but for alternatives");
  EXPECT_EQ(error_with(10, in("math", alloc(0, 64))),
            "11: buffer 0 was allocated before; ids are unique in a file, but for alternatives");
  EXPECT_EQ(error_with(10, alloc(3, 16)),
            "11: buffer 3 was allocated before; ids are unique in a file, but for alternatives");
  EXPECT_EQ(error_with(10, in("math", alloc(3, 17))),
            "11: buffer 3 has 17 bytes in alternative \"math\" of choice 7 (attention), and 16 in another alternative");
}

TEST(Choices, AlternativesWriteTheSameForWhatFollows) {
  EXPECT_EQ(error_without(12),
            "2: alternative \"flash\" of choice 7 (attention) does not write buffer 0, which another "
            "alternative writes for what follows");
  EXPECT_EQ(error_without(8),
            "2: alternative \"math\" of choice 7 (attention) does not write buffer 1, which another "
            "alternative writes for what follows");
  std::vector<std::string> lines = attention();
  std::erase_if(lines, [](const std::string& line) {
    return line.find("\"op\"") != std::string::npos && line.find("flash\"") != std::string::npos;
  });
  EXPECT_EQ(read_error(TraceFile(lines)), "2: alternative \"flash\" of choice 7 (attention) has no operator");
}

TEST(Choices, WhatIsNotTakenIsCheckedToo) {
  EXPECT_EQ(error_with(10, in("flash", op("x", {}, {}, -1))), "11: negative \"us\" of operator \"x\"");
  EXPECT_EQ(error_with(10, in("flash", alloc(9, -8))), "11: negative size -8 of buffer 9");
  EXPECT_EQ(error_with(10, in("flash", release(3))),
            "14: buffer 3 is not alive: it belonged to alternatives of choice 7 (attention)");
  EXPECT_EQ(error_with(10, in("flash", op("x", {9}, {}, 1))), "11: buffer 9 is not alive: it was never allocated");
}

TEST(Choices, BuffersFromBeforeTheFirstOneAreKnown) {
  EXPECT_EQ(read_error(TraceFile({kHeader, alloc(5, 8), release(5), kAttention, in("flash", op("x", {5}, {}, 1))})),
            "5: buffer 5 is not alive: it was freed on line 3");
  EXPECT_EQ(read_error(TraceFile({kHeader, alloc(5, 8), release(5), kAttention, op("x", {5}, {}, 1)})),
            "5: buffer 5 is not alive: it was freed on line 3");
}

}  // namespace
}  // namespace thermocline::test
