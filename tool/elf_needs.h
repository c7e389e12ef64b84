// SPDX-License-Identifier: Apache-2.0
// How an ELF program uses CUDA: which libraries it is linked with, and whether it contains device code.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace thermocline {

struct ElfNeeds {
  std::vector<std::string> libraries;  // DT_NEEDED, in order
  bool has_device_code = false;        // has a fat binary section, as nvcc makes it
  bool is_static = false;              // no dynamic section: nothing can be preloaded
};

// Nothing, with a message in `reason`, if the file is not a 64-bit ELF file in this machine's byte order.
std::optional<ElfNeeds> read_elf_needs(const std::string& path, std::string* reason);

// The section with the device code. Nothing, with a message: the file is not such an ELF file, or has no such section.
std::optional<std::string> read_device_code_section(const std::string& path, std::string* reason);

}  // namespace thermocline
