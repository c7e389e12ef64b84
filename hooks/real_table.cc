// SPDX-License-Identifier: Apache-2.0
#include "hooks/real_table.h"

#include "driver/table.h"

namespace thermocline {

const DriverTable* real_table() {
  static const auto* const table = [] {
    auto* loaded = new DriverTable;
    return load_table(&real_symbol, loaded).ok() ? loaded : nullptr;
  }();
  return table;
}

}  // namespace thermocline
