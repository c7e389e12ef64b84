// SPDX-License-Identifier: Apache-2.0
#include "hooks/interpose/real_table.h"

#include <memory>

#include "driver/table.h"
#include "hooks/interpose/counted_calls.h"

namespace thermocline {

const DriverTable* real_table() {
  static const auto* const table = [] {
    auto loaded = std::make_unique<DriverTable>();
    if (!load_table(&real_symbol, loaded.get()).ok()) return static_cast<DriverTable*>(nullptr);
    loaded->cuEventRecord = record_counted;
    loaded->cuStreamWaitEvent = wait_counted;
    return loaded.release();
  }();
  return table;
}

}  // namespace thermocline
