// SPDX-License-Identifier: Apache-2.0
#include "simulator/image/fatbin.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "simulator/image/cubin.h"
#include "simulator/image/decompress.h"
#include "simulator/image/ptx.h"

namespace simulator {
namespace {

struct Wrapper {
  std::uint32_t magic;
  std::uint32_t version;  // 1, or 2 for linked code
  const void* data;
  const void* others;
};

struct Container {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t bytes;  // after the header
};

constexpr std::uint32_t kLinkedVersion = 2;

// The beginning of every entry's header; unused fields have no name.
struct Entry {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;             // after the header, with padding
  std::uint32_t compressed_bytes;  // without padding
  std::uint32_t unused_1;
  std::uint32_t unused_2;
  std::uint32_t architecture;
  std::uint64_t unused_3;
  std::uint64_t flags;
  std::uint64_t unused_4;
  std::uint64_t plain_bytes;
};
static_assert(sizeof(Container) == 16 && sizeof(Entry) == 64);

constexpr std::uint16_t kKindPtx = 1;
constexpr std::uint16_t kKindElf = 2;
constexpr std::uint64_t kFlagLz4 = 0x2000;
constexpr std::uint64_t kFlagZstd = 0x8000;

std::optional<std::vector<std::byte>> plain(const Entry& entry, ByteSpan payload) {
  if ((entry.flags & (kFlagLz4 | kFlagZstd)) == 0) return std::vector<std::byte>(payload.begin(), payload.end());
  const auto compressed = slice(payload, 0, entry.compressed_bytes);
  if (!compressed) return std::nullopt;
  return (entry.flags & kFlagZstd) != 0 ? decompress_zstd(*compressed, entry.plain_bytes)
                                        : decompress_lz4(*compressed, entry.plain_bytes);
}

// Empty if the bytes are not PTX.
std::string text_of(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text = text.substr(0, text.find('\0'));
  return is_ptx(text) ? std::string(text) : std::string();
}

ImageResult read_entry(const Entry& entry, ByteSpan payload, Image* out) {
  const auto bytes = plain(entry, payload);
  if (!bytes) return {ImageError::kInvalid, "an entry of the fat binary does not decompress"};
  if (entry.kind == kKindElf) {
    if (!is_cubin(*bytes)) return {ImageError::kInvalid, "an entry of the fat binary is no cubin"};
    return read_cubin(*bytes, out);
  }
  const std::string text = text_of(*bytes);
  if (text.empty()) return {ImageError::kInvalid, "an entry of the fat binary is no PTX"};
  return read_ptx(text, out);
}

bool same_layout(const ImageKernel& a, const ImageKernel& b) {
  const auto same = [](const ImageParameter& x, const ImageParameter& y) {
    return x.offset == y.offset && x.size == y.size;
  };
  return a.name == b.name && a.reads.size() == b.reads.size() &&
         std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(), same);
}

}  // namespace

const void* unwrap_fatbin(const void* wrapper) {
  Wrapper fields;
  std::memcpy(&fields, wrapper, sizeof fields);
  return fields.version == 1 || fields.version == kLinkedVersion ? fields.data : nullptr;
}

std::vector<const void*> linked_fatbins(const void* wrapper) {
  Wrapper fields;
  std::memcpy(&fields, wrapper, sizeof fields);
  std::vector<const void*> found;
  if (fields.version != kLinkedVersion || fields.others == nullptr) return found;
  for (const auto* at = static_cast<const void* const*>(fields.others); *at != nullptr; ++at) found.push_back(*at);
  return found;
}

std::optional<std::uint64_t> fatbin_bytes(const void* data) {
  Container header;
  std::memcpy(&header, data, sizeof header);
  if (header.header_bytes < sizeof header || header.bytes > kLargestImage) return std::nullopt;
  return header.header_bytes + header.bytes;
}

// A cubin does not show which parameters its kernels load, and its code can not be run here. The PTX that it was made
// from does and can, and may define variables of its own (format strings of printf).
void take_text(Image text, Image* cubin) {
  place_parameters(cubin->architecture, &text);
  cubin->text = text.text;
  cubin->functions = text.functions;
  std::map<std::string_view, const ImageVariable*> variables;
  for (const ImageVariable& variable : text.variables) variables[variable.name] = &variable;
  for (ImageVariable& variable : cubin->variables) {
    const auto found = variables.find(variable.name);
    if (found == variables.end()) continue;
    // Pointers to functions refer to those of the PTX.
    if (!found->second->addresses.empty() && found->second->bytes == variable.bytes) {
      variable.contents = found->second->contents;
      variable.addresses = found->second->addresses;
    }
    variables.erase(found);
  }
  for (const ImageVariable& variable : text.variables) {
    if (variables.contains(variable.name)) cubin->variables.push_back(variable);
  }
  std::map<std::string_view, const ImageKernel*> kernels;
  for (const ImageKernel& kernel : text.kernels) kernels[kernel.name] = &kernel;
  for (ImageKernel& kernel : cubin->kernels) {
    const auto found = kernels.find(kernel.name);
    if (found != kernels.end() && same_layout(*found->second, kernel)) kernel.reads = found->second->reads;
  }
}

namespace {

struct Part {
  Entry entry;
  ByteSpan payload;
};

// Nothing if the container is damaged.
std::optional<std::vector<Part>> parts_of(ByteSpan data) {
  const auto header = read_at<Container>(data, 0);
  if (!header || header->magic != kFatbinMagic || header->header_bytes < sizeof *header) return std::nullopt;
  const auto body = slice(data, header->header_bytes, header->bytes);
  if (!body) return std::nullopt;
  std::vector<Part> parts;
  for (std::uint64_t at = 0; at < body->size();) {
    const auto entry = read_at<Entry>(*body, at);
    if (!entry || entry->header_bytes < sizeof *entry) return std::nullopt;
    const auto whole = slice(*body, at, entry->header_bytes);
    const auto payload = whole ? slice(*body, at + entry->header_bytes, entry->bytes) : std::nullopt;
    if (!payload) return std::nullopt;
    parts.push_back({*entry, *payload});
    at += entry->header_bytes + entry->bytes;
  }
  return parts;
}

}  // namespace

std::optional<std::string> text_of_fatbin(ByteSpan data) {
  const auto parts = parts_of(data);
  if (!parts) return std::nullopt;
  for (const Part& part : *parts) {
    if (part.entry.kind != kKindPtx) continue;
    const auto bytes = plain(part.entry, part.payload);
    if (!bytes) continue;
    if (std::string text = text_of(*bytes); !text.empty()) return text;
  }
  return std::nullopt;
}

ImageResult read_fatbin(ByteSpan data, Image* out) {
  const auto parts = parts_of(data);
  if (!parts) return {ImageError::kInvalid, "the fat binary is damaged"};

  // Uses the first entry that can be read; if that is a cubin, also the first PTX.
  ImageResult last{ImageError::kNoBinary, "the fat binary holds neither PTX nor a cubin"};
  bool has_cubin = false;
  for (const Part& part : *parts) {
    if (part.entry.kind != kKindPtx && (part.entry.kind != kKindElf || has_cubin)) continue;
    Image image;
    const ImageResult result = read_entry(part.entry, part.payload, &image);
    if (!has_cubin) last = result;
    if (result.ok() && has_cubin) {
      take_text(std::move(image), out);
      return last;
    }
    if (result.ok()) {
      *out = std::move(image);
      if (out->is_ptx) return last;
      has_cubin = true;
    }
  }
  return last;
}

}  // namespace simulator
