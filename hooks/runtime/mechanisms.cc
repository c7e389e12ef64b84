// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/mechanisms.h"

#include <atomic>
#include <cstdint>

#include "hooks/interpose/log.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

namespace {

void log_and_count(const MechanismText& text) {
  count(Counter::kMissingMechanisms);
  log_line(LogLevel::kWarning, "the driver does not do what the library assumes: %s (%s); %s", text.what, text.name,
           text.without);
}

}  // namespace

void do_without(Mechanism mechanism) {
  static std::atomic<std::uint32_t> done{0};
  const std::uint32_t bit = 1U << static_cast<unsigned>(mechanism);
  if ((done.fetch_or(bit) & bit) != 0) return;
  for (const MechanismText& text : mechanism_texts()) {
    if (text.mechanism == mechanism) log_and_count(text);
  }
}

bool do_without(const Findings& findings, EngineOptions* options, const char** why) {
  *why = nullptr;
  for (const MechanismText& text : mechanism_texts()) {
    if (!findings.fails(text.mechanism)) continue;
    log_and_count(text);
    const bool is_vital = text.mechanism == Mechanism::kEvents || text.mechanism == Mechanism::kRemap;
    if (is_vital && *why == nullptr) *why = "the driver does not do what the library relies on";
  }
  if (findings.fails(Mechanism::kAlias)) options->may_alias = false;
  return *why == nullptr;
}

}  // namespace thermocline
