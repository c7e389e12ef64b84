// SPDX-License-Identifier: Apache-2.0
// Out-of-memory reports on their way from the engine, which is locked when it makes them, to the log and to the
// program's callback, which are called when it is not.
#pragma once

#include <string>

namespace thermocline {

using RefusalCallback = void (*)(const char* report, void* user);

// The engine's report handler: keeps the report for this thread.
void keep_report(const std::string& report);
// Outside the engine: gives out what this thread has kept.
void give_out_report() noexcept;
// Null: none.
void set_refusal_callback(RefusalCallback callback, void* user);

}  // namespace thermocline
