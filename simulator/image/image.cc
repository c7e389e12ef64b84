// SPDX-License-Identifier: Apache-2.0
#include "simulator/image/image.h"

#include <cstring>
#include <optional>
#include <string_view>

#include "simulator/image/bytes.h"
#include "simulator/image/cubin.h"
#include "simulator/image/fatbin.h"
#include "simulator/image/ptx.h"

namespace simulator {
namespace {

const ImageResult kUnknown{ImageError::kInvalid, "the image is neither a fat binary, nor PTX, nor a cubin"};

ImageResult read_whole(ByteSpan data, Image* out) {
  if (read_at<std::uint32_t>(data, 0) == kFatbinMagic) return read_fatbin(data, out);
  if (is_cubin(data)) return read_cubin(data, out);
  std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
  text = text.substr(0, text.find('\0'));
  if (is_ptx(text)) return read_ptx(text, out);
  return kUnknown;
}

std::uint32_t magic_of(const void* data) {
  std::uint32_t magic;
  std::memcpy(&magic, data, sizeof magic);
  return magic;
}

}  // namespace

ImageResult read_image(std::span<const std::byte> data, Image* out) {
  Image image;
  ImageResult result = read_whole(data, &image);
  if (result.ok()) *out = std::move(image);
  return result;
}

ImageResult read_image(const void* data, Image* out) {
  // Byte by byte, because the shortest text is a single NUL.
  const char* text = static_cast<const char*>(data);
  if (strnlen(text, sizeof(std::uint32_t)) < sizeof(std::uint32_t)) return kUnknown;
  if (magic_of(data) == kFatbinWrapperMagic) {
    data = unwrap_fatbin(data);
    if (data == nullptr || magic_of(data) != kFatbinMagic)
      return {ImageError::kInvalid, "the wrapper holds no fat binary"};
  }
  std::optional<std::uint64_t> bytes;
  if (magic_of(data) == kFatbinMagic) {
    bytes = fatbin_bytes(data);
  } else if (std::memcmp(data, "\177ELF", 4) == 0) {
    bytes = cubin_bytes(data);
  } else {
    bytes = std::strlen(text);
  }
  if (!bytes) return {ImageError::kInvalid, "the image does not say how long it is"};
  return read_image(ByteSpan(static_cast<const std::byte*>(data), static_cast<std::size_t>(*bytes)), out);
}

}  // namespace simulator
