// SPDX-License-Identifier: Apache-2.0
// Finds device addresses among the parameters of a kernel.
//
// A parameter of eight bytes is one word. A longer one is a structure passed by value, which may be packed: every eight
// bytes in it, at every byte offset, are a word. Words do not span parameters, and shorter parameters contain none. A
// word whose value is in the reservation counts as an access. A false positive costs an unnecessary access and nothing
// else.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "hooks/operands/accesses.h"

namespace thermocline {

struct ParameterSlot {
  std::size_t offset = 0;  // in the block that `extra` passes
  std::size_t bytes = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy sees a 0 in it
  friend auto operator<=>(const ParameterSlot&, const ParameterSlot&) = default;
};
using ParameterLayout = std::vector<ParameterSlot>;

// The engine's range of addresses.
struct OwnRange {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;

  bool operator()(DeviceAddress address) const { return address.value - begin < bytes; }
};

inline void scan_word(const void* at, OwnRange owns, AccessList* out) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  if (owns(DeviceAddress{word})) out->word(word);
}
void scan_structure(const void* parameter, std::size_t bytes, OwnRange owns, AccessList* out);
// Examines a word at every byte offset. Most parameters are one word, or shorter.
inline void scan_parameter(const void* parameter, std::size_t bytes, OwnRange owns, AccessList* out) {
  if (bytes > sizeof(std::uint64_t)) {
    scan_structure(parameter, bytes, owns, out);
  } else if (bytes == sizeof(std::uint64_t)) {
    scan_word(parameter, owns, out);
  }
}
// scan_parameter() as on processors without AVX2.
void scan_parameter_narrow(const void* parameter, std::size_t bytes, OwnRange owns, AccessList* out);

// kernelParams: one pointer per parameter.
inline void scan_parameters(const ParameterLayout& layout, void* const* parameters, OwnRange owns, AccessList* out) {
  for (std::size_t i = 0; i < layout.size(); ++i) scan_parameter(parameters[i], layout[i].bytes, owns, out);
}

// The block of `extra`; parameters of the layout beyond `bytes` were not passed.
inline void scan_block(const ParameterLayout& layout, const void* block, std::size_t bytes, OwnRange owns,
                       AccessList* out) {
  for (const ParameterSlot& slot : layout) {
    if (slot.offset >= bytes) continue;
    const std::size_t there = bytes - slot.offset < slot.bytes ? bytes - slot.offset : slot.bytes;
    scan_parameter(static_cast<const unsigned char*>(block) + slot.offset, there, owns, out);
  }
}

// The two kinds of arguments that a launch and a graph node have.
struct KernelArguments {
  void* const* parameters = nullptr;
  void* const* extra = nullptr;
};

struct ExtraBlock {
  const void* at = nullptr;
  std::size_t bytes = 0;
};
// Reads CU_LAUNCH_PARAM_*; an unknown entry ends the list, which the driver treats as an error.
ExtraBlock read_extra(void* const* extra);

// False when the arguments can not be read: then everything counts as accessed. Code compiled by nvcc passes an array
// of parameters even to kernels that have none. Without a layout the block of `extra` is scanned as one parameter.
[[gnu::always_inline]] inline bool scan_arguments(const ParameterLayout* layout, KernelArguments arguments,
                                                  OwnRange owns, AccessList* out) {
  if (arguments.parameters != nullptr) {
    if (layout == nullptr) return false;
    scan_parameters(*layout, arguments.parameters, owns, out);
    return true;
  }
  const ExtraBlock block = read_extra(arguments.extra);
  if (block.at == nullptr) return true;
  if (layout == nullptr || layout->empty()) {
    scan_parameter(block.at, block.bytes, owns, out);
  } else {
    scan_block(*layout, block.at, block.bytes, owns, out);
  }
  return true;
}

}  // namespace thermocline
