// SPDX-License-Identifier: Apache-2.0
// The driver's functions for driver/table.h, taken from the real driver and never from this library's exports. None of
// them invalidates a capture of another thread.
#pragma once

namespace thermocline {

struct DriverTable;

// Null when there is no driver, or it lacks a required function. The table lives as long as the process.
const DriverTable* real_table();

void* real_symbol(const char* symbol);  // as in hooks/interpose/symbols.h, without cuda.h's macros

}  // namespace thermocline
