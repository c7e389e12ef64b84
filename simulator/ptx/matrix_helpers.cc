// SPDX-License-Identifier: Apache-2.0
// Helpers that generated code calls for matrices in memory.
#include <cstring>

#include "simulator/ptx/block.h"
#include "simulator/ptx/helpers.h"
#include "simulator/ptx/matrix.h"

namespace simulator::ptx {
namespace {

// Moves the lane's part of a matrix between memory and its words. `what` encodes: element, registers, row by row,
// stores.
void wmma_move(ThreadContext* thread, std::uint32_t site, std::uint64_t address, std::uint32_t stride,
               std::uint32_t what, std::uint32_t rows, std::uint32_t columns, std::uint32_t* words) {
  const Fragment fragment{static_cast<Element>(what & 15), what >> 4 & 15};
  const bool by_rows = (what & 256) != 0, stores = (what & 512) != 0;
  const unsigned bits = bits_of(fragment.element);
  auto* const own = reinterpret_cast<std::byte*>(words + kWordsOfD);
  const unsigned bytes = bits < 8 ? 1 : bits / 8;
  const unsigned each = rows * columns / 32;
  for (unsigned slot = 0; slot < fragment.capacity(); ++slot) {
    if (stores && slot >= each) return;  // a duplicate
    const unsigned element = wmma_element(rows * columns, thread->lane, slot);
    const unsigned row = element / columns, column = element % columns;
    const std::uint64_t index = by_rows ? std::uint64_t{row} * stride + column : std::uint64_t{column} * stride + row;
    const std::uint64_t at = address + index * bits / 8;
    thread->block->check(*thread, at, bytes, stores, site);
    auto* const memory = reinterpret_cast<std::byte*>(at);
    std::byte* const word = own + std::size_t{slot} * bits / 8;
    if (bits < 8) {  // factors, which are only loaded
      const unsigned mask = (1u << bits) - 1, from = index * bits % 8, into = slot * bits % 8;
      const unsigned value = std::to_integer<unsigned>(*memory) >> from & mask;
      *word = static_cast<std::byte>((std::to_integer<unsigned>(*word) & ~(mask << into)) | value << into);
      continue;
    }
    std::memcpy(stores ? memory : word, stores ? word : memory, bytes);
  }
}

// The address of a row of ldmatrix or stmatrix. Addresses of lanes that provide no row are ignored.
std::uint64_t row_address(ThreadContext* thread, std::uint32_t site, std::uint64_t address, std::uint32_t packed) {
  const Rows rows = Rows::unpacked(packed);
  if (thread->lane >= 8 * rows.matrices) return 0;
  thread->block->check(*thread, address, 16, rows.stores, site);
  return address;
}

}  // namespace

void add_matrix_helpers(std::vector<Helper>* to) {
  to->push_back({"ptx_wmma_move", reinterpret_cast<const void*>(wmma_move)});
  to->push_back({"ptx_row", reinterpret_cast<const void*>(row_address)});
}

}  // namespace simulator::ptx
