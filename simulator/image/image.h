// SPDX-License-Identifier: Apache-2.0
// The declarations in a device image: kernels with the layout of their parameters, and variables with their initial
// contents. No code is translated here; PTX is stored unchanged (simulator/ptx runs it). Any entry of a fat binary is
// accepted, whatever the device's architecture.
//
// Accepted, as by cuModuleLoadData: nvcc's wrapper around a fat binary, a fat binary (entries uncompressed, zstd or
// LZ4), PTX text, a cubin. Contract: with a length, nothing outside [data, data + length) is read, whatever the bytes
// are; without one, the image itself determines where it ends, as for the real driver. Sources: PTX ISA 9.0 (text),
// fatbinary_section.h (wrapper), and the output of nvcc 13.0 (fat binary, .nv.info).
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
  std::uint32_t alignment = 1;  // as PTX declares it; a cubin does not tell, but has the final offset
};

// Whether a kernel uses a byte of its parameters. A structure may have padding, whose contents are arbitrary: whatever
// was in the caller's memory.
enum class ParameterByte : std::uint8_t {
  kUnread,   // no instruction loads it
  kUnknown,  // part of a structure, and it is unknown which of its bytes are loaded
  kRead,
};

struct ImageKernel {
  std::string name;
  std::vector<ImageParameter> parameters;  // in order; offsets ascend
  std::uint32_t parameter_bytes = 0;
  std::vector<ParameterByte> reads;  // one for each byte of the parameters
  std::uint32_t shared_bytes = 0;    // declared statically
  std::uint32_t max_threads = 0;     // per block, from its launch bounds; 0: none given
  std::uint32_t registers = 0;       // 0: unknown
  std::uint32_t architecture = 0;    // of its own file, where files are linked as text; 0: the image's
};

// An 8-byte word of a variable that contains the address of another one.
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
  std::vector<ImageAddress> addresses;  // these overwrite the contents
};

struct Image {
  std::uint32_t architecture = 0;  // the one that it was compiled for, as in sm_90; 0: unknown
  bool is_ptx = false;             // as opposed to a cubin
  std::vector<ImageKernel> kernels;
  std::vector<ImageVariable> variables;
  std::shared_ptr<const std::string> text;  // its PTX, if it has any
  std::vector<std::string> functions;       // of the PTX, kernels included, in order of first mention
};

enum class ImageError {
  kNone,
  kInvalid,   // not an image, or damaged
  kNoBinary,  // a fat binary without a readable entry
  kBadText,   // PTX that does not parse
};

struct ImageResult {
  ImageError error = ImageError::kNone;
  std::string reason;  // one sentence, if there is an error

  bool ok() const { return error == ImageError::kNone; }
};

// Reads a file's contents, or any bytes of known length.
ImageResult read_image(std::span<const std::byte> data, Image* out);

// Reads what a program passes as `const void*`. `data` must not be nullptr.
ImageResult read_image(const void* data, Image* out);

// Lays out the parameters of kernels that were read from PTX as a compiler for `architecture` (10 * major + minor)
// does. Parameters are aligned in the constant bank, where they do not begin at a round address: a tensor map that is
// the only parameter has offset 48 on sm_90. Source: KPARAM_INFO and PARAM_CBANK as written by ptxas 13.0 for sm_75 to
// sm_121, with alignments up to 4096 and up to 5,000 bytes of parameters.
void place_parameters(std::uint32_t architecture, Image* image);

}  // namespace simulator
