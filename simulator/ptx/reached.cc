// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/reached.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "simulator/ptx/context.h"

namespace simulator::ptx {
namespace {

constexpr unsigned kPageBits = 21, kAddressBits = 47;

// One table for the process, because only one kernel runs at a time. It takes real memory only where it is written.
std::uint32_t* own_table() {
  static auto* const table = [] {
    constexpr std::size_t kBytes = sizeof(std::uint32_t) << (kAddressBits - kPageBits);
    void* const at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      std::fprintf(stderr, "simulated device: no address space for a table of 256 MiB\n");
      std::abort();
    }
    return static_cast<std::uint32_t*>(at);
  }();
  return table;
}

// Pages with an entry. A launch that was left by a jump (a fault of the host) has not emptied the table.
std::vector<std::uint64_t>& entries() {
  static auto& all = *new std::vector<std::uint64_t>;
  return all;
}

void empty_table() {
  for (const std::uint64_t page : entries()) own_table()[page] = 0;
  entries().clear();
}

}  // namespace

Reached::Reached(const Launch& launch) : launch_(launch), table_(own_table()) { empty_table(); }
Reached::~Reached() { empty_table(); }

void Reached::add_page(std::uint64_t page, std::uint32_t right) {
  if (launch_.traced != nullptr) recent_[right == kMayWrite ? 1 : 0][page % kRecent] = page + 1;
  const std::lock_guard guard(lock_);
  pages_.emplace(page, right);
  if (launch_.traced != nullptr) return;
  entries().push_back(page);  // perhaps again: a texture has the page, too
  __atomic_fetch_or(&table_[page], right, __ATOMIC_RELAXED);
}

inline bool Reached::is_recent(std::uint64_t page, std::uint32_t right) const {
  return recent_[right == kMayWrite ? 1 : 0][page % kRecent] == page + 1;
}

void Reached::trace(std::uint64_t address, std::uint64_t bytes, std::uint32_t kind) {
  if (launch_.traced == nullptr) return;
  // Memory that malloc() gives to one kernel may be given to the next one, which need not wait for the first.
  if (address - launch_.heap < launch_.heap_bytes) return;
  const bool writes = (kind & kAccessWrites) != 0;
  if ((kind & kAccessIsAtomic) == 0) return trace_.add(address, bytes, writes ? Traced::kWrite : Traced::kRead);
  if (writes) trace_.add(address, bytes, Traced::kAtomic);
}

bool Reached::add(std::uint64_t address, std::uint64_t bytes, std::uint32_t kind) {
  const std::uint32_t right = (kind & kAccessWrites) != 0 ? kMayWrite : kMayRead;
  const std::uint64_t last = address + bytes - 1, first_page = address >> kPageBits, last_page = last >> kPageBits;
  if (!is_recent(first_page, right) || first_page != last_page) {
    if (last < address || last >> kAddressBits != 0) return false;
    for (std::uint64_t page = first_page; page <= last_page; ++page) {
      if ((launch_.pages[page] & right) == 0) return false;
    }
    for (std::uint64_t page = first_page; page <= last_page; ++page) add_page(page, right);
  }
  trace(address, bytes, kind);
  return true;
}

// Adds the texture as a whole, because reads of texels are not tracked. The checker knows which textures are read.
void Reached::add_texture(const Texture& texture) {
  const std::lock_guard guard(lock_);
  for (const std::uint32_t right : {kMayRead, kMayWrite}) {
    if (right == kMayWrite && !texture.is_surface) continue;
    for (std::uint64_t page = texture.address >> kPageBits;
         page <= (texture.address + texture.bytes() - 1) >> kPageBits; ++page)
      pages_.emplace(page, right);
  }
}

void Reached::report(Outcome* out) const {
  for (const auto& [page, right] : pages_) ++(right == kMayRead ? out->pages_read : out->pages_written);
  if (launch_.traced != nullptr) trace_.report(launch_);
}

}  // namespace simulator::ptx
