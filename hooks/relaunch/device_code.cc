// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/device_code.h"

#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace thermocline {
namespace {

using Bytes8 = std::span<const unsigned char>;

struct Wrapper {
  std::uint32_t magic, version;  // 1, or 2 for linked code
  const void* data;
  const void* others;
};
constexpr std::uint32_t kWrapperMagic = 0x466243b1;

struct Container {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  // after the header
};
constexpr std::uint32_t kContainerMagic = 0xba55ed50;
constexpr std::uint32_t kElfMagic = 0x464c457f;

struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;             // after the header, with padding
  std::uint32_t compressed_bytes;  // without padding
  std::uint32_t unused[2];
  std::uint32_t architecture;
  std::uint64_t unused_too;
  std::uint64_t flags;
  std::uint64_t unused_as_well;
  std::uint64_t plain_bytes;
};
static_assert(sizeof(Container) == 16 && sizeof(Entry) == 64);
constexpr std::uint16_t kPtx = 1, kElf = 2;
constexpr std::uint64_t kLz4 = 0x2000, kZstd = 0x8000;
// A larger size means damage: no text is nearly that large.
constexpr std::uint64_t kLargestText = std::uint64_t{1} << 28;

// "LZ4 Block Format Description" of the lz4 project.
class Lz4 {
 public:
  Lz4(Bytes8 from, std::size_t bytes) : from_(from), bytes_(bytes) { out_.reserve(bytes); }
  std::optional<std::string> decode() {
    while (at_ < from_.size()) {
      const std::size_t token = from_[at_++];
      std::size_t literals = token >> 4;
      if (!extend(&literals) || from_.size() - at_ < literals || bytes_ - out_.size() < literals) return std::nullopt;
      out_.append(reinterpret_cast<const char*>(from_.data()) + at_, literals);
      at_ += literals;
      if (at_ == from_.size()) break;
      if (!repeat(token & 15)) return std::nullopt;
    }
    if (out_.size() != bytes_) return std::nullopt;
    return std::move(out_);
  }

 private:
  bool extend(std::size_t* length) {
    if (*length != 15) return true;
    while (at_ < from_.size()) {
      const std::size_t more = from_[at_++];
      *length += more;
      if (more != 255) return true;
    }
    return false;
  }
  bool repeat(std::size_t length) {
    if (from_.size() - at_ < 2) return false;
    const std::size_t distance = from_[at_] | std::size_t{from_[at_ + 1]} << 8;
    at_ += 2;
    if (!extend(&length)) return false;
    length += 4;
    if (distance == 0 || distance > out_.size() || bytes_ - out_.size() < length) return false;
    for (std::size_t i = 0; i < length; ++i) out_.push_back(out_[out_.size() - distance]);
    return true;
  }

  Bytes8 from_;
  std::size_t bytes_, at_ = 0;
  std::string out_;
};

std::optional<std::string> plain(const Entry& entry, Bytes8 payload) {
  if ((entry.flags & (kLz4 | kZstd)) == 0)
    return std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
  if (entry.compressed_bytes > payload.size() || entry.plain_bytes > kLargestText) return std::nullopt;
  const Bytes8 from = payload.first(entry.compressed_bytes);
  if ((entry.flags & kZstd) == 0) return Lz4(from, entry.plain_bytes).decode();
  std::string out(entry.plain_bytes, '\0');
  if (ZSTD_decompress(out.data(), out.size(), from.data(), from.size()) != out.size()) return std::nullopt;
  return out;
}

bool is_ptx(std::string_view text) {
  const std::size_t version = text.find(".version");
  return version != std::string_view::npos && version < text.find(".entry");
}

// False: it is damaged.
bool read_entry(const Entry& entry, Bytes8 payload, DeviceCode* out) {
  if (entry.kind == kElf) {
    out->compiled.push_back(entry.architecture);
    return true;
  }
  // Other kinds are unknown: for example intermediate code, which a driver may compile.
  if (entry.kind != kPtx) return false;
  std::optional<std::string> text = plain(entry, payload);
  if (!text.has_value()) return false;
  text->resize(std::min(text->size(), text->find('\0')));
  if (!is_ptx(*text)) return false;
  out->texts.emplace_back(entry.architecture, std::move(*text));
  return true;
}

