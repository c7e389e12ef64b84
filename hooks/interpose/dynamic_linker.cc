// SPDX-License-Identifier: Apache-2.0
#include "hooks/interpose/dynamic_linker.h"

#include <dlfcn.h>
#include <elf.h>
#include <gnu/libc-version.h>
#include <link.h>

#include <atomic>
#include <cstddef>

// Read by the entry stubs (dlsym_x86_64.S).
extern "C" {
__attribute__((visibility("hidden"))) std::atomic<void*> thermocline_next_dlsym{nullptr};
__attribute__((visibility("hidden"))) std::atomic<void*> thermocline_next_dlvsym{nullptr};
__attribute__((visibility("hidden"))) void thermocline_find_next();
}

namespace thermocline {
namespace {

// The needed parts of an object's dynamic section (System V gABI, "Dynamic Linking"; the hash tables as in glibc).
struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const std::uint32_t* hash = nullptr;
};

bool contains(const dl_phdr_info& object, const void* code) {
  const auto at = reinterpret_cast<std::uintptr_t>(code);
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    const std::uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && at - begin < segment.p_memsz) return true;
  }
  return false;
}

const ElfW(Dyn) * dynamic_section_of(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      return reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    }
  }
  return nullptr;
}

Tables tables_of(const ElfW(Dyn) * dynamic, ElfW(Addr) base) {
  Tables tables;
  for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
    // glibc has relocated these pointers, except in objects whose section is read-only (the vdso).
    std::uintptr_t at = dynamic->d_un.d_ptr;
    if (at < base) at += base;
    if (dynamic->d_tag == DT_SYMTAB) tables.symbols = reinterpret_cast<const ElfW(Sym)*>(at);
    if (dynamic->d_tag == DT_STRTAB) tables.strings = reinterpret_cast<const char*>(at);
    if (dynamic->d_tag == DT_GNU_HASH) tables.gnu_hash = reinterpret_cast<const std::uint32_t*>(at);
    if (dynamic->d_tag == DT_HASH) tables.hash = reinterpret_cast<const std::uint32_t*>(at);
  }
  return tables;
}

// Not strcmp: a sanitizer's run time looks up symbols here before its own strcmp can be called.
bool same_text(const char* a, const char* b) {
  for (; *a != '\0' && *a == *b; ++a, ++b) {
  }
  return *a == *b;
}

bool defines(const Tables& tables, std::uint32_t index, const char* name) {
  const ElfW(Sym)& symbol = tables.symbols[index];
  return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
         same_text(tables.strings + symbol.st_name, name);
}

std::uint32_t gnu_hash_of(const char* name) {
  std::uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

// Index of the symbol, or 0. The bloom filter is skipped: this runs only a few times in a process.
std::uint32_t find_by_gnu_hash(const Tables& tables, const char* name) {
  const std::uint32_t buckets = tables.gnu_hash[0];
  const std::uint32_t first = tables.gnu_hash[1];
  const std::uint32_t bloom_words = tables.gnu_hash[2];
  if (buckets == 0) return 0;
  const std::uint32_t* bucket = tables.gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
  const std::uint32_t* chain = bucket + buckets;
  const std::uint32_t wanted = gnu_hash_of(name);
  std::uint32_t index = bucket[wanted % buckets];
  if (index < first) return 0;
  for (;; ++index) {
    const std::uint32_t hash = chain[index - first];
    if ((hash | 1) == (wanted | 1) && defines(tables, index, name)) return index;
    if ((hash & 1) != 0) return 0;
  }
}

void* definition_in(const ElfW(Dyn) * dynamic, ElfW(Addr) base, const char* name) {
  const Tables tables = tables_of(dynamic, base);
  if (tables.symbols == nullptr || tables.strings == nullptr) return nullptr;
  std::uint32_t index = 0;
  if (tables.gnu_hash != nullptr) {
    index = find_by_gnu_hash(tables, name);
  } else if (tables.hash != nullptr) {
    const std::uint32_t count = tables.hash[1];
    for (std::uint32_t i = 1; i < count && index == 0; ++i) index = defines(tables, i, name) ? i : 0;
  }
  return index == 0 ? nullptr : reinterpret_cast<void*>(base + tables.symbols[index].st_value);
}

void* definition_in(const dl_phdr_info& object, const char* name) {
  return definition_in(dynamic_section_of(object), object.dlpi_addr, name);
}

using Iterate = decltype(&dl_iterate_phdr);
std::atomic<Iterate> libc_iterate{nullptr};

// glibc's own dl_iterate_phdr. The thread sanitizer's run time interposes it, and looks up symbols here before its own
// version can be called.
Iterate iterate_objects() {
  Iterate iterate = libc_iterate.load(std::memory_order_relaxed);
  if (iterate != nullptr) return iterate;
  Dl_info info{};
  void* libc = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(&gnu_get_libc_version), &info, &libc, RTLD_DL_LINKMAP) != 0) {
    const auto* map = static_cast<const link_map*>(libc);
    iterate = reinterpret_cast<Iterate>(definition_in(map->l_ld, map->l_addr, "dl_iterate_phdr"));
  }
  if (iterate == nullptr) iterate = &dl_iterate_phdr;
  libc_iterate.store(iterate, std::memory_order_relaxed);
  return iterate;
}

