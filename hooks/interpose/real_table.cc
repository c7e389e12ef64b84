// SPDX-License-Identifier: Apache-2.0
#include "hooks/interpose/real_table.h"

#include "driver/table.h"
#include "hooks/interpose/counted_calls.h"
#include "hooks/interpose/process_lifetime.h"

namespace thermocline {
namespace {

struct RealTable {
  RealTable() : is_whole(load_table(&real_symbol, &table).ok()) {
    table.cuEventRecord = record_counted;
    table.cuStreamWaitEvent = wait_counted;
  }

  DriverTable table;
  bool is_whole;
};

}  // namespace

const DriverTable* real_table() {
  const RealTable& loaded = process_lifetime<RealTable>();
  return loaded.is_whole ? &loaded.table : nullptr;
}

}  // namespace thermocline