bool read_container(const unsigned char* data, DeviceCode* out) {
  Container header{};
  std::memcpy(&header, data, sizeof header);
  if (header.header_bytes < sizeof header || header.bytes > kLargestText * 16) return false;
  const Bytes8 body(data + header.header_bytes, header.bytes);
  for (std::uint64_t at = 0; at < body.size();) {
    Entry entry{};
    if (body.size() - at < sizeof entry) return false;
    std::memcpy(&entry, body.data() + at, sizeof entry);
    const std::uint64_t left = body.size() - at;
    if (entry.header_bytes < sizeof entry || entry.header_bytes > left || entry.bytes > left - entry.header_bytes)
      return false;
    if (!read_entry(entry, body.subspan(at + entry.header_bytes, entry.bytes), out)) return false;
    at += entry.header_bytes + entry.bytes;
  }
  return true;
}

}  // namespace

bool DeviceCode::is_made_from_texts() const {
  if (!is_whole || texts.empty()) return false;
  return std::ranges::all_of(compiled, [this](unsigned architecture) {
    return std::ranges::any_of(texts, [&](const Text& text) { return text.architecture == architecture; });
  });
}

DeviceCode read_device_code(const void* image) {
  DeviceCode code;
  if (image == nullptr) return code;
  std::uint32_t magic = 0;
  // The shortest PTX that the driver loads is longer.
  std::memcpy(&magic, image, sizeof magic);
  if (magic == kWrapperMagic) {
    Wrapper wrapper{};
    std::memcpy(&wrapper, image, sizeof wrapper);
    if (wrapper.version != 1 || wrapper.data == nullptr) return code;
    image = wrapper.data;
    std::memcpy(&magic, image, sizeof magic);
  }
  if (magic == kContainerMagic) {
    code.is_whole = read_container(static_cast<const unsigned char*>(image), &code);
    return code;
  }
  // The image contains machine code only.
  if (magic == kElfMagic) return code;
  std::string text(static_cast<const char*>(image));
  if (!is_ptx(text)) return code;
  code.texts.emplace_back(0, std::move(text));
  code.is_whole = true;
  return code;
}

std::vector<unsigned char> copy_of_device_code(const void* image, std::size_t most) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  std::size_t bytes = sizeof magic;
  if (magic == kContainerMagic) {
    Container header{};
    std::memcpy(&header, image, sizeof header);
    if (header.bytes > most) return {};
    bytes = header.header_bytes + header.bytes;
  } else if (magic != kElfMagic) {
    bytes = std::strlen(static_cast<const char*>(image)) + 1;
  }
  if (bytes > most) return {};
  const auto* const from = static_cast<const unsigned char*>(image);
  return {from, from + bytes};
}

std::vector<DeviceCode> read_device_codes(std::span<const unsigned char> bytes) {
  constexpr std::size_t kAlignment = 8;
  std::vector<DeviceCode> all;
  for (std::size_t at = 0; bytes.size() - at >= sizeof(Container);) {
    Container header{};
    std::memcpy(&header, bytes.data() + at, sizeof header);
    const std::size_t left = bytes.size() - at;
    if (header.magic != kContainerMagic || header.header_bytes < sizeof header || header.header_bytes > left ||
        header.bytes > left - header.header_bytes)
      break;
    DeviceCode code;
    code.is_whole = read_container(bytes.data() + at, &code);
    all.push_back(std::move(code));
    at += header.header_bytes + header.bytes;
    at = std::min(bytes.size(), (at + kAlignment - 1) / kAlignment * kAlignment);
  }
  std::string text(reinterpret_cast<const char*>(bytes.data()), all.empty() ? bytes.size() : 0);
  text.resize(std::min(text.size(), text.find('\0')));
  if (!is_ptx(text)) return all;
  DeviceCode code;
  code.texts.emplace_back(0, std::move(text));
  code.is_whole = true;
  all.push_back(std::move(code));
  return all;
}

}  // namespace thermocline
