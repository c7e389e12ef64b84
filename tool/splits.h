// SPDX-License-Identifier: Apache-2.0
// The flag --split: whether operators that the trace marks (trace/slices.h) are split where one needs more memory than
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

// Splits operators that need more than a limit: first the budget, then smaller limits, because other buffers share it
// with an operator, and because smaller pieces leave more choice of what is on the device. `step_ms`: how long a step takes then;
// none: it does not run within the budget. The fastest is taken, of equally fast ones that with fewest parts; and where
// none runs, what the budget asks for. Nothing is split where the program runs as it is.
SplitTrace split_for_budget(const Trace& trace, Bytes budget, const DeviceRates& rates,
                            const std::function<std::optional<double>(const Trace&)>& step_ms);

// How many steps are replayed (choose_steps); `repeat`: they are equal.
struct WantedSteps {
  std::optional<std::size_t> asked;
  std::size_t usual = 0;
  bool repeat = true;
};
// Milliseconds of a step of the trace under these options; none: memory runs out, or so many steps can not be replayed.
std::optional<double> replayed_step_ms(const Trace& trace, const WantedSteps& steps, const ReplayOptions& options);

// What a command replays under a budget: with `mode` auto the trace as it was split for it, else the trace, with a line
// on stderr if it could be split.
SplitTrace take_splits(const std::string& mode, const Trace& trace, Bytes budget, const DeviceRates& rates,
                       const std::function<std::optional<double>(const Trace&)>& step_ms);

// "_log_softmax_backward_data into 2 parts (4 operators)"; "" for none.
std::string split_text(const Trace& recorded, const std::vector<SplitOperator>& split);
// Null where no operator needs more than the budget, or `mode` is off.
nlohmann::ordered_json split_json(const Trace& recorded, const std::vector<SplitOperator>& split);

// Where splitting was not asked for: "" or that operators could be split that need more than the budget.
std::string split_remark(const Trace& trace, Bytes budget);

}  // namespace thermocline
