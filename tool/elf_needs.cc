// SPDX-License-Identifier: Apache-2.0
// System V ABI, ELF-64 object file format; the section names of nvcc's fat binaries as shown by readelf.
#include "tool/elf_needs.h"

#include <elf.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

namespace thermocline {
namespace {

constexpr std::string_view kDeviceCode = ".nv_fatbin";

// Checks every offset before reading: the file may contain anything.
class Image {
 public:
  explicit Image(std::string data) : data_(std::move(data)) {}

  template <typename T>
  bool read(std::size_t offset, T* out) const {
    if (offset > data_.size() || data_.size() - offset < sizeof(T)) return false;
    std::memcpy(out, data_.data() + offset, sizeof(T));
    return true;
  }

  // The bytes from `offset` on, or "" where they end behind the file.
  std::string bytes(std::size_t offset, std::size_t count) const {
    return offset > data_.size() || count > data_.size() - offset ? "" : data_.substr(offset, count);
  }

  // The string that begins at `offset`, up to its terminating zero byte.
  std::string_view text(std::size_t offset) const {
    if (offset >= data_.size()) return {};
    const std::string_view rest = std::string_view(data_).substr(offset);
    return rest.substr(0, rest.find('\0'));
  }

 private:
  std::string data_;
};

class Sections {
 public:
  Sections(const Image& image, const Elf64_Ehdr& header) : image_(image), header_(header) {}

  bool get(std::size_t i, Elf64_Shdr* out) const {
    return i < header_.e_shnum && image_.read(header_.e_shoff + i * sizeof(Elf64_Shdr), out);
  }

  std::string_view name(const Elf64_Shdr& section) const {
    Elf64_Shdr names{};
    return get(header_.e_shstrndx, &names) ? image_.text(names.sh_offset + section.sh_name) : std::string_view();
  }

 private:
  const Image& image_;
  const Elf64_Ehdr& header_;
};

void read_dynamic(const Image& image, const Sections& sections, const Elf64_Shdr& dynamic, ElfNeeds* out) {
  Elf64_Shdr strings{};
  if (!sections.get(dynamic.sh_link, &strings)) return;
  for (std::size_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.sh_size; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry{};
    if (!image.read(dynamic.sh_offset + at, &entry) || entry.d_tag == DT_NULL) return;
    if (entry.d_tag == DT_NEEDED) out->libraries.emplace_back(image.text(strings.sh_offset + entry.d_un.d_val));
  }
}

// Nothing: it is not such a file.
std::optional<Image> open_image(const std::string& path, Elf64_Ehdr* header, std::string* reason) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    *reason = std::strerror(errno);
    return std::nullopt;
  }
  Image image(std::string(std::istreambuf_iterator<char>(file), {}));
  if (!image.read(0, header) || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
    *reason = "it is no ELF program (a script is run by its interpreter)";
    return std::nullopt;
  }
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_shentsize != sizeof(Elf64_Shdr)) {
    *reason = "it is no 64-bit ELF program of this kind of machine";
    return std::nullopt;
  }
  return image;
}

}  // namespace

std::optional<ElfNeeds> read_elf_needs(const std::string& path, std::string* reason) {
  Elf64_Ehdr header{};
  const std::optional<Image> opened = open_image(path, &header, reason);
  if (!opened) return std::nullopt;
  const Image& image = *opened;
  ElfNeeds needs{.libraries = {}, .has_device_code = false, .is_static = true};
  const Sections sections(image, header);
  Elf64_Shdr section{};
  for (std::size_t i = 0; sections.get(i, &section); ++i) {
    if (sections.name(section) == kDeviceCode) needs.has_device_code = true;
    if (section.sh_type != SHT_DYNAMIC) continue;
    needs.is_static = false;
    read_dynamic(image, sections, section, &needs);
  }
  return needs;
}

std::optional<std::string> read_device_code_section(const std::string& path, std::string* reason) {
  Elf64_Ehdr header{};
  const std::optional<Image> image = open_image(path, &header, reason);
  if (!image) return std::nullopt;
  const Sections sections(*image, header);
  Elf64_Shdr section{};
  for (std::size_t i = 0; sections.get(i, &section); ++i) {
    if (sections.name(section) == kDeviceCode && section.sh_type != SHT_NOBITS)
      return image->bytes(section.sh_offset, section.sh_size);
  }
  *reason = "it contains no device code (section .nv_fatbin): name the library that does";
  return std::nullopt;
}

}  // namespace thermocline
