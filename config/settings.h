// SPDX-License-Identifier: Apache-2.0
// The effective settings, typed. Names, defaults, variables and documentation stand in one table
// (config/option_table.cc); where values come from is decided in config/load.h.
#pragma once

#include <vector>

#include "config/duration.h"
#include "config/log_level.h"
#include "config/size.h"
#include "driver/units.h"
#include "offload/engine/engine.h"

namespace thermocline {

// How statistics are told when the program ends: a table for people, one line of KEY=VALUE, one JSON object.
enum class StatsForm { kOff, kTable, kLine, kJson };
// What a program that asks how much memory there is (cuMemGetInfo) is told.
enum class Advertise { kBudget, kDevice, kBudgetAndHost };
enum class DebugMode { kOff, kTrack, kGuard };

// Members are empty until default_settings() or load_settings() fills them: the defaults are written once, in the
// table.
struct Settings {
  SizeSetting budget;  // percent: of the device's memory; unset: what is free (default_budget)
  Policy policy{};
  Safety safety{};
  HostFallback host_fallback{};
  Recompute recompute{};
  DigestUse digests{};
  SizeSetting host_limit;         // percent: of the machine's memory
  SizeSetting host_limit_shared;  // the same; unset: no limit
  SizeSetting min_offload_bytes;
  SizeSetting low_water;      // percent
  SizeSetting clean_reserve;  // percent
  Duration idle_after{};      // 0: never
  SizeSetting idle_reserve;
  std::vector<OperatorRule> operators;
  bool strict = false;
  StatsForm stats{};
  Advertise advertise{};
  bool soft_limit{};
  DebugMode debug{};
  bool audit = false;
  bool shareable = false;
  bool children = true;
  bool frameworks = true;
  bool publish = false;
  bool nvtx = false;
  LogLevel log_level{};
};

Settings default_settings();

// Names the processes that share host_limit_shared, where not all of the user's do.
inline constexpr const char* kHostGroupVariable = "THERMOCLINE_HOST_GROUP";

// What the engine of device `device` with `device_bytes` of memory is to be given, on a machine with `host_bytes` of
// RAM.
EngineOptions engine_options(const Settings& settings, int device, Bytes device_bytes, Bytes host_bytes);

// The budget where none is set: of a device of `total` bytes what is free when the engine begins, which is after its
// context was made and without what other processes hold, but for a part that the driver takes for itself later: code
// that is loaded at its first launch, local memory, streams, graphs.
Bytes default_budget(Bytes free, Bytes total);
inline constexpr Bytes kKeptFreePart = 64;
inline constexpr Bytes kMostKeptFree = 512 * kMiB;

// RAM of this machine, or of the control group that holds the process where that is less; 0 when unknown.
Bytes host_memory_bytes();

}  // namespace thermocline
