// SPDX-License-Identifier: Apache-2.0
// The effective settings, typed. Names, defaults, variables and documentation are in one table
// (config/option_table.cc); config/load.h decides where values come from.
#pragma once

#include <string>
#include <vector>

#include "config/duration.h"
#include "config/log_level.h"
#include "config/size.h"
#include "driver/units.h"
#include "offload/engine/engine.h"

namespace thermocline {

// How statistics are printed when the program ends: a table for people, one line of KEY=VALUE, or one JSON object.
enum class StatsForm { kOff, kTable, kLine, kJson };
// The amount of memory that a program is told when it asks (cuMemGetInfo).
enum class Advertise { kBudget, kDevice, kBudgetAndHost };
enum class DebugMode { kOff, kTrack, kGuard };

// Members are empty until default_settings() or load_settings() fills them: defaults are written only once, in the
// table.
struct Settings {
  SizeSetting budget;  // percent: of the device's memory; unset: default_budget of the free memory; shared: a lease
  SizeSetting share_minimum;  // percent: of the device's memory
  unsigned share_weight = 0;
  Duration share_slice{};  // the longest; 0: no slices
  const PolicyEntry* policy = kNoPolicy;
  Safety safety{};
  HostFallback host_fallback{};
  Recompute recompute{};
  DigestUse digests{};
  UploadCopies upload_copies{};
  SizeSetting host_limit;         // percent: of the machine's memory
  SizeSetting host_limit_shared;  // percent: of the machine's memory; unset: no limit
  std::string host_spill;         // a folder; empty: off
  SizeSetting host_spill_limit;   // unset: most of the free space there
  SizeSetting page_bytes;         // unset: chosen by the engine
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

// Names the group of processes that share host_limit_shared, if it is not all processes of the user.
inline constexpr const char* kHostGroupVariable = "THERMOCLINE_HOST_GROUP";

// The options for the engine of device `device`, which has `device_bytes` of memory, on a machine with `host_bytes` of
// RAM.
EngineOptions engine_options(const Settings& settings, int device, Bytes device_bytes, Bytes host_bytes);

// The budget if none is set, for a device of `total` bytes. `free`: bytes free when the engine begins: after its
// context was created, and without other processes' memory. The budget leaves out a part that the driver allocates for
// itself later: for code loaded at its first launch, local memory, streams, graphs.
Bytes default_budget(Bytes free, Bytes total);
inline constexpr Bytes kKeptFreePart = 64;
inline constexpr Bytes kMostKeptFree = 512 * kMiB;

// RAM of this machine, or the limit of the process's control group if that is less; 0 when unknown.
Bytes host_memory_bytes();

}  // namespace thermocline
