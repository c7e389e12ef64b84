// SPDX-License-Identifier: Apache-2.0
// Device profiles: the properties of a simulated device and the cost of operations on it, each figure with its source.
// A plain table without dependencies, so that tools can print it without loading the simulator.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace simulator {

template <typename T>
struct Sourced {
  T value;
  const char* source;  // of the figure; begins with "assumed" if nothing has been published
};

// Host time of driver calls, in nanoseconds.
struct HostCosts {
  Sourced<std::int64_t> launch;
  Sourced<std::int64_t> create_page;         // cuMemCreate, for each 2 MiB ...
  Sourced<std::int64_t> create_pages_limit;  // ... up to this number of pages; more cost ...
  Sourced<std::int64_t> create_many;         // ... this, however many
  Sourced<std::int64_t> map;                 // cuMemMap, for each handle
  Sourced<std::int64_t> set_access;          // for each call, with one mapping ...
  Sourced<std::int64_t> set_access_next;     // ... and for each further mapping in its range
  Sourced<std::int64_t> unmap;               // the same
  Sourced<std::int64_t> unmap_next;
  Sourced<std::int64_t> stream_call;  // event and stream calls
  Sourced<std::int64_t> copy;         // asynchronous copy or set
};

struct Profile {
  const char* name;
  const char* title;
  Sourced<std::uint64_t> memory_bytes;
  Sourced<double> fp32_flops;        // per second, multiply-add counted as two
  Sourced<double> tensor_flops;      // dense half precision; equals fp32_flops where there are no tensor cores
  Sourced<double> memory_bandwidth;  // bytes per second
  Sourced<double> link_to_device;    // bytes per second, each direction on its own
  Sourced<double> link_to_host;
  Sourced<std::int64_t> launch;     // nanoseconds that every kernel adds on the device's time line
  Sourced<int> compute_capability;  // 10 * major + minor
  Sourced<int> multiprocessors;
  Sourced<std::uint64_t> page_bytes;  // granularity of cuMemCreate
  HostCosts host;
};

// All profiles; `reference` comes first.
std::span<const Profile> profiles();

// nullptr: no profile has that name, or the file has none.
const Profile* find_profile(std::string_view name);

// Whether the name is that of a file with a profile (format: profile_file.cc): it contains a slash, or ends in .toml.
bool is_profile_file(std::string_view name);
// Each file is read once, and the result is kept until the process ends. nullptr: `why` has the reason and the line.
const Profile* read_profile(const std::string& path, std::string* why);

}  // namespace simulator
