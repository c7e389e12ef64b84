// SPDX-License-Identifier: Apache-2.0
#include "hooks/pointers/tables_in_place.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "hooks/interpose/own_memory.h"
#include "hooks/interpose/symbols.h"
#include "hooks/operands/host_allocations.h"
#include "hooks/pointers/word_scan.h"
#include "hooks/pointers/write_combined.h"
#include "hooks/runtime/counters.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {
namespace {

// Allocations are read in blocks of this size: first the block that contains the address and the next one, then further
// ones as long as addresses are found.
constexpr Bytes kBlockBytes = HostAllocations::kSmallBytes;
// Blocks that are read for one operation. A list that the host has linked through more is left, and counted.
constexpr std::size_t kMostBlocks = 1024;

// Whether all devices have concurrent access to managed memory: on a system with another device the host must not read
// it while a kernel runs (CUDA C++ Programming Guide, "Managed memory: coherency and concurrency").
bool managed_memory_can_be_read() {
  static const bool can = [] {
    int count = 0;
    if (real<Function::cuDeviceGetCount>(&count) != CUDA_SUCCESS) return false;
    for (int i = 0; i < count; ++i) {
      CUdevice device = 0;
      int concurrent = 0;
      const bool asked = real<Function::cuDeviceGet>(&device, i) == CUDA_SUCCESS &&
                         real<Function::cuDeviceGetAttribute>(
                             &concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device) == CUDA_SUCCESS;
      if (!asked || concurrent == 0) return false;
    }
    return true;
  }();
  return can;
}

// Asks the driver, because the end of an allocation may not have been seen.
bool is_still(HostMemory memory, std::uint64_t address) {
  if (memory == HostMemory::kManaged) {
    unsigned int managed = 0;
    return real<Function::cuPointerGetAttribute>(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == CUDA_SUCCESS &&
           managed != 0;
  }
  unsigned int type = 0;
  return real<Function::cuPointerGetAttribute>(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_HOST;
}

class Reader {
 public:
  Reader(const EngineSet& engines, AccessList* accesses)
      : own_(engines.hull()), host_(host_allocations().hull()), accesses_(accesses) {}

  void read_at(std::uint64_t address) {
    waiting_.push_back(address);
    while (!waiting_.empty()) {
      const std::uint64_t next = waiting_.back();
      waiting_.pop_back();
      read_one(next);
    }
  }

 private:
  void read_one(std::uint64_t address) {
    if (!seen_.insert(address).second) return;
    const std::optional<HostAllocation> table = host_allocations().find(address);
    if (!table.has_value() || !is_due(*table)) return;
    if (table->memory == HostMemory::kManaged && !managed_memory_can_be_read()) return;
    const std::uint64_t end = table->begin + table->bytes;
    bool found = true;
    for (std::uint64_t at = address - (address - table->begin) % kBlockBytes;
         at < end && (found || at < address + kBlockBytes); at += kBlockBytes) {
      const auto [block, is_new] = blocks_.try_emplace(at, false);
      if (is_new) {
        if (blocks_.size() > kMostBlocks) return leave();
        // Blocks overlap, so that no word that spans two of them is missed.
        block->second = read_block(*table, at, std::min<Bytes>(kBlockBytes + sizeof(std::uint64_t) - 1, end - at));
      }
      found = block->second;
    }
  }

  // Asks once for each operation, however many of its words are addresses of the allocation.
  bool is_due(const HostAllocation& table) {
    const auto [due, is_new] = due_.try_emplace(table.begin, false);
    if (is_new) due->second = host_allocations().is_due(table.begin);
    return due->second;
  }

  void leave() {
    if (!std::exchange(has_left_some_, true)) count(Counter::kUnreadTables);
  }

  // Returns whether an address was found.
  bool read_block(const HostAllocation& table, std::uint64_t at, Bytes bytes) {
    if (!is_still(table.memory, at) || !is_still(table.memory, at + bytes - 1)) return false;
    copy_.resize(bytes);
    copy_block(table.memory, at);
    bool found = false;
    WordScan{own_}(copy_.data(), copy_.size(), at, [&](Bytes, std::uint64_t word) {
      accesses_->found_word(word);
      found = true;
    });
    WordScan{host_}(copy_.data(), copy_.size(), at, [&](Bytes, std::uint64_t word) { waiting_.push_back(word); });
    if (found) host_allocations().holds_addresses(table.begin);
    return found;
  }

  // A word may be an old address of memory that another thread frees meanwhile. So the memory is read as a debugger
  // would, and with plain loads only if the system does not permit that, or does not support it for managed memory.
  void copy_block(HostMemory memory, std::uint64_t at) {
    const auto* const from = reinterpret_cast<const unsigned char*>(at);
    if (memory == HostMemory::kPinned && is_write_combined(from))
      return read_write_combined(copy_.data(), from, copy_.size());
    const Reading reading = read_own_memory(at, copy_.data(), copy_.size());
    if (reading == Reading::kRefused || (reading == Reading::kGone && memory == HostMemory::kManaged)) {
      std::memcpy(copy_.data(), from, copy_.size());
    } else if (reading == Reading::kGone) {
      copy_.clear();
    }
  }

  OwnRange own_, host_;
  AccessList* accesses_;
  std::vector<unsigned char> copy_;  // of one block
  std::vector<std::uint64_t> waiting_;
  std::set<std::uint64_t> seen_;
  std::map<std::uint64_t, bool> blocks_;  // by beginning: whether an address was found
  std::map<std::uint64_t, bool> due_;     // by beginning of the allocation
  bool has_left_some_ = false;
};

}  // namespace

std::vector<std::uint64_t> words_in_place(const ParameterLayout* layout, KernelArguments arguments) {
  std::vector<std::uint64_t> words;
  AccessList found;
  if (!any_host_allocation.load(std::memory_order_relaxed)) return words;
  if (!scan_arguments(layout, arguments, host_allocations().hull(), &found)) return words;
  for (const MemoryAccess& one : found.all()) words.push_back(one.address.value);
  return words;
}

void add_tables_in_place(const EngineSet& engines, const ParameterLayout* layout, KernelArguments arguments,
                         AccessList* accesses) {
  AccessList found;
  if (!scan_arguments(layout, arguments, host_allocations().hull(), &found) || found.empty()) return;
  const Inside inside;
  Reader reader(engines, accesses);
  for (const MemoryAccess& one : found.all()) reader.read_at(one.address.value);
}

void add_tables_in_place(const EngineSet& engines, std::span<const std::uint64_t> words, AccessList* accesses) {
  if (words.empty()) return;
  const Inside inside;
  Reader reader(engines, accesses);
  for (const std::uint64_t word : words) reader.read_at(word);
}

}  // namespace thermocline
