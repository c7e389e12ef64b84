// SPDX-License-Identifier: Apache-2.0
// The driver's functions for the seam (driver/table.h), taken from the real driver and never from our exports.
#pragma once

namespace thermocline {

struct DriverTable;

// Null when there is no driver, or one without what the library needs. The table lives as long as the process.
const DriverTable* real_table();

void* real_symbol(const char* symbol);  // hooks/interpose/symbols.h, without the variants of cuda.h

}  // namespace thermocline
