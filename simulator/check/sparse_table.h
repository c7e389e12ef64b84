// SPDX-License-Identifier: Apache-2.0
// One value for each 2 MiB page of this process's address space, zero until it is set. Virtual memory that takes real
// memory only where it is written, as in core/memory/page_table.h.
#pragma once

#include <sys/mman.h>

#include <type_traits>

#include "simulator/core/check.h"
#include "simulator/core/types.h"

namespace simulator {

template <typename Value>
class SparseTable {
  static_assert(std::is_trivial_v<Value>);

 public:
  SparseTable() {
    void* const table =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    SIMULATOR_CHECK(table != MAP_FAILED, "there is address space for a table of pages");
    values_ = static_cast<Value*>(table);
  }
  ~SparseTable() { munmap(values_, kBytes); }
  SparseTable(const SparseTable&) = delete;
  SparseTable& operator=(const SparseTable&) = delete;

  Value at(Address address) const { return address < kEnd ? values_[address / kPageBytes] : Value{}; }
  void set(Address address, Value value) {
    if (address < kEnd) values_[address / kPageBytes] = value;
  }

 private:
  static constexpr Address kEnd = Address{1} << 47;
  static constexpr std::size_t kBytes = kEnd / kPageBytes * sizeof(Value);

  Value* values_;
};

}  // namespace simulator
