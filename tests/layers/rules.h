// SPDX-License-Identifier: Apache-2.0
// The rules that separate the layers, as functions of one source file's text, so that they can be tested with wrong
// files that are not in the repository. The rules are described in docs/building.md; the table of layers is in
// rules.cc.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace layers {

constexpr std::size_t kMostLines = 600;

struct Source {
  std::string path;  // from the repository root, with forward slashes
  std::string text;
};

struct Violation {
  std::string path;
  std::size_t line;
  std::string reason;
};

// Returns whether the repository has this file (path from the root).
using Exists = std::function<bool(const std::string&)>;

// The text with comments and the contents of string and character literals blanked; line breaks are kept.
std::string code_only(std::string_view text);

std::vector<Violation> check_includes(const Source& source, const Exists& exists);
std::vector<Violation> check_driver_names(const Source& source);
std::vector<Violation> check_length(const Source& source);
// Three things that code must do in one way only: mutexes have a level (driver/locks.h), policies are asked what they
// can do (offload/policies.h), and objects that the hooks never destroy are made by process_lifetime.
std::vector<Violation> check_single_places(const Source& source);
// The types that the hooks' files give to process_lifetime, each as "file: type".
std::vector<std::string> process_lifetimes(const Source& source);

// Folders at the root that may hold source files.
bool is_known_folder(std::string_view folder);

std::string describe(const std::vector<Violation>& violations);

}  // namespace layers
