// SPDX-License-Identifier: Apache-2.0
// The table is consistent, and every row sets its field.
#include "config/option_table.h"

#include <gtest/gtest.h>

#include <filesystem>

#include <algorithm>
#include <cctype>
#include <set>

namespace thermocline {
namespace {

TEST(OptionTable, KeysAndVariablesAreUniqueAndFollowOneRule) {
  std::set<std::string> keys;
  for (const Option& option : option_table()) {
    EXPECT_TRUE(keys.insert(option.key).second) << option.key;
    std::string variable = "THERMOCLINE_" + std::string(option.key);
    std::ranges::transform(variable, variable.begin(), [](unsigned char c) { return std::toupper(c); });
    EXPECT_EQ(option.variable, variable);
    EXPECT_NE(std::string(option.doc), "");
    EXPECT_EQ(find_option(option.key), &option);
    EXPECT_EQ(find_option_by_variable(option.variable), &option);
  }
}

TEST(OptionTable, EveryDefaultIsTheEffectiveValueOfDefaultSettings) {
  const Settings settings = default_settings();
  for (const Option& option : option_table()) {
    Value expected;
    ParseError error;
    if (*option.default_text != '\0') {
      ASSERT_TRUE(parse_value(option, option.default_text, &expected, &error)) << error.message;
    }
    const Value effective = option.load(settings);
    EXPECT_EQ(effective.size, expected.size) << option.key;
    EXPECT_EQ(effective.flag, expected.flag) << option.key;
    EXPECT_EQ(effective.choice, expected.choice) << option.key;
    EXPECT_EQ(effective.duration, expected.duration) << option.key;
  }
}

TEST(OptionTable, EveryRowStoresIntoAFieldOfItsOwn) {
  for (const Option& option : option_table()) {
    Settings settings = default_settings();
    const char* other = option.type == OptionType::kBool        ? "true"
                        : option.type == OptionType::kPercent   ? "7%"
                        : option.type == OptionType::kChoice    ? option.choices.front().name
                        : option.type == OptionType::kOperators ? "my_kernel=copy"
                        : option.type == OptionType::kDuration  ? "7min"
                        : option.type == OptionType::kSlice     ? "7min"
                        : option.type == OptionType::kFolder    ? "/scratch"
                        : option.type == OptionType::kNumber    ? "7"
                                                                : "7MiB";
    Value value;
    ParseError error;
    ASSERT_TRUE(parse_value(option, other, &value, &error)) << error.message;
    option.store(settings, value);
    EXPECT_EQ(value_text(option, settings), other) << option.key;
    const Settings defaults = default_settings();
    for (const Option& others : option_table()) {
      if (&others == &option) continue;
      EXPECT_EQ(value_text(others, settings), value_text(others, defaults));
    }
  }
}

TEST(OptionTable, ABudgetCanBeSharedAndNothingElseCan) {
  Settings settings = default_settings();
  Value value;
  ParseError error;
  ASSERT_TRUE(parse_value(*find_option("budget"), "shared", &value, &error)) << error.message;
  find_option("budget")->store(settings, value);
  EXPECT_TRUE(settings.budget.is_shared());
  EXPECT_EQ(value_text(*find_option("budget"), settings), "shared");
  EXPECT_EQ(settings.budget.resolve(kGiB), 0u);
  EXPECT_FALSE(parse_value(*find_option("host_limit"), "shared", &value, &error));
  EXPECT_FALSE(parse_value(*find_option("share_minimum"), "101%", &value, &error));
  for (const char* wrong : {"0", "10001", "1.5", "-1", "", "many"}) {
    EXPECT_FALSE(parse_value(*find_option("share_weight"), wrong, &value, &error)) << wrong;
    EXPECT_NE(error.message.find("is no whole number from 1 to 10000"), std::string::npos) << error.message;
  }
}

TEST(OptionTable, ATimeSliceIsNotShorterThanSlicesAre) {
  const Option& option = *find_option("share_slice");
  Value value;
  ParseError error;
  for (const char* const right : {"off", "0", "200ms", "10s"}) {
    EXPECT_TRUE(parse_value(option, right, &value, &error)) << right;
  }
  EXPECT_FALSE(parse_value(option, "1ms", &value, &error));
  EXPECT_EQ(error.message, "'1ms' is shorter than any time slice: give 200ms or more, or off");
  EXPECT_FALSE(parse_value(option, "soon", &value, &error));
}

TEST(OptionTable, AnOperatorRuleWithoutAClassListsTheClasses) {
  Value value;
  ParseError error;
  EXPECT_FALSE(parse_value(*find_option("operators"), "my_pack=copy, my_gemm=matrix", &value, &error));
  EXPECT_EQ(error.message,
            "'my_gemm=matrix' is not PATTERN=CLASS with a class of other, matrix_multiply, convolution, attention, "
            "normalisation, elementwise, copy, tables");
}

TEST(OptionTable, AnUnknownChoiceListsTheKnownOnesAndSuggests) {
  Value value;
  ParseError error;
  EXPECT_FALSE(parse_value(*find_option("policy"), "reactiv", &value, &error));
  std::string known;
  for (const PolicyEntry& policy : kPolicies) {
    if (!policy.for_comparison) known += std::string(known.empty() ? "" : ", ") + policy.name;
  }
  EXPECT_TRUE(known.starts_with("none, ")) << known;
  EXPECT_EQ(error.message, "'reactiv' is no policy; known are " + known);
  EXPECT_EQ(error.suggestion, "reactive");
}

TEST(EngineOptions, PercentagesAreOfTheDeviceAndOfTheMachine) {
  Settings settings = default_settings();
  settings.budget = SizeSetting::of_percent_millionths(60'000'000);
  const EngineOptions options = engine_options(settings, 3, 1000, 800);
  EXPECT_EQ(options.device, 3);
  EXPECT_EQ(options.budget_bytes, 600u);
  EXPECT_EQ(options.host_limit_bytes, 400u);
  EXPECT_EQ(options.policy, kLearnedPolicy);
}

TEST(EngineOptions, DefaultsOfTheTableAreThoseOfTheEngine) {
  const EngineOptions ours = engine_options(default_settings(), 0, 1000, 800);
  const EngineOptions theirs;
  EXPECT_EQ(ours.budget_bytes, theirs.budget_bytes);
  EXPECT_EQ(ours.policy, theirs.policy);
  EXPECT_EQ(ours.min_offload_bytes, theirs.min_offload_bytes);
  EXPECT_EQ(ours.low_water_percent, theirs.low_water_percent);
  EXPECT_EQ(ours.clean_reserve_percent, theirs.clean_reserve_percent);
  EXPECT_EQ(ours.annotate, theirs.annotate);
  EXPECT_EQ(ours.idle_after_ns, theirs.idle_after_ns);
  EXPECT_EQ(ours.idle_reserve_bytes, theirs.idle_reserve_bytes);
  EXPECT_EQ(ours.soft_limit, theirs.soft_limit);
}

TEST(HostMemory, OfThisMachineIsKnown) { EXPECT_GT(host_memory_bytes(), Bytes{1} << 24); }

TEST(OptionTableTest, AFolderIsNamedByAnAbsolutePath) {
  const Option* const option = find_option("host_spill");
  ASSERT_NE(option, nullptr);
  Value value;
  ParseError error;
  EXPECT_TRUE(parse_value(*option, "/scratch", &value, &error));
  EXPECT_EQ(value.folder, "/scratch");
  EXPECT_TRUE(parse_value(*option, "", &value, &error)) << "off";
  EXPECT_FALSE(parse_value(*option, "scratch", &value, &error));
  EXPECT_NE(error.message.find("'scratch' is no absolute path"), std::string::npos) << error.message;
  EXPECT_EQ(error.suggestion, (std::filesystem::current_path() / "scratch").string());
}

}  // namespace
}  // namespace thermocline
