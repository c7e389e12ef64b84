// SPDX-License-Identifier: Apache-2.0
// A driver opened by whoever has no program to take it from: tools and replays. Between open() and initialise() nothing
// of the driver has been called, so that a simulated one can be set up. The library stays loaded for the life of the
// process.
#pragma once

#include <memory>
#include <string>

#include "driver/driver.h"
#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

struct DeviceSummary {
  std::string name;
  Bytes total_memory = 0;
  int compute_capability = 0;  // 10 * major + minor
  bool has_virtual_memory = false;
  bool can_map_host = false;
};

class DriverLibrary {
 public:
  // `path` null: libcuda.so.1 as the loader finds it. Null with a sentence in `why` on failure.
  static std::unique_ptr<DriverLibrary> open(const char* path, std::string* why);
  ~DriverLibrary();

  DriverLibrary(const DriverLibrary&) = delete;
  DriverLibrary& operator=(const DriverLibrary&) = delete;

  const Driver& driver() const { return driver_; }
  // An exported symbol of the library, or null.
  void* symbol(const char* name) const;
  // The file that was loaded.
  std::string path() const;

  Status initialise() const;
  // As the driver says it: 13000 is CUDA 13.0.
  Status version(int* out) const;
  Status device_count(int* out) const;
  Status summary(int device, DeviceSummary* out) const;
  // Retains the primary context of `device` and makes it current on this thread.
  Status make_current(int device) const;

  // What an error code is called ("CUDA_ERROR_NO_DEVICE"), or its number.
  std::string error_name(Status status) const;

 private:
  DriverLibrary(void* handle, std::unique_ptr<DriverTable> table);

  void* handle_;
  std::unique_ptr<DriverTable> table_;
  Driver driver_;
};

}  // namespace thermocline
