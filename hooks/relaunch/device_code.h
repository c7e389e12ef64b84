// SPDX-License-Identifier: Apache-2.0
// The PTX in what a program gives the driver to load: PTX text, a fat binary (entries plain, zstd or LZ4), or nvcc's
// wrapper around one. Sources: fatbinary_section.h (wrapper); the container as nvcc 13.0 writes it.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace thermocline {

struct DeviceCode {
  struct Text {
    unsigned architecture = 0;  // as in compute_90; 0: unknown
    std::string ptx;

    friend bool operator==(const Text&, const Text&) = default;
  };
  std::vector<Text> texts;
  std::vector<unsigned> compiled;  // architectures of machine code beside them
  // False: some of it could not be read, or is linked from parts.
  bool is_whole = false;

  // Whether what runs on any device has been made from one of the texts, as nvcc makes it: there is a text for each
  // architecture of machine code.
  bool is_made_from_texts() const;

  friend bool operator==(const DeviceCode&, const DeviceCode&) = default;
};

// `image` as for cuModuleLoadData, which has read it already.
DeviceCode read_device_code(const void* image);
// Of a file, or of the section of a program that has it: PTX text, or fat binaries one behind the other. The bytes may be
// anything; what comes after the first that is none is left out.
std::vector<DeviceCode> read_device_codes(std::span<const unsigned char> bytes);

}  // namespace thermocline
