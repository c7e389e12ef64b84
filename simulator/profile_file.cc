// SPDX-License-Identifier: Apache-2.0
// Reads a device profile from a file, such as `./dev gpu` writes for the device that it has measured: a TOML file
// without tables, whose values are numbers and texts.
//
//   like = "h200"                 # a known profile, for the figures that are not here (default: reference)
//   title = "NVIDIA H200, measured"
//   source = "measured 2026-11-21, driver 580.65"    # for all figures that are here
//   link_to_device = 53.2e9       # keys and units as in `thermocline devices --json`
#include "simulator/profile.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "config/tomlplusplus.h"

namespace simulator {
namespace {

// Profiles refer to their texts by address, so texts are never freed.
struct Kept {
  std::list<std::string> texts;
  std::map<std::string, Profile> profiles;
  std::mutex mutex;

  const char* keep(std::string_view text) { return texts.emplace_back(text).c_str(); }
};

Kept& kept() {
  static auto* const all = new Kept;
  return *all;
}

using Set = std::function<bool(Profile&, double, const char*)>;

// Negative figures are invalid; zero is valid for a cost but not for a rate.
template <typename T>
bool set(Sourced<T>& figure, double value, const char* source, bool may_be_zero) {
  if (!(value > 0 || (value == 0 && may_be_zero)) || value > 1e18) return false;
  figure = {static_cast<T>(value), source};
  return true;
}
template <typename T>
Set rate(Sourced<T> Profile::*member) {
  return [member](Profile& p, double value, const char* source) { return set(p.*member, value, source, false); };
}
template <typename T>
Set cost(Sourced<T> HostCosts::*member) {
  return [member](Profile& p, double value, const char* source) { return set(p.host.*member, value, source, true); };
}

const std::map<std::string, Set, std::less<>>& figures() {
  static const std::map<std::string, Set, std::less<>> all = {
      {"memory_bytes", rate(&Profile::memory_bytes)},
      {"fp32_flops", rate(&Profile::fp32_flops)},
      {"tensor_flops", rate(&Profile::tensor_flops)},
      {"memory_bandwidth", rate(&Profile::memory_bandwidth)},
      {"link_to_device", rate(&Profile::link_to_device)},
      {"link_to_host", rate(&Profile::link_to_host)},
      {"launch_ns", rate(&Profile::launch)},
      {"compute_capability", rate(&Profile::compute_capability)},
      {"multiprocessors", rate(&Profile::multiprocessors)},
      {"page_bytes", rate(&Profile::page_bytes)},
      {"host_launch_ns", cost(&HostCosts::launch)},
      {"host_create_page_ns", cost(&HostCosts::create_page)},
      {"host_create_pages_limit", cost(&HostCosts::create_pages_limit)},
      {"host_create_many_ns", cost(&HostCosts::create_many)},
      {"host_map_ns", cost(&HostCosts::map)},
      {"host_set_access_ns", cost(&HostCosts::set_access)},
      {"host_set_access_next_ns", cost(&HostCosts::set_access_next)},
      {"host_unmap_ns", cost(&HostCosts::unmap)},
      {"host_unmap_next_ns", cost(&HostCosts::unmap_next)},
      {"host_stream_call_ns", cost(&HostCosts::stream_call)},
      {"host_copy_ns", cost(&HostCosts::copy)},
  };
  return all;
}

constexpr std::string_view kTexts[] = {"like", "title", "source"};

// The error in a value, beginning with its line; empty if there is none.
std::string apply(const toml::key& key, const toml::node& node, const char* source, Profile* out) {
  const std::string place = std::to_string(key.source().begin.line) + ": ";
  const std::string name(key.str());
  const bool is_text = std::ranges::find(kTexts, name) != std::end(kTexts);
  if (is_text) return node.is_string() ? "" : place + name + " is a text";
  const auto figure = figures().find(name);
  if (figure == figures().end()) return place + "unknown key '" + name + "'";
  const auto number = node.value<double>();
  if (!node.is_number() || !number) return place + name + " is a number";
  return figure->second(*out, *number, source) ? "" : place + name + " is out of range";
}

// Checks and applies all values of a file.
std::string apply(const toml::table& table, const std::string& path, Profile* out) {
  const auto text = [&table](const char* key, const std::string& otherwise) {
    return table[key].value<std::string>().value_or(otherwise);
  };
  const std::string like = text("like", "reference");
  const Profile* const base = is_profile_file(like) ? nullptr : find_profile(like);
  if (base == nullptr) return "like: there is no device '" + like + "'";
  *out = *base;
  out->name = kept().keep(path);  // by which it is found again
  out->title = kept().keep(text("title", path));
  const char* const source = kept().keep(text("source", path));
  for (const auto& [key, node] : table) {
    if (std::string wrong = apply(key, node, source, out); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

bool is_profile_file(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".toml");
}

const Profile* read_profile(const std::string& path, std::string* why) {
  const std::lock_guard lock(kept().mutex);
  if (const auto found = kept().profiles.find(path); found != kept().profiles.end()) return &found->second;
  std::ifstream file(path);
  if (!file) {
    *why = path + ": can not be read";
    return nullptr;
  }
  const toml::parse_result parsed = toml::parse(file);
  if (!parsed) {
    // For `link_to_device = fast`, toml++ writes a message about booleans.
    *why =
        path + ":" + std::to_string(parsed.error().source().begin.line) + ": expected key = number or key = \"text\"";
    return nullptr;
  }
  Profile profile{};
  if (const std::string wrong = apply(parsed.table(), path, &profile); !wrong.empty()) {
    *why = path + ":" + wrong;
    return nullptr;
  }
  return &kept().profiles.emplace(path, profile).first->second;
}

}  // namespace simulator
