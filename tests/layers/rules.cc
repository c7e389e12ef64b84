// SPDX-License-Identifier: Apache-2.0
// The table of layers, and what follows from it.
#include "tests/layers/rules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <regex>
#include <sstream>

namespace layers {
namespace {

// The files that a folder may include: of lower layers, its own, and the public header (height 0: it includes none).
struct Folder {
  std::string_view name;
  int height;
  bool may_use_simulator;  // its public headers
  bool names_driver;       // may call cu* functions and include cuda.h
};

constexpr int kAside = -1;  // may include only itself

constexpr std::array kFolders = {
    Folder{"include", 0, false, false},      Folder{"driver", 1, false, true},
    Folder{"allocator", 2, false, false},    Folder{"offload", 3, false, false},
    Folder{"telemetry", 4, false, false},    Folder{"config", 4, false, false},
    Folder{"hooks", 5, false, true},         Folder{"trace", 6, true, false},
    Folder{"tool", 7, true, false},          Folder{"integrations", 7, false, false},
    Folder{"simulator", kAside, true, true}, Folder{"examples", 1, false, true},
    Folder{"tests", 8, true, true},          Folder{"bench", 8, true, true},
    Folder{"cmake", kAside, false, false},
};

// The folders inside a layer (or inside one of its folders), bottom to top: each may include those before it, and the
// files of the parent folder itself.
struct Inside {
  std::string_view parent;
  std::array<std::string_view, 12> folders;
};

constexpr std::array kInside = {
    Inside{"offload",
           {"page_assignment", "digest", "spill", "residency", "pointers", "planning", "recompute", "policy", "sharing",
            "engine"}},
    Inside{"hooks",
           {"interpose", "operands", "runtime", "capture", "relaunch", "diagnostics", "pointers", "submit", "graphs",
            "entry", "nccl", "api"}},
    Inside{"simulator", {"cudart", "image", "ptx", "check", "faults", "core", "cuda"}},
    Inside{"simulator/core", {"memory", "streams", "execution", "machine"}},
};

// Files of folders of the simulator that count as files of simulator/ itself: they include nothing but each other.
constexpr std::array<std::string_view, 4> kSimulatorBasics = {"simulator/core/types.h", "simulator/core/check.h",
                                                              "simulator/core/hash.h", "simulator/cuda/errors.def"};

// Includes nothing of the project, so all may include it.
constexpr std::string_view kForAll = "config/tomlplusplus.h";

constexpr std::array<std::string_view, 4> kSimulatorHeaders = {"simulator/profile.h", "simulator/control.h",
                                                               "simulator/fault_check.h", "simulator/settings_check.h"};

std::string_view first_folder(std::string_view path) { return path.substr(0, path.find('/')); }

const Folder* find_folder(std::string_view name) {
  const auto found = std::ranges::find(kFolders, name, &Folder::name);
  return found == kFolders.end() ? nullptr : &*found;
}

// The folder whose rules apply to a file: a test of a layer may name the driver if that layer may, or if it implements
// a driver (fake_driver).
Folder rules_of(std::string_view path) {
  const Folder* folder = find_folder(first_folder(path));
  Folder rules = folder ? *folder : Folder{first_folder(path), kAside, false, false};
  if (rules.name == "tests" && path.size() > 6) {
    const Folder* tested = find_folder(first_folder(path.substr(6)));
    rules.names_driver = !tested || tested->names_driver || path.find("/fake_driver.") != path.npos;
  }
  return rules;
}

bool is_in(std::string_view path, std::string_view parent) {
  return path.starts_with(parent) && path.substr(parent.size()).starts_with('/');
}

// The folder inside `parent` that contains the file; empty: the parent itself.
std::string_view folder_inside(std::string_view path, std::string_view parent) {
  if (parent == "simulator" && std::ranges::find(kSimulatorBasics, path) != kSimulatorBasics.end()) return {};
  path.remove_prefix(parent.size() + 1);
  const auto end = path.find('/');
  return end == path.npos ? std::string_view() : path.substr(0, end);
}

std::optional<std::string> why_not_inside(std::string_view from, std::string_view to) {
  for (const auto& [parent, folders] : kInside) {
    if (!is_in(from, parent) || !is_in(to, parent)) continue;
    const auto height = [&folders](std::string_view folder) -> std::ptrdiff_t {
      return folder.empty() ? -1 : std::ranges::find(folders, folder) - folders.begin();
    };
    const std::string_view above = folder_inside(from, parent);
    const std::string_view below = folder_inside(to, parent);
    if (height(below) <= height(above)) continue;
    return std::string(parent) + (above.empty() ? "" : "/" + std::string(above)) + " must not include " +
           std::string(parent) + "/" + std::string(below) + "/, which is not below it";
  }
  return std::nullopt;
}

std::optional<std::string> why_not(const std::string& from, const std::string& to) {
  const Folder rules = rules_of(from);
  const Folder* target = find_folder(first_folder(to));
  if (!target || to == kForAll) return std::nullopt;
  if (target->name == rules.name) return why_not_inside(from, to);
  if (target->name == "simulator") {
    const bool open = std::ranges::find(kSimulatorHeaders, to) != kSimulatorHeaders.end();
    const bool is_its_test =
        from.starts_with("tests/simulator/") ||
        (from.starts_with("tests/simulated_cudart/") && to.starts_with("simulator/cudart/")) ||
        ((from.starts_with("tests/ptx/") || from.starts_with("tests/directions/")) &&
         to.starts_with("simulator/ptx/")) ||
        (from.starts_with("tests/fuzz/") && (to.starts_with("simulator/ptx/") || to.starts_with("simulator/image/")));
    if (is_its_test || (rules.may_use_simulator && open)) {
      return std::nullopt;
    }
    return rules.may_use_simulator
               ? "of the simulator only profile.h, control.h, fault_check.h and settings_check.h may be included"
               : std::string(rules.name) + "/ must not know the simulator";
  }
  if (target->height < rules.height) {
    return std::nullopt;
  }
  return std::string(rules.name) + "/ must not include " + std::string(target->name) + "/, which is not below it";
}

struct Include {
  std::size_t line;
  std::string path;
  bool quoted;
};

std::vector<Include> includes_of(const std::string& text) {
  static const std::regex directive(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"].*$)");
  std::vector<Include> found;
  // Comments are blanked to see which lines count, but that also blanks the quoted names: these are read from the
  // original text.
  std::istringstream code(code_only(text));
  std::istringstream lines(text);
  std::string code_line;
  std::string line;
  for (std::size_t number = 1; std::getline(code, code_line) && std::getline(lines, line); ++number) {
    std::smatch match;
    if (code_line.find('#') != std::string::npos && std::regex_match(line, match, directive)) {
      found.push_back({number, match[2], match[1] == "\""});
    }
  }
  return found;
}

std::string public_header(const std::string& path) {
  return path.starts_with("thermocline/") ? "include/" + path : path;
}

}  // namespace

bool is_known_folder(std::string_view folder) { return find_folder(folder) != nullptr; }

std::vector<Violation> check_includes(const Source& source, const Exists& exists) {
  std::vector<Violation> violations;
  const std::string folder = source.path.substr(0, source.path.rfind('/') + 1);
  for (const Include& include : includes_of(source.text)) {
    const std::string path = public_header(include.path);
    const bool at_root = exists(path) || find_folder(first_folder(path));
    if (include.quoted && (path.starts_with("../") || (!at_root && exists(folder + path)))) {
      violations.push_back({source.path, include.line, "\"" + path + "\" must be written from the repository root"});
    } else if (const auto reason = why_not(source.path, path)) {
      violations.push_back({source.path, include.line, *reason + " (" + path + ")"});
    } else if (path == "cuda.h" && !rules_of(source.path).names_driver) {
      violations.push_back({source.path, include.line, "only driver/, hooks/ and simulator/ include cuda.h"});
    }
  }
  return violations;
}

std::vector<Violation> check_driver_names(const Source& source) {
  static const std::regex driver_function(R"(\bcu[A-Z]\w*)");
  std::vector<Violation> violations;
  if (rules_of(source.path).names_driver) {
    return violations;
  }
  std::istringstream code(code_only(source.text));
  std::string line;
  for (std::size_t number = 1; std::getline(code, line); ++number) {
    std::smatch match;
    if (std::regex_search(line, match, driver_function)) {
      violations.push_back({source.path, number, "names the driver function " + match.str()});
    }
  }
  return violations;
}

std::vector<Violation> check_single_places(const Source& source) {
  struct Rule {
    std::string_view hint;  // in all that the pattern matches: looking for it is hundreds of times faster
    std::regex pattern;
    std::string_view folder;  // "": all that are shipped
    std::string_view but;     // the one place
    std::string_view reason;
  };
  static const std::array rules = {
      Rule{"mutex",
           std::regex(
               R"(\bstd::(recursive_|timed_|recursive_timed_|shared_|shared_timed_)?mutex\b|\bpthread_mutex_t\b)"),
           "", "driver/locks.h", "a mutex without a level: Mutex and SharedMutex of driver/locks.h have one"},
      Rule{"olicy", std::regex(R"([=!]= *k[A-Z]\w*Policy\b|\bk[A-Z]\w*Policy *[=!]=|policy->name\)? *[=!]=)"), "",
           "offload/policies.h", "a policy is compared: its entry in offload/policies.h says what it can do"},
      Rule{"static", std::regex(R"(\bstatic [\w:<> ]+\* *(const )?\w+ *= *(new|\[))"), "hooks",
           "hooks/interpose/process_lifetime.h", "an object that is never destroyed, without process_lifetime"},
  };
  constexpr std::array<std::string_view, 8> kShipped = {"driver", "allocator", "offload", "telemetry",
                                                        "config", "hooks",     "trace",   "tool"};
  const std::string_view folder = first_folder(source.path);
  if (std::ranges::find(kShipped, folder) == kShipped.end()) return {};
  std::vector<Violation> violations;
  std::istringstream code(code_only(source.text));
  std::string line;
  for (std::size_t number = 1; std::getline(code, line); ++number) {
    for (const Rule& rule : rules) {
      if (line.find(rule.hint) == line.npos || rule.but == source.path) continue;
      if ((rule.folder.empty() || rule.folder == folder) && std::regex_search(line, rule.pattern)) {
        violations.push_back({source.path, number, std::string(rule.reason)});
      }
    }
  }
  return violations;
}

std::vector<std::string> process_lifetimes(const Source& source) {
  static const std::regex use(R"(\bprocess_lifetime<((\w|::|, )+(<[^>]*>)?)>\(\))");
  std::vector<std::string> found;
  if (first_folder(source.path) != "hooks" || source.text.find("process_lifetime<") == std::string::npos) return found;
  const std::string code = code_only(source.text);
  for (auto at = std::sregex_iterator(code.begin(), code.end(), use); at != std::sregex_iterator(); ++at) {
    found.push_back(source.path.substr(6) + ": " + (*at)[1].str());
  }
  return found;
}

std::vector<Violation> check_length(const Source& source) {
  const auto lines = static_cast<std::size_t>(std::ranges::count(source.text, '\n'));
  if (lines <= kMostLines) {
    return {};
  }
  return {{source.path, lines, "is longer than " + std::to_string(kMostLines) + " lines"}};
}

std::string describe(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& violation : violations) {
    text += violation.path + ":" + std::to_string(violation.line) + ": " + violation.reason + "\n";
  }
  return text;
}

}  // namespace layers
