// SPDX-License-Identifier: Apache-2.0
// Libraries of the process whose driver calls bypass the hooks: they were opened so that their own symbols come first
// (RTLD_DEEPBIND), or were loaded before this library. They are found by checking what their references to driver
// functions resolve to, which is exactly what they call. Look-ups by another dlsym are not seen; such a library is
// reported if it does not use this library's dlsym and contains the driver's name.
#pragma once

#include <string>
#include <vector>

namespace thermocline {

struct PastUs {
  std::string object;     // its file name, without the folder
  bool looks_up = false;  // it uses another dlsym; else it is linked with the driver
};

// Empty if the driver is not loaded. Slow, for the end of the process: it examines every relocation of every library.
std::vector<PastUs> bypassing_libraries();

// "libplugin.so (linked with the driver) and ..."; empty for none.
std::string bypass_text(const std::vector<PastUs>& objects);

}  // namespace thermocline
