// SPDX-License-Identifier: Apache-2.0
// Reads the PTX in an image that a program gives the driver to load: PTX text, a fat binary (entries plain, zstd or
// LZ4), or nvcc's wrapper around one. Sources: fatbinary_section.h (wrapper); the container as nvcc 13.0 writes it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hooks/relaunch/ptx_index.h"

namespace thermocline {

struct DeviceCode {
  struct Text {
    unsigned architecture = 0;  // as in compute_90; 0: unknown
    std::string ptx;
    PtxIndex index;

    Text(unsigned of, std::string text) : architecture(of), ptx(std::move(text)), index(ptx) {}
    friend bool operator==(const Text&, const Text&) = default;
  };
  std::vector<Text> texts;
  std::vector<unsigned> compiled;  // architectures of the machine code beside the texts
  // False: some of the code could not be read, or is linked from parts.
  bool is_whole = false;

  // Whether the code that runs on any device was compiled from one of the texts. nvcc does so if there is a text for
  // each architecture of machine code.
  bool is_made_from_texts() const;

  friend bool operator==(const DeviceCode&, const DeviceCode&) = default;
};

// `image`: as for cuModuleLoadData, which has already accepted it.
DeviceCode read_device_code(const void* image);
// A copy of what read_device_code() reads of it, for later; of machine code alone there is nothing to read. Empty: it is
// larger than `most` bytes.
std::vector<unsigned char> copy_of_device_code(const void* image, std::size_t most);
// Reads a file, or the section of a program that contains such code: PTX text, or a sequence of fat binaries. The bytes
// may be anything; everything from the first part that is not a fat binary on is left out.
std::vector<DeviceCode> read_device_codes(std::span<const unsigned char> bytes);

}  // namespace thermocline
