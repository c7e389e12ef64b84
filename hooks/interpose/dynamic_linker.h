// SPDX-License-Identifier: Apache-2.0
// The dynamic linker's functions that we stand in front of: the next dlsym and dlvsym behind ours in the order of
// loading, which are glibc's, or another tool's. They are found by reading the symbol tables of the loaded objects, for
// asking dlsym for dlsym would find our own, and the list of glibc's version names would never be complete.
#pragma once

#include <cstdint>

namespace thermocline {

using DlsymFunction = void* (*)(void* handle, const char* name);
using DlvsymFunction = void* (*)(void* handle, const char* name, const char* version);

DlsymFunction next_dlsym();
DlvsymFunction next_dlvsym();

// Where the object that holds `code` stands in the order of loading, and whether `name` is defined between it and us.
enum class Place { kBehindUs, kBeforeUs, kBeforeUsAndAnotherBetween };
Place place_of(const void* code, const char* name);

// The definition of `name` in the first object behind ours that has one; null when none has.
void* next_definition(const char* name);

}  // namespace thermocline
