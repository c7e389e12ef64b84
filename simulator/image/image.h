// SPDX-License-Identifier: Apache-2.0
// What a device image declares: kernels with the layout of their parameters, and variables with their first contents.
// No code is translated here; PTX is kept as it is (simulator/ptx runs it). Whatever the device's architecture, any
// entry of a fat binary will do.
//
// Accepted, as by cuModuleLoadData: nvcc's wrapper around a fat binary, a fat binary (entries plain, zstd or LZ4), PTX
// text, a cubin. Contract: with a length, nothing outside [data, data + length) is read, however the bytes lie; without
// one, the image itself says where it ends, as for the real driver. Sources: PTX ISA 9.0 (text), fatbinary_section.h
// (wrapper), and what nvcc 13.0 was seen to write (fat binary, .nv.info).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace simulator {

struct ImageParameter {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};

// What a kernel sees of a byte of its parameters. A structure has padding, and what a call leaves there is whatever
// the caller's memory held.
enum class ParameterByte : std::uint8_t {
  kUnread,   // no instruction loads it
  kUnknown,  // of a structure, and nothing tells what of it is loaded
  kRead,
};

struct ImageKernel {
  std::string name;
  std::vector<ImageParameter> parameters;  // in order; offsets ascend
  std::uint32_t parameter_bytes = 0;
  std::vector<ParameterByte> reads;  // one for each byte of the parameters
  std::uint32_t shared_bytes = 0;    // declared statically
  std::uint32_t max_threads = 0;     // of a block, from its launch bounds; 0: none given
  std::uint32_t registers = 0;       // 0: unknown
};

// An 8-byte word of a variable that holds the address of another one.
struct ImageAddress {
  std::uint64_t offset = 0;
  std::string variable;
  std::int64_t addend = 0;
};

struct ImageVariable {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t alignment = 1;
  bool constant = false;
  bool managed = false;
  std::vector<std::byte> contents;      // shorter than `bytes`: the rest is zero
  std::vector<ImageAddress> addresses;  // written over the contents
};

struct Image {
  std::uint32_t architecture = 0;  // that it was compiled for, as in sm_90; 0: not said
  bool is_ptx = false;             // as opposed to a cubin
  std::vector<ImageKernel> kernels;
  std::vector<ImageVariable> variables;
  std::shared_ptr<const std::string> text;  // its PTX, where it has some
  std::vector<std::string> functions;       // of the PTX, in order of first mention; kernels are among them
};

enum class ImageError {
  kNone,
  kInvalid,   // not an image, or damaged
  kNoBinary,  // a fat binary without an entry that can be read
  kBadText,   // PTX that does not parse
};

struct ImageResult {
  ImageError error = ImageError::kNone;
  std::string reason;  // one sentence, where there is an error

  bool ok() const { return error == ImageError::kNone; }
};

// A file's contents, or any bytes whose length is known.
ImageResult read_image(std::span<const std::byte> data, Image* out);

// What a program passes as `const void*`. `data` is not nullptr.
ImageResult read_image(const void* data, Image* out);

}  // namespace simulator
