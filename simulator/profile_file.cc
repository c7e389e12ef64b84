// SPDX-License-Identifier: Apache-2.0
// Reads a device profile from a file, such as `./dev gpu` writes for the device that it has measured. The format is a
// subset of TOML that needs no library: one line for each `key = value`, where value is a number or "text" without
// escapes; `#` begins a comment.
//
//   like = "h200"                 # a known profile, for the figures that are not here (default: reference)
//   title = "NVIDIA H200, measured"
//   source = "measured 2026-11-21, driver 580.65"    # for all figures that are here
//   link_to_device = 53.2e9       # keys and units as in `thermocline devices --json`
#include "simulator/profile.h"

#include <charconv>
#include <fstream>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <vector>

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

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
  return first == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
}

// For `key = value  # comment`; false for other lines. An empty line has an empty key.
struct Line {
  std::string key, text;
  double number = 0;
  bool is_text = false;
};
bool split(std::string_view line, Line* out) {
  line = trimmed(line);
  if (line.empty() || line.front() == '#') return true;
  const auto equals = line.find('=');
  if (equals == std::string_view::npos) return false;
  out->key = trimmed(line.substr(0, equals));
  std::string_view value = trimmed(line.substr(equals + 1));
  if (value.starts_with('"')) {
    const auto end = value.find('"', 1);
    const std::string_view rest = end == std::string_view::npos ? "?" : trimmed(value.substr(end + 1));
    if (!rest.empty() && !rest.starts_with('#')) return false;
    out->text = value.substr(1, end - 1);
    out->is_text = true;
  } else {
    value = trimmed(value.substr(0, value.find('#')));
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out->number);
    if (error != std::errc() || end != value.data() + value.size()) return false;
  }
  return !out->key.empty();
}

std::string apply(const std::vector<Line>& lines, const std::string& path, Profile* out) {
  const auto text = [&lines](std::string_view key, std::string otherwise) {
    for (const Line& line : lines) {
      if (line.key == key && line.is_text) otherwise = line.text;
    }
    return otherwise;
  };
  const std::string like = text("like", "reference");
  const Profile* const base = is_profile_file(like) ? nullptr : find_profile(like);
  if (base == nullptr) return "like: there is no device '" + like + "'";
  *out = *base;
  out->name = kept().keep(path);  // by which it is found again
  out->title = kept().keep(text("title", path));
  const char* const source = kept().keep(text("source", path));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    if (line.key.empty() || line.is_text) continue;
    const auto figure = figures().find(line.key);
    const std::string place = std::to_string(i + 1) + ": ";
    if (figure == figures().end()) return place + "unknown key '" + line.key + "'";
    if (!figure->second(*out, line.number, source)) return place + line.key + " is out of range";
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
  std::vector<Line> lines;
  for (std::string text; std::getline(file, text);) {
    if (!split(text, &lines.emplace_back())) {
      *why = path + ":" + std::to_string(lines.size()) + ": expected key = number or key = \"text\"";
      return nullptr;
    }
    const Line& line = lines.back();
    static constexpr std::string_view kTexts[] = {"like", "title", "source"};
    bool is_known_text = false;
    for (const std::string_view known : kTexts) is_known_text = is_known_text || line.key == known;
    if (!line.key.empty() && line.is_text != is_known_text) {
      *why = path + ":" + std::to_string(lines.size()) + ": " + line.key + " is " +
             (is_known_text  ? "a text"
              : line.is_text ? "no text, or unknown"
                             : "unknown");
      return nullptr;
    }
  }
  Profile profile{};
  if (const std::string wrong = apply(lines, path, &profile); !wrong.empty()) {
    *why = path + ":" + wrong;
    return nullptr;
  }
  return &kept().profiles.emplace(path, profile).first->second;
}

}  // namespace simulator
