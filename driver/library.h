// SPDX-License-Identifier: Apache-2.0
// Opens the CUDA driver for tools and replays, where no host program has loaded it. No driver function is called
// between open() and initialise(), so a simulated driver can be configured in between. The library stays loaded until
// the process ends.
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
  // `path` null: libcuda.so.1, found by the loader. On failure the result is null and `why` gets a message.
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
  // As the driver reports it: 13000 is CUDA 13.0.
  Status version(int* out) const;
  Status device_count(int* out) const;
  Status summary(int device, DeviceSummary* out) const;
  // Retains the primary context of `device` and makes it current on this thread.
  Status make_current(int device) const;

  // The name of an error code ("CUDA_ERROR_NO_DEVICE"), or its number if it has none.
  std::string error_name(Status status) const;

 private:
  DriverLibrary(void* handle, std::unique_ptr<DriverTable> table);

  void* handle_;
  std::unique_ptr<DriverTable> table_;
  Driver driver_;
};

}  // namespace thermocline
