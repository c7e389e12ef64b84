// SPDX-License-Identifier: Apache-2.0
#include "simulator/image/cubin.h"

#include <elf.h>

#include <algorithm>
#include <map>
#include <string>

#include "simulator/image/decompress.h"

namespace simulator {
namespace {

constexpr unsigned kMachineCuda = 190;
// st_other of CUDA symbols, as nvcc 13.0 writes them.
constexpr unsigned kOtherEntry = 0x10;
constexpr unsigned kOtherManaged = 0x04;
// From this ABI version on, the second byte of e_flags is the architecture.
constexpr unsigned kAbiWithArchitecture = 8;
constexpr std::uint64_t kReservedShared = 1024;
// Attributes of .nv.info: {format, attribute, 16 bits}; with format 4, that many bytes of data follow; otherwise none.
constexpr unsigned kFormatSized = 4;
constexpr unsigned kMaxThreads = 0x05;
constexpr unsigned kRequiredThreads = 0x10;
constexpr unsigned kParameter = 0x17;
constexpr unsigned kParameterBytes = 0x19;
constexpr unsigned kRegisters = 0x2f;
constexpr unsigned kLongParameter = 0x45;  // replaces kParameter if all parameters together exceed 4 KiB

struct Section {
  Elf64_Shdr header{};
  std::string name;
  ByteSpan data;  // empty if there is none (SHT_NOBITS)
};

struct Symbol {
  Elf64_Sym symbol{};
  std::string name;
};

class Cubin {
 public:
  explicit Cubin(ByteSpan data) : data_(data) {}

  // False: the file is damaged.
  bool open() {
    const auto header = read_at<Elf64_Ehdr>(data_, 0);
    if (!header || header->e_shentsize != sizeof(Elf64_Shdr)) return false;
    for (unsigned i = 0; i < header->e_shnum; ++i) {
      const auto section = read_at<Elf64_Shdr>(data_, header->e_shoff + std::uint64_t{i} * sizeof(Elf64_Shdr));
      if (!section || header->e_shoff > data_.size()) return false;
      ByteSpan contents;
      if (section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL) {
        const auto found = slice(data_, section->sh_offset, section->sh_size);
        if (!found) return false;
        contents = *found;
      }
      sections_.push_back({*section, "", contents});
    }
    if (header->e_shstrndx >= sections_.size()) return false;
    const bool is_new = header->e_ident[EI_ABIVERSION] >= kAbiWithArchitecture;
    architecture_ = (is_new ? header->e_flags >> 8 : header->e_flags) & 0xff;
    if (is_new && architecture_ >= 90) reserved_shared_ = kReservedShared;
    const ByteSpan names = sections_[header->e_shstrndx].data;
    for (Section& section : sections_) {
      const auto name = text_at(names, section.header.sh_name);
      if (!name) return false;
      section.name = *name;
    }
    return read_symbols();
  }

  bool read(Image* out) const {
    out->architecture = architecture_;
    const std::map<unsigned, unsigned> registers = read_registers();
    for (unsigned i = 0; i < symbols_.size(); ++i) {
      const Symbol& symbol = symbols_[i];
      const unsigned type = ELF64_ST_TYPE(symbol.symbol.st_info);
      if (symbol.symbol.st_shndx == SHN_UNDEF || symbol.symbol.st_shndx >= sections_.size()) continue;
      if (type == STT_FUNC && (symbol.symbol.st_other & kOtherEntry) != 0) {
        ImageKernel kernel;
        if (!read_kernel(symbol.name, &kernel)) return false;
        const auto found = registers.find(i);
        if (found != registers.end()) kernel.registers = found->second;
        out->kernels.push_back(std::move(kernel));
      } else if (type == STT_OBJECT && !read_variable(symbol, out)) {
        return false;
      }
    }
    return true;
  }

 private:
  const Section* find(const std::string& name) const {
    const auto found =
        std::find_if(sections_.begin(), sections_.end(), [&](const Section& s) { return s.name == name; });
    return found == sections_.end() ? nullptr : &*found;
  }

