// SPDX-License-Identifier: Apache-2.0
// The dynamic linker's functions that this library interposes: the next dlsym and dlvsym after its own in load order,
// which are glibc's or another tool's. They are found by reading the symbol tables of the loaded objects: asking dlsym
// for dlsym would return this library's own, and a list of glibc's version names would never be complete.
#pragma once

#include <cstdint>

namespace thermocline {

using DlsymFunction = void* (*)(void* handle, const char* name);
using DlvsymFunction = void* (*)(void* handle, const char* name, const char* version);

DlsymFunction next_dlsym();
DlvsymFunction next_dlvsym();

// The position of the object that contains `code` in load order, and whether an object between it and this library
// defines `name`.
enum class LoadOrder { kBehindUs, kBeforeUs, kBeforeUsAndAnotherBetween };
LoadOrder place_of(const void* code, const char* name);

// The definition of `name` in the first object after this library that has one; null when none has.
void* next_definition(const char* name);

}  // namespace thermocline
