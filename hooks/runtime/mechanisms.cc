// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/mechanisms.h"

#include "hooks/interpose/log.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

bool do_without(const Findings& findings, EngineOptions* options, const char** why) {
  *why = nullptr;
  for (const MechanismText& text : mechanism_texts()) {
    if (!findings.fails(text.mechanism)) continue;
    count(Counter::kMissingMechanisms);
    log_line(LogLevel::kWarning, "the driver does not do what the library assumes: %s (%s); %s", text.what, text.name,
             text.without);
    const bool is_vital = text.mechanism == Mechanism::kEvents || text.mechanism == Mechanism::kRemap;
    if (is_vital && *why == nullptr) *why = "the driver does not do what the library relies on";
  }
  if (findings.fails(Mechanism::kAlias)) options->may_alias = false;
  return *why == nullptr;
}

}  // namespace thermocline