  bool read_symbols() {
    const auto table = std::find_if(sections_.begin(), sections_.end(),
                                    [](const Section& s) { return s.header.sh_type == SHT_SYMTAB; });
    if (table == sections_.end()) return true;
    if (table->header.sh_link >= sections_.size()) return false;
    const ByteSpan names = sections_[table->header.sh_link].data;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->data.size(); at += sizeof(Elf64_Sym)) {
      const auto symbol = read_at<Elf64_Sym>(table->data, at);
      const auto name = text_at(names, symbol->st_name);
      if (!name) return false;
      symbols_.push_back({*symbol, std::string(*name)});
    }
    return true;
  }

  // Calls visit(attribute, 16-bit value, data) for each attribute. False: damaged.
  template <typename Visit>
  static bool for_each_attribute(ByteSpan info, Visit visit) {
    for (std::uint64_t at = 0; at < info.size();) {
      const auto format = read_at<std::uint8_t>(info, at);
      const auto attribute = read_at<std::uint8_t>(info, at + 1);
      const auto value = read_at<std::uint16_t>(info, at + 2);
      if (!format || !attribute || !value) return false;
      at += 4;
      const auto data = slice(info, at, *format == kFormatSized ? *value : 0);
      if (!data || !visit(*attribute, *value, *data)) return false;
      at += data->size();
    }
    return true;
  }

  // By symbol index: registers per thread.
  std::map<unsigned, unsigned> read_registers() const {
    std::map<unsigned, unsigned> result;
    const Section* info = find(".nv.info");
    if (info == nullptr) return result;
    for_each_attribute(info->data, [&](unsigned attribute, unsigned, ByteSpan data) {
      const auto symbol = read_at<std::uint32_t>(data, 0);
      const auto count = read_at<std::uint32_t>(data, 4);
      if (attribute == kRegisters && symbol && count) result[*symbol] = *count;
      return true;
    });
    return result;
  }

  static bool read_parameter(unsigned attribute, ByteSpan data, std::map<unsigned, ImageParameter>* parameters) {
    const auto ordinal = read_at<std::uint16_t>(data, 4);
    const auto offset = read_at<std::uint16_t>(data, 6);
    const auto word = read_at<std::uint32_t>(data, 8);
    if (!ordinal || !offset || !word) return false;
    const std::uint32_t size = attribute == kParameter ? *word >> 18 : *word & 0xffff;
    (*parameters)[*ordinal] = {*offset, size};
    return true;
  }

  static std::uint32_t threads(ByteSpan data) {
    std::uint64_t product = 1;
    for (std::uint64_t i = 0; i < 3; ++i)
      product *= std::min<std::uint64_t>(read_at<std::uint32_t>(data, 4 * i).value_or(1), 1024);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(product, 1024));
  }

  bool read_kernel(const std::string& name, ImageKernel* kernel) const {
    kernel->name = name;
    if (const Section* shared = find(".nv.shared." + name)) {
      const std::uint64_t bytes = std::min<std::uint64_t>(shared->header.sh_size, UINT32_MAX);
      kernel->shared_bytes = static_cast<std::uint32_t>(bytes - std::min(bytes, reserved_shared_));
    }
    const Section* info = find(".nv.info." + name);
    if (info == nullptr) return true;
    std::map<unsigned, ImageParameter> parameters;
    const bool whole = for_each_attribute(info->data, [&](unsigned attribute, unsigned value, ByteSpan data) {
      if (attribute == kParameter || attribute == kLongParameter) return read_parameter(attribute, data, &parameters);
      if (attribute == kParameterBytes) kernel->parameter_bytes = value;
      if (attribute == kMaxThreads || attribute == kRequiredThreads) kernel->max_threads = threads(data);
      return true;
    });
    if (!whole) return false;
    for (const auto& [ordinal, parameter] : parameters) {
      if (ordinal != kernel->parameters.size()) return false;
      kernel->parameters.push_back(parameter);
      kernel->parameter_bytes = std::max(kernel->parameter_bytes, parameter.offset + parameter.size);
    }
    kernel->reads = guess_reads(*kernel);
    return true;
  }

  // A cubin has no types. A parameter with the size of a number is assumed to be one; a parameter of one byte is
  // usually an empty structure.
  static std::vector<ParameterByte> guess_reads(const ImageKernel& kernel) {
    std::vector<ParameterByte> reads(kernel.parameter_bytes, ParameterByte::kUnread);
    for (const ImageParameter& parameter : kernel.parameters) {
      const bool is_number = parameter.size == 2 || parameter.size == 4 || parameter.size == 8;
      for (std::uint32_t i = 0; i < parameter.size; ++i)
        reads[parameter.offset + i] = is_number ? ParameterByte::kRead : ParameterByte::kUnknown;
    }
    return reads;
  }

