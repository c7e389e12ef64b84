// SPDX-License-Identifier: Apache-2.0
// Hooks call these after successful driver calls that load or unload code. They cost nothing if it is known that nobody
// recomputes or records.
#pragma once

#include <atomic>

#include "hooks/interpose/cuda_api.h"

namespace thermocline {

struct Settings;
struct EngineOptions;

// True: setting recompute is off, and nothing is recorded.
inline std::atomic<bool> code_is_of_no_use{false};
// The opposite; false until the settings were read.
inline std::atomic<bool> code_is_read{false};

void note_code(const void* handle, const void* image);
void note_same_code(const void* handle, const void* of);
void note_function(const void* function, const void* handle, const char* name);
void note_same_function(const void* function, const void* as);
void note_unloaded(const void* handle);

// For the table of observers.
void read_recompute_setting(const Settings& settings);
void offer_relaunches(EngineOptions* options);
void forget_functions_of_contexts();

}  // namespace thermocline
