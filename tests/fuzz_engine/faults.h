// SPDX-License-Identifier: Apache-2.0
// The driver as the library sees it in a test: the simulated one, with calls that fail on request, and with a count of
// what the library has not released. The program's own calls go directly to the driver. A call that fails does nothing
// and returns an error that cuda.h documents for it. One object at a time in a process.
#pragma once

#include <cstdint>
#include <string>

#include "driver/driver.h"
#include "driver/table.h"
#include "tests/fuzz_engine/random.h"

namespace thermocline::fuzz_engine {

struct FaultPlan {
  std::uint64_t seed = 0;
  std::uint64_t one_in = 0;    // one in this many calls fails; 0: none
  std::uint64_t only_nth = 0;  // only this call fails, counted over all functions; 0: according to one_in
};

class FaultyDriver {
 public:
  FaultyDriver(const DriverTable& below, const FaultPlan& plan);
  ~FaultyDriver();
  FaultyDriver(const FaultyDriver&) = delete;
  FaultyDriver& operator=(const FaultyDriver&) = delete;

  const Driver& driver() const { return driver_; }
  void stop() { stopped_ = true; }
  void resume() { stopped_ = false; }
  // The next `count` calls of the function fail; its name as in faults.cc.
  void fail_next(const char* function, int count = 1) {
    doomed_ = function;
    doomed_count_ = count;
  }
  std::uint64_t calls() const { return calls_; }
  std::uint64_t failed() const { return failed_; }
  const std::string& last_failed() const { return last_failed_; }

  // Describes what was acquired and not released; empty: nothing.
  std::string held() const;

  // For the hooks in faults.cc.
  bool fails(const char* function);
  CUresult some_error(const CUresult* errors, std::size_t count) { return errors[random_.below(count)]; }
  static FaultyDriver* current;
  const DriverTable below;
  std::int64_t reservations = 0, pages = 0, mapped_bytes = 0, streams = 0, events = 0, host = 0;

 private:
  FaultPlan plan_;
  Random random_;
  DriverTable table_;
  Driver driver_;
  bool stopped_ = false;
  std::string doomed_;
  int doomed_count_ = 0;
  std::uint64_t calls_ = 0, failed_ = 0;
  std::string last_failed_;
};

}  // namespace thermocline::fuzz_engine
