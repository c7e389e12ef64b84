// SPDX-License-Identifier: Apache-2.0
// Libraries of the process that call the driver past the hooks: they were opened so that their own symbols come first
// (RTLD_DEEPBIND), or came before us. Found by looking where their references to the driver's functions lead, which is
// certain: it is what they call. What they look up by another dlsym than ours is not seen: that they do so, and name
// the driver, is.
#pragma once

#include <string>
#include <vector>

namespace thermocline {

struct PastUs {
  std::string object;     // its file, without the folder
  bool looks_up = false;  // it searches by another dlsym than ours; else it is linked with the driver
};

// Empty where the driver is not in the process. For the end of the process: it goes through every reference of every
// library.
std::vector<PastUs> bypassing_libraries();

// "libplugin.so (linked with the driver) and ..."; empty for none.
std::string bypass_text(const std::vector<PastUs>& objects);

}  // namespace thermocline
