// SPDX-License-Identifier: Apache-2.0
#include "driver/free_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>

#include "driver/control_groups.h"

namespace thermocline {
namespace {

constexpr Bytes kUnknown = std::numeric_limits<Bytes>::max();

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
Bytes left_in_group(const MemoryGroup& group) {
  const bool is_second = group.version == MemoryGroup::Version::kSecond;
  Bytes limit = 0, used = 0, reclaimed = 0;
  if (!read_number(group.limit_file(), &limit)) return kUnknown;
  if (!read_number(group.folder + (is_second ? "/memory.current" : "/memory.usage_in_bytes"), &used)) return kUnknown;
  const char* const given_up = is_second ? "inactive_file" : "total_inactive_file";
  if (read_named(group.folder + "/memory.stat", given_up, &reclaimed)) used -= std::min(used, reclaimed);
  return limit - std::min(limit, used);
}

}  // namespace

Bytes free_host_bytes(const std::string& root) {
  Bytes least = kUnknown;
  if (Bytes kib = 0; read_named(root + "/proc/meminfo", "MemAvailable:", &kib)) least = kib * kKiB;
  for (const MemoryGroup& group : memory_groups(root + "/proc/self/cgroup", root + "/sys/fs/cgroup"))
    least = std::min(least, left_in_group(group));
  return least;
}

}  // namespace thermocline
