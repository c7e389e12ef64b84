// SPDX-License-Identifier: Apache-2.0
#include "config/control_group.h"

#include <algorithm>
#include <fstream>
#include <string_view>

namespace thermocline {
namespace {

// Without a limit version 1 says the largest number of whole pages, version 2 "max", which does not read as a number.
constexpr Bytes kNoLimit = Bytes{1} << 62;

// In a container the path may be that of the host, and the mount begins at the container's own group: so all the way
// up, and what is not there is passed over.
Bytes least_limit(const std::string& mount, std::string path, const char* name) {
  Bytes least = 0;
  for (;; path.resize(path.rfind('/'))) {
    Bytes limit = 0;
    if (std::ifstream file(mount + path + name); file >> limit && limit < kNoLimit)
      least = least == 0 ? limit : std::min(least, limit);
    if (path.find('/') == std::string::npos) return least;
  }
}

// "4:cpu,memory:/path" names the memory controller among those of its hierarchy.
bool is_of_memory(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == "memory") return true;
    controllers.remove_prefix(std::min(end + 1, controllers.size()));
  }
  return false;
}

}  // namespace

// https://docs.kernel.org/admin-guide/cgroup-v2.html, memory.max
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html, memory.limit_in_bytes
Bytes control_group_limit(const std::string& groups, const std::string& mount) {
  std::ifstream file(groups);
  Bytes least = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    Bytes limit = 0;
    if (controllers.empty()) {
      limit = least_limit(mount, path, "/memory.max");
    } else if (is_of_memory(controllers)) {
      limit = least_limit(mount + "/memory", path, "/memory.limit_in_bytes");
    }
    if (limit != 0) least = least == 0 ? limit : std::min(least, limit);
  }
  return least;
}

}  // namespace thermocline
