// SPDX-License-Identifier: Apache-2.0
#include "config/settings.h"

#include <unistd.h>

#include <algorithm>

#include "config/control_group.h"
#include "config/option_table.h"
#include "config/trusted_file.h"
#include "driver/check.h"

namespace thermocline {
Settings default_settings() {
  Settings settings;
  for (const Option& option : option_table()) {
    if (*option.default_text == '\0') continue;
    Value value;
    ParseError error;
    THERMOCLINE_CHECK(parse_value(option, option.default_text, &value, &error),
                      "every default passes its own option's checks");
    option.store(settings, value);
  }
  return settings;
}

EngineOptions engine_options(const Settings& settings, int device, Bytes device_bytes, Bytes host_bytes) {
  EngineOptions options;
  options.device = device;
  options.budget_bytes = settings.budget.resolve(device_bytes);
  options.policy = settings.policy;
  options.safety = settings.safety;
  options.host_fallback = settings.host_fallback;
  options.recompute = settings.recompute;
  options.digests = settings.digests;
  options.upload_copies = settings.upload_copies;
  options.host_limit_bytes = settings.host_limit.resolve(host_bytes);
  options.page_bytes = settings.page_bytes.resolve(0);
  options.min_offload_bytes = settings.min_offload_bytes.resolve(0);
  options.low_water_percent = settings.low_water.percent();
  options.clean_reserve_percent = settings.clean_reserve.percent();
  options.idle_after_ns =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(settings.idle_after).count());
  options.idle_reserve_bytes = settings.idle_reserve.resolve(0);
  // NVTX loads a library that an environment variable names, which must not happen in a privileged program.
  options.annotate = settings.nvtx && !is_privileged_program();
  options.soft_limit = settings.soft_limit;
  options.audit = settings.audit;
  if (settings.audit) {
    options.budget_bytes = 0;
    options.policy = kNoPolicy;
  }
  return options;
}

Bytes default_budget(Bytes free, Bytes total) {
  const Bytes kept = std::min(kMostKeptFree, total / kKeptFreePart);
  return free > 2 * kept ? free - kept : free;
}

Bytes host_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  const Bytes machine = pages > 0 && page_bytes > 0 ? static_cast<Bytes>(pages) * static_cast<Bytes>(page_bytes) : 0;
  const Bytes group = control_group_limit();
  return group == 0 ? machine : machine == 0 ? group : std::min(machine, group);
}

}  // namespace thermocline
