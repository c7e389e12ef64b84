// SPDX-License-Identifier: Apache-2.0
#include "config/toml_file.h"

#include <algorithm>
#include <string_view>

#include "config/tomlplusplus.h"
#include "config/trusted_file.h"

namespace thermocline {
namespace {

// toml++ parses and destroys nested values recursively, and the thread may have a small stack. The library's keys have
// no dots at all.
constexpr int kMostDots = 32;

// The position after the string that begins at `at`; the end of the text if the string does not end.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool is_long = text.substr(at).starts_with(three);
  for (at += is_long ? 3 : 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (!is_long && (text[at] == quote || text[at] == '\n')) {
      return at + 1;
    } else if (is_long && text.substr(at).starts_with(three)) {
      // One or two extra quotes belong to the content of the string.
      const std::size_t end = std::min(text.find_first_not_of(quote, at), text.size());
      return std::min(end, at + 5);
    }
  }
  return text.size();
}

// Checks outside of strings and comments; returns the line of the first dot too many, or 0.
int line_of_dot_too_many(std::string_view text) {
  int line = 1, dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t next = at + 1;
    if (text[at] == '"' || text[at] == '\'') next = end_of_string(text, at);
    if (text[at] == '#') next = std::min(text.find('\n', at), text.size());
    if (text[at] == '.' && ++dots > kMostDots) return line;
    line += static_cast<int>(std::ranges::count(text.substr(at, next - at), '\n'));
    at = next;
  }
  return 0;
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

std::string_view line_of(std::string_view text, std::size_t number) {
  for (; number > 1 && !text.empty(); --number) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.find('\n'));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const std::size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// The likely meaning of a line that is not TOML: `budget = "3GiB"` for `budget = 3GiB` and `policy = "none"` for
// `policy = "none`. Empty if it is not known.
std::string meant_by(std::string_view line) {
  constexpr std::string_view kQuotes = "\"'";
  line = line.substr(0, line.find('#'));
  const std::size_t equals = line.find('=');
  constexpr std::size_t kLongest = 100;  // of a line that is worth repeating
  if (equals == std::string_view::npos || line.size() > kLongest) return "";
  std::string_view value = trimmed(line.substr(equals + 1));
  if (!value.empty() && kQuotes.find(value.front()) != std::string_view::npos) value.remove_prefix(1);
  if (!value.empty() && kQuotes.find(value.back()) != std::string_view::npos) value.remove_suffix(1);
  if (value.empty() || value.find_first_of("\"'[]{}\\") != std::string_view::npos) return "";
  // A number that is too large is too large in quotes, too.
  if (value.find_first_not_of("0123456789") == std::string_view::npos) return "";
  return std::string(trimmed(line.substr(0, equals))) + " = \"" + std::string(value) + "\"";
}

// If a line is TOML, setting a key twice is an error that needs no other spelling.
std::string suggestion_for(std::string_view line) { return toml::parse(trimmed(line)) ? "" : meant_by(line); }

}  // namespace

TomlResult read_toml(const std::string& path, std::vector<TomlEntry>* entries, std::vector<Problem>* problems) {
  std::string content;
  std::string why;
  const FileRead read = read_trusted_file(path, &content, &why);
  if (read == FileRead::kMissing) return TomlResult::kMissing;
  if (read == FileRead::kRefused) {
    problems->push_back({.source = path, .message = why});
    return TomlResult::kFailed;
  }
  if (const int line = line_of_dot_too_many(content); line > 0) {
    problems->push_back({.source = path, .line = line, .message = "has tables within tables; settings are in none"});
    return TomlResult::kFailed;
  }
  const toml::parse_result parsed = toml::parse(content, path);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    problems->push_back({.source = path,
                         .line = static_cast<int>(error.source().begin.line),
                         .column = static_cast<int>(error.source().begin.column),
                         .message = std::string(error.description()),
                         .suggestion = suggestion_for(line_of(content, error.source().begin.line))});
    return TomlResult::kFailed;
  }
  const auto first = static_cast<std::ptrdiff_t>(entries->size());
  flatten(parsed.table(), "", entries);
  // toml++ returns a map; restore the order of the file.
  std::stable_sort(entries->begin() + first, entries->end(), [](const TomlEntry& a, const TomlEntry& b) {
    return a.line != b.line ? a.line < b.line : a.column < b.column;
  });
  return TomlResult::kRead;
}

}  // namespace thermocline
