// SPDX-License-Identifier: Apache-2.0
#include "config/toml_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
// toml++ 3.3 asserts things of its input, "[=" say, that it goes on to find and to report, and with NDEBUG may tell the
// compiler that they are so. A settings file must not end a program.
#define TOML_ASSERT(expr) static_assert(true)
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace thermocline {
namespace {

// 0, or errno.
int read_file(const std::string& path, std::string* out) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return errno;
  char chunk[4096];
  errno = 0;
  for (std::size_t n = 0; (n = std::fread(chunk, 1, sizeof chunk, file)) > 0;) out->append(chunk, n);
  const int error = std::ferror(file) != 0 ? errno : 0;
  std::fclose(file);
  return error;
}

const char* type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::array:
      return "an array";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return "a date";
    default:
      return "a value of another type";
  }
}

TomlEntry entry_of(std::string key, const toml::node& node) {
  TomlEntry entry{.key = std::move(key), .text = type_name(node)};
  if (const auto* text = node.as_string()) {
    entry.kind = TomlEntry::Kind::kString;
    entry.text = text->get();
  } else if (const auto* number = node.as_integer()) {
    entry.kind = TomlEntry::Kind::kInteger;
    entry.text = std::to_string(number->get());
  } else if (const auto* flag = node.as_boolean()) {
    entry.kind = TomlEntry::Kind::kBool;
    entry.text = flag->get() ? "true" : "false";
  }
  return entry;
}

void flatten(const toml::table& table, const std::string& prefix, std::vector<TomlEntry>* entries) {
  for (const auto& [key, node] : table) {
    const std::string path = prefix + std::string(key.str());
    if (const auto* inner = node.as_table(); inner != nullptr && !inner->empty()) {
      flatten(*inner, path + ".", entries);
      continue;
    }
    TomlEntry entry = entry_of(path, node);
    entry.line = static_cast<int>(key.source().begin.line);
    entry.column = static_cast<int>(key.source().begin.column);
    entries->push_back(std::move(entry));
  }
}

}  // namespace

TomlResult read_toml(const std::string& path, std::vector<TomlEntry>* entries, std::vector<Problem>* problems) {
  std::string content;
  if (const int error = read_file(path, &content); error != 0) {
    if (error == ENOENT || error == ENOTDIR) return TomlResult::kMissing;
    problems->push_back({.source = path, .message = std::string("can not be read: ") + std::strerror(error)});
    return TomlResult::kFailed;
  }
  const toml::parse_result parsed = toml::parse(content, path);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    problems->push_back({.source = path,
                         .line = static_cast<int>(error.source().begin.line),
                         .column = static_cast<int>(error.source().begin.column),
                         .message = std::string(error.description())});
    return TomlResult::kFailed;
  }
  const auto first = static_cast<std::ptrdiff_t>(entries->size());
  flatten(parsed.table(), "", entries);
  // In the order of the file, not of toml++'s map.
  std::stable_sort(entries->begin() + first, entries->end(), [](const TomlEntry& a, const TomlEntry& b) {
    return a.line != b.line ? a.line < b.line : a.column < b.column;
  });
  return TomlResult::kRead;
}

}  // namespace thermocline