  bool read_variable(const Symbol& symbol, Image* out) const {
    const Section& section = sections_[symbol.symbol.st_shndx];
    const bool constant = section.name.starts_with(".nv.constant3");
    if (!constant && section.name != ".nv.global" && section.name != ".nv.global.init") return true;
    const std::uint64_t begin = symbol.symbol.st_value;
    const std::uint64_t bytes = symbol.symbol.st_size;
    if (begin > section.header.sh_size || section.header.sh_size - begin < bytes || bytes > kLargestImage * 8)
      return false;
    ImageVariable variable;
    variable.name = symbol.name;
    variable.bytes = bytes;
    variable.alignment = std::clamp<std::uint64_t>(section.header.sh_addralign, 1, 256);
    variable.constant = constant;
    variable.managed = (symbol.symbol.st_other & kOtherManaged) != 0;
    if (const auto contents = slice(section.data, begin, bytes); contents && section.header.sh_type != SHT_NOBITS) {
      variable.contents.assign(contents->begin(), contents->end());
      read_addresses(section, begin, &variable);
    }
    out->variables.push_back(std::move(variable));
    return true;
  }

  // Finds relocations in [begin, begin + variable's bytes) of `section` that store the address of another symbol. Those
  // without an addend of their own (.rel) add to the existing contents.
  void read_addresses(const Section& section, std::uint64_t begin, ImageVariable* variable) const {
    if (const Section* table = find(".rela" + section.name)) {
      for (std::uint64_t at = 0; at + sizeof(Elf64_Rela) <= table->data.size(); at += sizeof(Elf64_Rela)) {
        const auto relocation = read_at<Elf64_Rela>(table->data, at);
        add_address(relocation->r_offset - begin, relocation->r_info, relocation->r_addend, variable);
      }
    }
    if (const Section* table = find(".rel" + section.name)) {
      for (std::uint64_t at = 0; at + sizeof(Elf64_Rel) <= table->data.size(); at += sizeof(Elf64_Rel)) {
        const auto relocation = read_at<Elf64_Rel>(table->data, at);
        const std::uint64_t offset = relocation->r_offset - begin;
        add_address(offset, relocation->r_info, read_at<std::int64_t>(variable->contents, offset).value_or(0),
                    variable);
      }
    }
  }

  // If the offset is before the variable, the difference has wrapped around and is too large.
  void add_address(std::uint64_t offset, std::uint64_t info, std::int64_t addend, ImageVariable* variable) const {
    const std::uint64_t symbol = ELF64_R_SYM(info);
    if (symbol >= symbols_.size() || offset >= variable->bytes || variable->bytes - offset < 8) return;
    variable->addresses.push_back({offset, symbols_[symbol].name, addend});
  }

  ByteSpan data_;
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
  std::uint32_t architecture_ = 0;
  std::uint64_t reserved_shared_ = 0;  // included in the sections' shared memory, but not used by the kernel
};

}  // namespace

bool is_cubin(ByteSpan data) {
  const auto header = read_at<Elf64_Ehdr>(data, 0);
  return header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_ident[EI_CLASS] == ELFCLASS64 &&
         header->e_machine == kMachineCuda;
}

std::optional<std::uint64_t> cubin_bytes(const void* data) {
  Elf64_Ehdr header;
  std::memcpy(&header, data, sizeof header);
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff > kLargestImage) return std::nullopt;
  const std::uint64_t table_end = header.e_shoff + std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  std::uint64_t end = std::max<std::uint64_t>(sizeof header, table_end);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, static_cast<const std::byte*>(data) + header.e_shoff + std::uint64_t{i} * sizeof section,
                sizeof section);
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
    if (section.sh_offset > kLargestImage || section.sh_size > kLargestImage) return std::nullopt;
    end = std::max(end, section.sh_offset + section.sh_size);
  }
  return end;
}

ImageResult read_cubin(ByteSpan data, Image* out) {
  Cubin cubin(data);
  if (!cubin.open() || !cubin.read(out))
    return {ImageError::kInvalid, "the cubin is damaged or not of a kind that is known"};
  return {};
}

}  // namespace simulator
