// SPDX-License-Identifier: Apache-2.0
// https://docs.kernel.org/admin-guide/cgroup-v2.html
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
#include "driver/control_groups.h"

#include <fstream>

namespace thermocline {
namespace {

void add_with_parents(const std::string& mount, std::string path, MemoryGroup::Version version,
                      std::vector<MemoryGroup>* out) {
  for (;; path.resize(path.rfind('/'))) {
    out->push_back({mount + path, version});
    if (path.find('/') == std::string::npos) return;
  }
}

// In a line such as "4:cpu,memory:/path", whether the memory controller is listed.
bool is_of_memory(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

}  // namespace

std::string MemoryGroup::limit_file() const {
  return folder + (version == Version::kSecond ? "/memory.max" : "/memory.limit_in_bytes");
}

std::vector<MemoryGroup> memory_groups(const std::string& groups, const std::string& mount) {
  std::vector<MemoryGroup> all;
  std::ifstream file(groups);
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      add_with_parents(mount, path, MemoryGroup::Version::kSecond, &all);
    } else if (is_of_memory(controllers)) {
      add_with_parents(mount + "/memory", path, MemoryGroup::Version::kFirst, &all);
    }
  }
  return all;
}

}  // namespace thermocline
