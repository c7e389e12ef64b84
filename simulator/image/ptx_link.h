// SPDX-License-Identifier: Apache-2.0
// Joins the PTX of the files of a program that nvcc compiled with -rdc=true.
#pragma once

#include <span>
#include <string>

namespace simulator {

// One module that declares what all of these do. What a file keeps to itself (no .visible, .weak or .common) gets a
// name of its own where another file has the same name. Lines are those of the texts one after the other.
std::string link_ptx(std::span<const std::string> texts);

}  // namespace simulator
