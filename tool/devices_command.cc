// SPDX-License-Identifier: Apache-2.0
// thermocline devices: the known device profiles and the sources of their figures.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cinttypes>
#include <cstdio>
#include <functional>
#include <memory>

#include "config/size.h"
#include "simulator/profile.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/json_text.h"
#include "tool/message.h"
#include "tool/places.h"
#include "tool/values.h"

namespace thermocline {
namespace {

using simulator::Profile;

// One figure of a profile, printed as value / scale followed by `unit`.
struct Figure {
  const char* key;
  const char* label;
  double scale;
  const char* unit;
  std::function<std::pair<double, const char*>(const Profile&)> get;
};

template <typename Member>
auto figure(Member Profile::*member) {
  return [member](const Profile& p) { return std::pair(static_cast<double>((p.*member).value), (p.*member).source); };
}

template <typename Member>
auto cost(Member simulator::HostCosts::*member) {
  return [member](const Profile& p) {
    return std::pair(static_cast<double>((p.host.*member).value), (p.host.*member).source);
  };
}

const std::vector<Figure>& figures() {
  using Costs = simulator::HostCosts;
  static const std::vector<Figure> all = {
      {"memory_bytes", "memory", 1.0 / (1U << 30), "GiB", figure(&Profile::memory_bytes)},
      {"fp32_flops", "fp32", 1e-12, "TFLOP/s", figure(&Profile::fp32_flops)},
      {"tensor_flops", "tensor cores", 1e-12, "TFLOP/s", figure(&Profile::tensor_flops)},
      {"memory_bandwidth", "memory bandwidth", 1e-9, "GB/s", figure(&Profile::memory_bandwidth)},
      {"link_to_device", "link to device", 1e-9, "GB/s", figure(&Profile::link_to_device)},
      {"link_to_host", "link to host", 1e-9, "GB/s", figure(&Profile::link_to_host)},
      {"launch_ns", "launch, on device", 1e-3, "us", figure(&Profile::launch)},
      {"compute_capability", "compute capability", 0.1, "", figure(&Profile::compute_capability)},
      {"multiprocessors", "multiprocessors", 1, "", figure(&Profile::multiprocessors)},
      {"page_bytes", "page", 1.0 / (1U << 20), "MiB", figure(&Profile::page_bytes)},
      {"host_launch_ns", "host: launch", 1e-3, "us", cost(&Costs::launch)},
      {"host_create_page_ns", "host: create 2 MiB", 1e-3, "us", cost(&Costs::create_page)},
      {"host_create_pages_limit", "host: up to", 1, "pages", cost(&Costs::create_pages_limit)},
      {"host_create_many_ns", "host: create more", 1e-3, "us", cost(&Costs::create_many)},
      {"host_map_ns", "host: map a handle", 1e-3, "us", cost(&Costs::map)},
      {"host_set_access_ns", "host: set access", 1e-3, "us", cost(&Costs::set_access)},
      {"host_set_access_next_ns", "host: set access, each further mapping", 1e-3, "us", cost(&Costs::set_access_next)},
      {"host_unmap_ns", "host: unmap", 1e-3, "us", cost(&Costs::unmap)},
      {"host_unmap_next_ns", "host: unmap, each further mapping", 1e-3, "us", cost(&Costs::unmap_next)},
      {"host_stream_call_ns", "host: event, stream", 1e-3, "us", cost(&Costs::stream_call)},
      {"host_copy_ns", "host: start a copy", 1e-3, "us", cost(&Costs::copy)},
  };
  return all;
}

void print_figures(const Profile& profile) {
  std::printf("%s: %s\n", profile.name, profile.title);
  for (const Figure& f : figures()) {
    const auto [value, source] = f.get(profile);
    std::printf("  %-20s %10.6g %-8s %s\n", f.label, value * f.scale, f.unit, source);
  }
}

void print_table() {
  std::printf("%-12s %8s %14s %14s %12s  %s\n", "device", "memory", "fp32", "bandwidth", "link", "what it is");
  for (const Profile& p : simulator::profiles()) {
    std::printf("%-12s %4.4g GiB %6.1f TFLOP/s %9.0f GB/s %7.1f GB/s  %s\n", p.name,
                static_cast<double>(p.memory_bytes.value) / (1U << 30), p.fp32_flops.value * 1e-12,
                p.memory_bandwidth.value * 1e-9, p.link_to_device.value * 1e-9, p.title);
  }
  std::puts("'thermocline devices NAME' has every figure of one, and where it comes from.");
}

void print_json(const std::optional<std::string>& folder, const std::vector<const Profile*>& shown) {
  nlohmann::ordered_json out = {
      {"schema", "thermocline-devices/1"}, {"path", nullptr}, {"devices", nlohmann::ordered_json::array()}};
  if (folder) out["path"] = *folder;
  for (const Profile* const one : shown) {
    const Profile& profile = *one;
    nlohmann::ordered_json device = {{"name", profile.name}, {"title", profile.title}};
    nlohmann::ordered_json sources;
    for (const Figure& f : figures()) {
      const auto [value, source] = f.get(profile);
      device[f.key] = value;
      sources[f.key] = source;
    }
    device["sources"] = std::move(sources);
    out["devices"].push_back(std::move(device));
  }
  std::puts(json_text(out).c_str());
}

int devices(const std::vector<std::string>& names, bool path, bool json) {
  std::vector<const Profile*> shown;
  for (const std::string& name : names) {
    shown.push_back(find_device_flag(name, "devices"));
    if (shown.back() == nullptr) return kWrongUsage;
  }
  std::string looked;
  const std::optional<std::string> folder = find_simulator_folder(&looked);
  if (json) {
    for (const Profile& profile : simulator::profiles()) {
      if (names.empty()) shown.push_back(&profile);
    }
    print_json(folder, shown);
  } else if (!path && names.empty()) {
    print_table();
  } else if (!path) {
    for (const Profile* const profile : shown) print_figures(*profile);
  } else if (folder) {
    std::puts(folder->c_str());
  } else {
    say("the simulated device is not installed; looked for " + looked);
    return kFailed;
  }
  return kDone;
}

}  // namespace

void add_devices(CLI::App& app, CommandLine* line) {
  auto path = std::make_shared<bool>(false);
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("devices", "The known device profiles and where their figures come from");
  auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("NAME", *names, "every figure of these devices, with its source (default: all, a line each)");
  command->add_flag("--path", *path, "print the folder of the simulated device's libraries");
  command->add_flag("--json", *json, "one JSON object on stdout");
  command->callback([=] { line->action = [=] { return devices(*names, *path, *json); }; });
}

}  // namespace thermocline
