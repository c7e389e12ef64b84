// SPDX-License-Identifier: Apache-2.0
// How an ELF program reaches CUDA: which libraries it names, and whether it carries device code.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace thermocline {

struct ElfNeeds {
  std::vector<std::string> libraries;  // DT_NEEDED, in order
  bool has_device_code = false;        // a fat binary section, as nvcc makes
  bool is_static = false;              // no dynamic section: nothing can be preloaded
};

// Nothing, with a sentence in `reason`, for what is no 64-bit ELF file of this machine's byte order.
std::optional<ElfNeeds> read_elf_needs(const std::string& path, std::string* reason);

}  // namespace thermocline
