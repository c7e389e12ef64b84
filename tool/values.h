// SPDX-License-Identifier: Apache-2.0
// Values of flags that several commands have. If a value is wrong, an error is printed on stderr and nothing is
// returned; that is wrong usage.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "config/settings.h"
#include "config/size.h"
#include "simulator/profile.h"
#include "trace/event_file.h"
#include "trace/read.h"
#include "trace/trace.h"

namespace thermocline {

// The whole that a percentage refers to.
enum class Whole { kDevice, kPeak };

// A budget: bytes, `60%device` of the device's memory, or `60%peak` of the most live bytes in a trace.
struct Budget {
  SizeSetting size;
  Whole of = Whole::kDevice;  // for a percentage

  // At least a byte, even of a tiny peak: a budget of 0 would be none.
  Bytes resolve(Bytes device_bytes, Bytes peak_bytes) const {
    return std::max<Bytes>(size.resolve(of == Whole::kPeak ? peak_bytes : device_bytes), 1);
  }
  // As it would be written on the command line.
  std::string text() const;
  // "8.30 GiB = 60% of the peak 13.80 GiB": the resolved bytes, and what they are a percentage of.
  std::string text(Bytes taken, Bytes device_bytes, Bytes peak_bytes) const;
};
// The device's memory, if no budget is given.
Budget whole_device();

// `flag`: its name, for messages; `bare`: what "60%" alone refers to. A percentage of a device is at most 100. One of a
// peak may be more, as a size may: then nothing has to be evicted. A number without unit below a page gives a warning.
std::optional<Budget> parse_budget_flag(const std::string& text, const std::string& flag, Whole bare);
// A size that is no percentage.
std::optional<Bytes> parse_bytes_flag(const std::string& text, const std::string& flag);
void remark_on_bare_number(const std::string& text, const std::string& flag);

const simulator::Profile* find_device_flag(const std::string& name, const std::string& flag);

// Parses a value for the option `key` of the settings table, into `settings`.
bool parse_setting_flag(const std::string& key, const std::string& text, const std::string& flag, Settings* settings);

inline constexpr const char* kTraceHelp = "a recorded program ('-': stdin)";
// The path to read for a file name on the command line: '-' is stdin.
std::string input_path(const std::string& name);
// Prints why a file is not a trace, and how to make one.
void say_trace_error(const TraceError& error);
// Reads the trace, as it was recorded; prints errors and warnings.
bool read_trace_file(const std::string& path, Trace* out);
// Reads the trace with all alternatives of its operators.
bool read_trace_family(const std::string& path, TraceFamily* out);

DeviceRates rates_of(const simulator::Profile& profile);

}  // namespace thermocline
