// SPDX-License-Identifier: Apache-2.0
// Joins the PTX of the files of a program that nvcc compiled with -rdc=true.
#pragma once

#include <span>
#include <string>

namespace simulator {

// Makes one module of all texts. A symbol that a file keeps to itself (no .visible, .weak or .common) is renamed if
// another file has the same name. Line numbers count through the texts, one after the other.
std::string link_ptx(std::span<const std::string> texts);

}  // namespace simulator
