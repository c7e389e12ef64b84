// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/spill.h"

#include <cstring>

#include "hooks/interpose/log.h"
#include "offload/spill/disk_file.h"
#include "offload/spill/spill_queue.h"

namespace thermocline {
namespace {

std::string text_of(int error) { return error == kWrongChecksum ? "it is not what was written" : std::strerror(error); }

void tell(const SpillProblem& problem) {
  const std::string why = text_of(problem.error);
  if (problem.reading) {
    log_line(LogLevel::kError,
             "host_spill: %s of a buffer could not be read from the disk: %s; the call that needs them fails",
             human_bytes(problem.bytes).c_str(), why.c_str());
  } else {
    THERMOCLINE_LOG_ONCE(LogLevel::kWarning,
                         "host_spill: a write to the disk failed: %s; copies stay in host memory, as far as "
                         "host_limit allows",
                         why.c_str());
  }
}

std::shared_ptr<DiskFile> create(const Settings& settings, const EngineOptions& options, std::string* why) {
  if (options.host_fallback != HostFallback::kFull) return DiskFile::create(settings.host_spill, {}, why);
  *why = "host_fallback = \"full\" leaves every copy in host memory; with host_fallback = \"off\" it can be used";
  return nullptr;
}

}  // namespace

std::shared_ptr<SpillFile> open_spill_file(const Settings& settings, EngineOptions* options, std::string* refused) {
  if (settings.host_spill.empty() || !options->policy->evicts()) return nullptr;
  std::string why;
  const std::shared_ptr<DiskFile> file = create(settings, *options, &why);
  if (file == nullptr) {
    if (settings.strict) {
      *refused = "host_spill can not be used: " + why;
    } else {
      log_line(LogLevel::kWarning, "host_spill can not be used: %s; the program runs without it", why.c_str());
    }
    return nullptr;
  }
  const Bytes wanted = settings.host_spill_limit.resolve(0);
  options->spill_limit_bytes = wanted != 0 ? wanted : spill_limit_for(file->free_bytes());
  options->spill_problem = &tell;
  THERMOCLINE_LOG_ONCE(LogLevel::kInfo, "host_spill: up to %s in %s; host_fallback is off",
                       human_bytes(options->spill_limit_bytes).c_str(), file->description().c_str());
  return file;
}

}  // namespace thermocline
