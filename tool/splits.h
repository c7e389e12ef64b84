// SPDX-License-Identifier: Apache-2.0
// The flag --split: whether operators that the trace marks (trace/slices.h) are split if they need more memory than
// there is.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <string>

#include "trace/replay.h"
#include "trace/split.h"

namespace thermocline {

inline constexpr const char* kNoSplits = "off";
inline constexpr const char* kAutoSplits = "auto";

CLI::Option* add_split_flag(CLI::App* command, std::string* mode);
// False: an error has been printed.
bool is_split_mode(const std::string& mode);

// Splits operators that need more than a limit: first the budget, then smaller limits, because operators share the
// budget with other buffers, and because smaller pieces leave more choice of what is on the device. `step_ms`: the
// resulting step time; none: it does not run within the budget. Takes the fastest result (of equals, that with the
// fewest parts); if none runs, the split for the budget. Splits nothing if the program runs as it is.
SplitTrace split_for_budget(const Trace& trace, Bytes budget, const DeviceRates& rates,
                            const std::function<std::optional<double>(const Trace&)>& step_ms);

// The number of steps that are replayed (choose_steps); `repeat`: they are equal.
struct WantedSteps {
  std::optional<std::size_t> asked;
  std::size_t usual = 0;
  bool repeat = true;
};
// Milliseconds of a step of the trace under these options; none: memory runs out, or the steps cannot be replayed.
std::optional<double> replayed_step_ms(const Trace& trace, const WantedSteps& steps, const ReplayOptions& options);

// The trace that a command replays under a budget: with `mode` auto, as it was split for the budget; else unchanged,
// with a line on stderr if it could be split.
SplitTrace take_splits(const std::string& mode, const Trace& trace, Bytes budget, const DeviceRates& rates,
                       const std::function<std::optional<double>(const Trace&)>& step_ms);

// "_log_softmax_backward_data into 2 parts (4 operators)"; "" for none.
std::string split_text(const Trace& recorded, const std::vector<SplitOperator>& split);
// Null if no operator needs more than the budget, or if `mode` is off.
nlohmann::ordered_json split_json(const Trace& recorded, const std::vector<SplitOperator>& split);

// If splitting was not requested: that some operators that need more than the budget could be split; else "".
std::string split_remark(const Trace& trace, Bytes budget);

}  // namespace thermocline
