// SPDX-License-Identifier: Apache-2.0
// What `run` and `record` say of a program's start: that it did not, and what would; that it will find no device, or
// run without the library.
#pragma once

#include <string>

namespace thermocline {

// One line: why `program` did not start (an errno), and what was probably meant.
std::string not_started(const std::string& program, int error);

// One line if this machine has no NVIDIA driver, so that `program` finds no device if it wants one. Nothing is said of a
// program that will not start.
void remark_on_missing_driver(const std::string& program);

// One line if nothing can be preloaded into `program`.
void remark_on_static_program(const std::string& program);

}  // namespace thermocline
