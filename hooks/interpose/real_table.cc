// SPDX-License-Identifier: Apache-2.0
#include "hooks/interpose/real_table.h"

#include "driver/driver.h"
#include "driver/owned.h"
#include "driver/table.h"
#include "hooks/interpose/counted_calls.h"
#include "hooks/interpose/process_lifetime.h"

namespace thermocline {
namespace {

struct RealTable {
  RealTable();

  DriverTable driver;  // as the driver has them
  DriverTable table;   // as Driver calls them
  bool is_whole;
};

const RealTable& loaded() { return process_lifetime<RealTable>(); }

// A call that a capture of another thread forbids, and that would invalidate it (cuThreadExchangeStreamCaptureMode): a
// program does not know when the library makes one. That no capture is in progress does not help, because one may begin
// before the call.
template <auto kFunction>
struct Undisturbing;
template <class... Arguments, CUresult (*DriverTable::*kFunction)(Arguments...)>
struct Undisturbing<kFunction> {
  static CUresult call(Arguments... arguments) {
    const Driver driver(loaded().driver);
    const RelaxedCapture truce(driver);
    return (loaded().driver.*kFunction)(arguments...);
  }
};

template <auto... kFunctions>
void disturb_no_capture(DriverTable* table) {
  ((table->*kFunctions = table->*kFunctions == nullptr ? nullptr : &Undisturbing<kFunctions>::call), ...);
}

RealTable::RealTable() : is_whole(load_table(&real_symbol, &driver).ok()) {
  table = driver;
  table.cuEventRecord = record_counted;
  table.cuStreamWaitEvent = wait_counted;
  if (driver.cuThreadExchangeStreamCaptureMode == nullptr) return;
  using Table = DriverTable;
  disturb_no_capture<&Table::cuMemAddressReserve, &Table::cuMemAddressFree, &Table::cuMemCreate, &Table::cuMemRelease,
                     &Table::cuMemMap, &Table::cuMemSetAccess, &Table::cuMemUnmap, &Table::cuMemHostAlloc,
                     &Table::cuMemFreeHost, &Table::cuEventQuery, &Table::cuEventSynchronize,
                     &Table::cuStreamSynchronize, &Table::cuStreamCreate, &Table::cuStreamDestroy,
                     &Table::cuModuleLoadData, &Table::cuModuleUnload>(&table);
}

}  // namespace

const DriverTable* real_table() { return loaded().is_whole ? &loaded().table : nullptr; }

}  // namespace thermocline
