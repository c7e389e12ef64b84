// SPDX-License-Identifier: Apache-2.0
#include "simulator/image/image.h"

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/image/bytes.h"
#include "simulator/image/cubin.h"
#include "simulator/image/fatbin.h"
#include "simulator/image/ptx.h"
#include "simulator/image/ptx_link.h"

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

// The joined PTX of the files that nvcc -rdc=true linked. No value if one has none: its functions would be missing.
std::optional<std::string> linked_text(const std::vector<const void*>& fatbins) {
  std::vector<std::string> texts;
  for (const void* const fatbin : fatbins) {
    if (magic_of(fatbin) != kFatbinMagic) return std::nullopt;
    const auto bytes = fatbin_bytes(fatbin);
    if (!bytes) return std::nullopt;
    auto text = text_of_fatbin({static_cast<const std::byte*>(fatbin), static_cast<std::size_t>(*bytes)});
    if (!text) return std::nullopt;
    texts.push_back(std::move(*text));
  }
  if (texts.empty()) return std::nullopt;
  return link_ptx(texts);
}

// The linker keeps code for single architectures; the files that it linked contain the PTX.
ImageResult add_linked_text(const std::vector<const void*>& fatbins, const ImageResult& found, Image* out) {
  if (!found.ok() && found.error != ImageError::kNoBinary) return found;
  const auto text = linked_text(fatbins);
  if (!text) return found;
  Image linked;
  if (ImageResult result = read_ptx(*text, &linked); !result.ok()) return result;
  if (found.ok()) {
    take_text(std::move(linked), out);
  } else {
    *out = std::move(linked);
  }
  return {};
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
  std::vector<const void*> linked;
  if (magic_of(data) == kFatbinWrapperMagic) {
    linked = linked_fatbins(data);
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
  const ImageResult result =
      read_image(ByteSpan(static_cast<const std::byte*>(data), static_cast<std::size_t>(*bytes)), out);
  return linked.empty() ? result : add_linked_text(linked, result, out);
}

}  // namespace simulator
