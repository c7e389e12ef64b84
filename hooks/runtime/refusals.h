// SPDX-License-Identifier: Apache-2.0
// Passes out-of-memory reports from the engine, which is locked when it creates them, to the log and to the program's
// callback, which are called without that lock.
#pragma once

#include <string>

namespace thermocline {

using RefusalCallback = void (*)(const char* report, void* user);

// The engine's report handler: stores the report for this thread.
void keep_report(const std::string& report);
// What was refused is granted after all.
void forget_report() noexcept;
// Called outside the engine: writes the stored report of this thread to the log and the callback.
void give_out_report() noexcept;
// `callback` null: none.
void set_refusal_callback(RefusalCallback callback, void* user);

}  // namespace thermocline
