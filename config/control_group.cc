// SPDX-License-Identifier: Apache-2.0
#include "config/control_group.h"

#include <algorithm>
#include <fstream>
#include <string_view>

namespace thermocline {
namespace {

// If there is no limit, version 1 reports the largest number of whole pages, and version 2 "max", which is no number.
constexpr Bytes kNoLimit = Bytes{1} << 62;

// In a container the path may be the host's while the mount begins at the container's own group. So every parent is
// tried, and files that do not exist are skipped.
Bytes least_limit(const std::string& mount, std::string path, const char* name) {
  Bytes least = 0;
  for (;; path.resize(path.rfind('/'))) {
    Bytes limit = 0;
    if (std::ifstream file(mount + path + name); file >> limit && limit < kNoLimit)
      least = least == 0 ? limit : std::min(least, limit);
    if (path.find('/') == std::string::npos) return least;
  }
}

// In a line such as "4:cpu,memory:/path", whether the memory controller is listed.
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