struct Search {
  const char* name;
  bool passed_us = false;
  void* before = nullptr;  // the first definition in an object before this library
  void* behind = nullptr;
};

int visit_for_definition(dl_phdr_info* object, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  if (contains(*object, reinterpret_cast<const void*>(&thermocline_find_next))) {
    search.passed_us = true;
    return 0;
  }
  if (!search.passed_us && search.before != nullptr) return 0;
  void* found = definition_in(*object, search.name);
  if (found == nullptr) return 0;
  if (!search.passed_us) {
    search.before = found;
    return 0;
  }
  search.behind = found;
  return 1;
}

struct Order {
  const void* code;
  const char* name;
  LoadOrder place = LoadOrder::kBehindUs;
};

int visit_for_order(dl_phdr_info* object, std::size_t, void* data) {
  auto& order = *static_cast<Order*>(data);
  if (contains(*object, reinterpret_cast<const void*>(&thermocline_find_next))) return 1;
  if (order.place == LoadOrder::kBehindUs) {
    if (contains(*object, order.code)) order.place = LoadOrder::kBeforeUs;
    return 0;
  }
  if (definition_in(*object, order.name) == nullptr) return 0;
  order.place = LoadOrder::kBeforeUsAndAnotherBetween;
  return 1;
}

// If this library was opened late (dlopen), all other objects come before it.
void* search_from_us(const char* name, bool also_before) {
  Search search{.name = name};
  iterate_objects()(visit_for_definition, &search);
  return search.behind == nullptr && also_before ? search.before : search.behind;
}

}  // namespace

void* next_definition(const char* name) { return search_from_us(name, false); }

LoadOrder place_of(const void* code, const char* name) {
  Order order{.code = code, .name = name};
  iterate_objects()(visit_for_order, &order);
  return order.place;
}

DlsymFunction next_dlsym() {
  if (thermocline_next_dlsym.load(std::memory_order_acquire) == nullptr) thermocline_find_next();
  return reinterpret_cast<DlsymFunction>(thermocline_next_dlsym.load(std::memory_order_acquire));
}

DlvsymFunction next_dlvsym() {
  if (thermocline_next_dlvsym.load(std::memory_order_acquire) == nullptr) thermocline_find_next();
  return reinterpret_cast<DlvsymFunction>(thermocline_next_dlvsym.load(std::memory_order_acquire));
}

}  // namespace thermocline

void thermocline_find_next() {
  thermocline_next_dlvsym.store(thermocline::search_from_us("dlvsym", true), std::memory_order_release);
  thermocline_next_dlsym.store(thermocline::search_from_us("dlsym", true), std::memory_order_release);
}
