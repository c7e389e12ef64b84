// SPDX-License-Identifier: Apache-2.0
// Messages of `run` and `record` about a program's start: that it failed, and what would work; that the program will
// find no device, or run without the library.
#pragma once

#include <string>

namespace thermocline {

// One line: why `program` did not start (`error`: a value of errno), and what was probably meant.
std::string not_started(const std::string& program, int error);

// One line if this machine has no NVIDIA driver, so that `program` would find no device. Nothing is printed for a
// program that will not start.
void remark_on_missing_driver(const std::string& program);

// One line if nothing can be preloaded into `program`.
void remark_on_static_program(const std::string& program);

}  // namespace thermocline
