// SPDX-License-Identifier: Apache-2.0
#include "hooks/interpose/bypass.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <string_view>

#include "hooks/interpose/dynamic_linker.h"
#include "hooks/interpose/symbols.h"

namespace thermocline {
namespace {

constexpr std::size_t kMostNamed = 8;

struct References {
  const ElfW(Rela) * begin = nullptr;
  std::size_t count = 0;
};

// The needed parts of an object's dynamic section (System V gABI, "Dynamic Linking").
struct Object {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  References calls, data;
  std::size_t relative = 0;  // number of relocations at the beginning of `data` that name no symbol
};

std::uintptr_t placed(const dl_phdr_info& info, std::uintptr_t at) {
  return at < info.dlpi_addr ? at + info.dlpi_addr : at;
}

Object read(const dl_phdr_info& info, const ElfW(Dyn) * dynamic) {
  Object object;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const std::uintptr_t at = placed(info, dynamic->d_un.d_ptr);
    const std::size_t value = dynamic->d_un.d_val;
    switch (dynamic->d_tag) {
      case DT_SYMTAB:
        object.symbols = reinterpret_cast<const ElfW(Sym)*>(at);
        break;
      case DT_STRTAB:
        object.strings = reinterpret_cast<const char*>(at);
        break;
      case DT_JMPREL:
        object.calls.begin = reinterpret_cast<const ElfW(Rela)*>(at);
        break;
      case DT_PLTRELSZ:
        object.calls.count = value / sizeof(ElfW(Rela));
        break;
      case DT_RELA:
        object.data.begin = reinterpret_cast<const ElfW(Rela)*>(at);
        break;
      case DT_RELASZ:
        object.data.count = value / sizeof(ElfW(Rela));
        break;
      case DT_RELACOUNT:
        object.relative = value;
        break;
      default:
        break;
    }
  }
  return object;
}

struct Facts {
  bool calls_driver = false;
  bool looks_up = false;
};

// Examines one relocation: the address it resolves to, if the dynamic linker has filled it in.
void look(const dl_phdr_info& info, const Object& object, const ElfW(Rela) & reference, Facts* facts) {
  const auto type = ELF64_R_TYPE(reference.r_info);
  if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) return;
  const std::string_view name = object.strings + object.symbols[ELF64_R_SYM(reference.r_info)].st_name;
  const bool searches = name == "dlsym";
  if (!searches && !name.starts_with("cu")) return;
  const void* leads_to = nullptr;
  std::memcpy(&leads_to, reinterpret_cast<const void*>(info.dlpi_addr + reference.r_offset), sizeof leads_to);
  if (searches) {
    facts->looks_up |= leads_to != nullptr && leads_to == reinterpret_cast<const void*>(next_dlsym());
  } else if (const int index = find_hooked(name); index >= 0) {
    const void* const driver = real_address(static_cast<Function>(index));
    facts->calls_driver |= driver != nullptr && leads_to == driver;
  }
}

// A static CUDA runtime contains the driver's name, and so does every library that opens the driver itself.
bool names_driver(const dl_phdr_info& info) {
  constexpr std::string_view kName = "libcuda.so";
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_R) == 0) continue;
    const auto* const begin = reinterpret_cast<const char*>(info.dlpi_addr + segment.p_vaddr);
    if (memmem(begin, segment.p_filesz, kName.data(), kName.size()) != nullptr) return true;
  }
  return false;
}

// The driver's own libraries, and system libraries.
bool is_of_the_system(std::string_view file) {
  for (const std::string_view name : {"libcuda.", "libcudadebugger.", "libnvidia-", "ld-linux", "libc.so", "libdl.so",
                                      "linux-vdso", "libthermocline.", "libasan.", "libtsan.", "libubsan."}) {
    if (file.starts_with(name)) return true;
  }
  return false;
}

int visit(dl_phdr_info* info, std::size_t, void* data) {
  auto& found = *static_cast<std::vector<PastUs>*>(data);
  const char* const slash = std::strrchr(info->dlpi_name, '/');
  const std::string_view file = slash == nullptr ? info->dlpi_name : slash + 1;
  if (is_of_the_system(file)) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const Object object = read(*info, reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
    if (object.symbols == nullptr || object.strings == nullptr) return 0;
    Facts facts;
    for (std::size_t k = 0; k < object.calls.count; ++k) look(*info, object, object.calls.begin[k], &facts);
    for (std::size_t k = object.relative; k < object.data.count; ++k) look(*info, object, object.data.begin[k], &facts);
    if (facts.calls_driver || (facts.looks_up && names_driver(*info))) {
      found.push_back({std::string(file.empty() ? "the program" : file), !facts.calls_driver});
    }
  }
  return 0;
}

}  // namespace

std::vector<PastUs> bypassing_libraries() {
  std::vector<PastUs> found;
  if (driver_is_loaded()) dl_iterate_phdr(visit, &found);
  return found;
}

std::string bypass_text(const std::vector<PastUs>& objects) {
  std::string text;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i == kMostNamed) return text + " and " + std::to_string(objects.size() - i) + " more";
    text += (i == 0 ? "" : ", ") + objects[i].object;
    text += objects[i].looks_up ? " (by a dlsym that is not ours)" : " (linked with the driver)";
  }
  return text;
}

}  // namespace thermocline
