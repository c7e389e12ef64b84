// SPDX-License-Identifier: Apache-2.0
#include "driver/free_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>

namespace thermocline {
namespace {

constexpr Bytes kUnknown = std::numeric_limits<Bytes>::max();

struct GroupFiles {
  const char *limit, *used, *reclaimed;
};
// https://docs.kernel.org/admin-guide/cgroup-v2.html: memory.max, memory.current, memory.stat
constexpr GroupFiles kSecond = {"/memory.max", "/memory.current", "inactive_file"};
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
constexpr GroupFiles kFirst = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};

bool read_number(const std::string& name, Bytes* out) {
  std::ifstream file(name);
  return static_cast<bool>(file >> *out);
}

// The number behind a name, in files with one name a line.
bool read_named(const std::string& name, std::string_view wanted, Bytes* out) {
  std::ifstream file(name);
  for (std::string line; std::getline(file, line);) {
    const std::size_t end = line.find(' ');
    if (end == std::string::npos || std::string_view(line).substr(0, end) != wanted) continue;
    const std::size_t digit = line.find_first_not_of(' ', end);
    if (digit == std::string::npos || line[digit] < '0' || line[digit] > '9') return false;
    *out = std::stoull(line.substr(digit));
    return true;
  }
  return false;
}

// Files that have not been used lately are given up before anything is refused.
Bytes left_in_group(const std::string& folder, const GroupFiles& files) {
  Bytes limit = 0, used = 0, reclaimed = 0;
  if (!read_number(folder + files.limit, &limit) || !read_number(folder + files.used, &used)) return kUnknown;
  if (read_named(folder + "/memory.stat", files.reclaimed, &reclaimed)) used -= std::min(used, reclaimed);
  return limit - std::min(limit, used);
}

// In a container the path may be the host's while the mount begins at the container's own group.
Bytes left_in_groups(const std::string& mount, std::string path, const GroupFiles& files) {
  Bytes least = kUnknown;
  for (;; path.resize(path.rfind('/'))) {
    least = std::min(least, left_in_group(mount + path, files));
    if (path.find('/') == std::string::npos) return least;
  }
}

bool is_of_memory(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

}  // namespace

Bytes free_host_bytes(const std::string& root) {
  Bytes least = kUnknown;
  if (Bytes kib = 0; read_named(root + "/proc/meminfo", "MemAvailable:", &kib)) least = kib * kKiB;
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) least = std::min(least, left_in_groups(mount, path, kSecond));
    if (is_of_memory(controllers)) least = std::min(least, left_in_groups(mount + "/memory", path, kFirst));
  }
  return least;
}

}  // namespace thermocline
