// SPDX-License-Identifier: Apache-2.0
// Compares the table of driver functions with the toolkit's own lists: cuda.h declares every function with its
// parameters, and cudaTypedefs.h says which version of CUDA introduced which version of it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "hooks/interpose/symbols.h"

namespace thermocline {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string without_comments(const std::string& text) {
  std::string code;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find("/*", at);
    code.append(text, at, begin - at);
    if (begin == std::string::npos) break;
    const std::size_t end = text.find("*/", begin);
    at = end == std::string::npos ? text.size() : end + 2;
  }
  return code;
}

std::string without_variant(const std::string& symbol) {
  static const std::regex variant("_pt[ds][sz]$");
  return std::regex_replace(symbol, variant, "");
}

std::string base_of(const std::string& symbol) {
  static const std::regex version("_v[2-9]$");
  return std::regex_replace(without_variant(symbol), version, "");
}

template <class Visit>
void for_each(const std::string& text, const std::regex& form, Visit visit) {
  for (auto it = std::sregex_iterator(text.begin(), text.end(), form); it != std::sregex_iterator(); ++it) visit(*it);
}

// The declaration of one version of a function in cudaTypedefs.h.
struct Declared {
  std::string base;
  int since = 0;
  bool per_thread = false;
};

// One cuda.h with its cudaTypedefs.h.
struct Headers {
  std::string folder;
  int version = 0;
  std::set<std::string> symbols;                               // the names that the driver exports
  std::map<std::string, std::set<std::string>> parameters;     // names, by base
  std::map<std::string, std::set<std::string>> stream_params;  // parameters of type CUstream, by base
  std::vector<Declared> declared;
};

void add_parameters(const std::string& base, const std::string& list, Headers* headers) {
  std::stringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    static const std::regex last_word(R"((\w+)\s*(\[\])?\s*$)");
    std::smatch name;
    if (!std::regex_search(part, name, last_word)) continue;
    headers->parameters[base].insert(name[1]);
    if (part.find("CUstream ") != std::string::npos) headers->stream_params[base].insert(name[1]);
  }
}

Headers read_headers(const std::string& folder) {
  Headers headers;
  headers.folder = folder;
  const std::string code = without_comments(read_file(folder + "/cuda.h"));
  for_each(code, std::regex(R"(#define CUDA_VERSION (\d+))"),
           [&](const std::smatch& found) { headers.version = std::stoi(found[1]); });
  for_each(code, std::regex(R"(CUDAAPI\s+(cu[A-Z]\w*)\s*\(([^;]*?)\)\s*;)"), [&](const std::smatch& found) {
    headers.symbols.insert(found[1]);
    add_parameters(base_of(found[1]), found[2], &headers);
  });
  // The exported name of a declared function.
  for_each(code, std::regex(R"(#\s*define\s+cu\w+\s+(cu\w+_v\d)\s)"),
           [&](const std::smatch& found) { headers.symbols.insert(found[1]); });
  for_each(code, std::regex(R"(__CUDA_API_PT(DS|SZ)\((cu\w+)\))"), [&](const std::smatch& found) {
    headers.symbols.insert(found[2]);
    headers.symbols.insert(std::string(found[2]) + (found[1] == "DS" ? "_ptds" : "_ptsz"));
  });
  for_each(read_file(folder + "/cudaTypedefs.h"), std::regex(R"(\*PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)\()"),
           [&](const std::smatch& found) {
             headers.declared.push_back({found[1], std::stoi(found[2]), found[3].matched});
           });
  return headers;
}

// The headers of the build, and others if there are any (THERMOCLINE_CUDA_HEADERS: folders, separated by colons).
const std::vector<Headers>& all_headers() {
  static const std::vector<Headers> all = [] {
    std::vector<Headers> read = {read_headers(CUDA_INCLUDE_FOLDER)};
    const char* more = std::getenv("THERMOCLINE_CUDA_HEADERS");
    std::stringstream folders(more == nullptr ? "" : more);
    for (std::string folder; std::getline(folders, folder, ':');) read.push_back(read_headers(folder));
    return read;
  }();
  return all;
}

// By symbol: the reason.
std::map<std::string, std::string> passed_symbols() {
  std::map<std::string, std::string> passed;
  const auto add = [&](const char* why, const char* symbols) {
    std::stringstream words(symbols);
    for (std::string symbol; words >> symbol;) {
      EXPECT_TRUE(passed.emplace(symbol, why).second) << symbol << " stands twice";
    }
  };
#define THERMOCLINE_X(why, symbols) add(why, symbols);
  THERMOCLINE_PASSED_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
#define THERMOCLINE_X(symbol) add("called", #symbol);
  THERMOCLINE_CALLED_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
  return passed;
}

using Key = std::tuple<std::string, int, bool>;

std::set<Key> hooked_keys() {
  std::set<Key> keys;
  for (const HookedFunction& function : hooked_functions()) {
    keys.emplace(function.base, function.since, function.variant == DefaultStream::kPerThread);
  }
  return keys;
}

TEST(FunctionTable, HeadersAreRead) {
  for (const Headers& headers : all_headers()) {
    EXPECT_GE(headers.version, 12000) << headers.folder;
    EXPECT_GT(headers.symbols.size(), 490u) << headers.folder;
    EXPECT_GT(headers.declared.size(), 500u) << headers.folder;
    EXPECT_TRUE(headers.symbols.contains("cuMemcpyHtoDAsync_v2_ptsz"));
    EXPECT_TRUE(headers.stream_params.at("cuLaunchKernel").contains("hStream"));
  }
}

TEST(FunctionTable, EverySymbolOfTheHeaderStandsInIt) {
  const std::map<std::string, std::string> passed = passed_symbols();
  for (const Headers& headers : all_headers()) {
    for (const std::string& symbol : headers.symbols) {
      const bool is_hooked = find_hooked(symbol) >= 0;
      const bool is_passed = passed.contains(without_variant(symbol));
      EXPECT_TRUE(is_hooked || is_passed) << symbol << " of CUDA " << headers.version;
      EXPECT_FALSE(is_hooked && is_passed) << symbol;
    }
  }
}

TEST(FunctionTable, EveryVersionOfTheTypedefsStandsInIt) {
  std::map<std::string, std::set<std::string>> passed_by_base;
  for (const auto& [symbol, why] : passed_symbols()) passed_by_base[base_of(symbol)].insert(why);
  const std::set<Key> hooked = hooked_keys();
  for (const Headers& headers : all_headers()) {
    for (const Declared& function : headers.declared) {
      if (hooked.contains({function.base, function.since, function.per_thread})) continue;
      const std::string said = function.base + " of CUDA " + std::to_string(function.since);
      // A name that cuGetProcAddress knows but that is no symbol; it resolves to cuGraphInstantiate_v2 and others.
      const std::string base = function.base == "cuGraphInstantiateWithFlags" ? "cuGraphInstantiate" : function.base;
      ASSERT_TRUE(passed_by_base.contains(base)) << said;
      // Only the first versions of a hooked function may be passed.
      EXPECT_TRUE(!has_hooked_base(base) || function.since < 3020) << said;
    }
  }
}

TEST(FunctionTable, EveryHookIsAVersionThatTheToolkitKnows) {
  for (const Headers& headers : all_headers()) {
    std::set<Key> known;
    for (const Declared& function : headers.declared) {
      known.emplace(function.base, function.since, function.per_thread);
    }
    for (const HookedFunction& function : hooked_functions()) {
      // Some functions exist before their header says so.
      if (function.since > headers.version || !headers.symbols.contains(function.symbol)) continue;
      const bool per_thread = function.variant == DefaultStream::kPerThread;
      EXPECT_TRUE(known.contains({function.base, function.since, per_thread}))
          << function.symbol << " of CUDA " << function.since << " in " << headers.version;
    }
  }
}

TEST(FunctionTable, SymbolIsTheBaseWithAVersionAndTheVariant) {
  for (const HookedFunction& function : hooked_functions()) {
    const std::regex form(std::string(function.base) + "(_v[2-9])?" +
                          (function.variant == DefaultStream::kPerThread ? "_pt[ds][sz]" : ""));
    EXPECT_TRUE(std::regex_match(function.symbol, form)) << function.symbol;
  }
}

TEST(FunctionTable, NewerSymbolCameWithANewerCuda) {
  std::map<std::pair<std::string, bool>, std::map<std::string, int>> by_base;
  for (const HookedFunction& function : hooked_functions()) {
    by_base[{function.base, function.variant == DefaultStream::kPerThread}][function.symbol] = function.since;
  }
  for (const auto& [base, versions] : by_base) {
    int before = 0;
    // "_v2" sorts after the bare name.
    for (const auto& [symbol, since] : versions) {
      EXPECT_GT(since, before) << symbol;
      before = since;
    }
  }
}

TEST(FunctionTable, BothDefaultStreamsOfAHookedSymbolAreHooked) {
  for (const Headers& headers : all_headers()) {
    for (const std::string& symbol : headers.symbols) {
      if (without_variant(symbol) == symbol) continue;
      EXPECT_EQ(find_hooked(symbol) >= 0, find_hooked(without_variant(symbol)) >= 0) << symbol;
    }
  }
  for (const HookedFunction& function : hooked_functions()) {
    const std::string does = function.does;
    const bool on_the_default_stream = does.ends_with("; on the default stream");
    EXPECT_EQ(on_the_default_stream, std::string(function.symbol).ends_with("_ptds") ||
                                         find_hooked(std::string(function.symbol) + "_ptds") >= 0)
        << function.symbol;
  }
}

// Verbs followed by parameters: "reads srcs; writes dsts; on hStream".
TEST(FunctionTable, WhatAFunctionDoesIsSaidOfItsParameters) {
  const std::set<std::string> about_parameters = {"gives", "frees",   "maps", "reads",   "writes", "accesses", "keeps",
                                                  "names", "forgets", "ends", "records", "counts", "finds",    "makes"};
  const std::set<std::string> others = {"asks", "waits", "on", "tells", "behind", "counted"};
  const Headers& headers = all_headers().front();
  for (const HookedFunction& function : hooked_functions()) {
    if (!headers.parameters.contains(function.base)) continue;  // newer than the header
    const std::set<std::string>& parameters = headers.parameters.at(function.base);
    std::stringstream parts(function.does);
    bool names_stream = false;
    for (std::string part; std::getline(parts, part, ';');) {
      std::stringstream words(part);
      std::string verb, object;
      words >> verb >> object;
      if (object.ends_with(',')) object.pop_back();
      EXPECT_TRUE(about_parameters.contains(verb) || others.contains(verb)) << function.symbol << ": " << part;
      const bool is_launch_by_hand = object == "everything" || object == "what";
      if (about_parameters.contains(verb) && !is_launch_by_hand) {
        EXPECT_TRUE(parameters.contains(object)) << function.symbol << ": " << part;
      }
      if (headers.stream_params.contains(function.base)) {
        names_stream = names_stream || headers.stream_params.at(function.base).contains(object);
      }
    }
    EXPECT_EQ(names_stream, headers.stream_params.contains(function.base)) << function.symbol << ": " << function.does;
  }
}

// A function that has a variant for each default stream adds to a stream, unless it only asks or waits for it, or begins
// or ends what it records.
TEST(FunctionTable, SaysWhenEachFunctionWaits) {
  static const std::regex synchronizes(
      "Synchronize|^cuCtx(Destroy|Detach)|^cuGreenCtxDestroy|PrimaryCtxRe(lease|set)|^cuMemFree_|^cuArrayDestroy|"
      "Unload");
  static const std::regex maps("^cuMem(Map|Unmap)$");
  static const std::regex asks("^cuStream(Query|Is|Get|Set|BeginCapture|BeginRecapture|EndCapture|Update|Copy|Attach)");
  std::size_t all = 0;
  const auto check = [&](const std::string& symbol, bool has_variants) {
    const auto waits = waits_of(static_cast<Function>(all++));
    if (std::regex_search(symbol, synchronizes)) {
      EXPECT_EQ(waits, Waits::kAlways) << symbol;
    } else if (std::regex_search(symbol, maps)) {
      EXPECT_EQ(waits, Waits::kForBlockedStreams) << symbol;
    } else if (has_variants && !std::regex_search(symbol, asks)) {
      EXPECT_EQ(waits, Waits::kForRoom) << symbol;
    } else {
      EXPECT_NE(waits, Waits::kAlways) << symbol;
      EXPECT_NE(waits, Waits::kForBlockedStreams) << symbol;
    }
  };
  for (const HookedFunction& one : hooked_functions()) check(one.symbol, one.variant != DefaultStream::kAny);
  for (const char* symbol : {
#define THERMOCLINE_X(symbol) #symbol,
           THERMOCLINE_CALLED_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
       })
    check(symbol, false);
}

TEST(FunctionTable, EveryHookHasAnAddressOfItsOwn) {
  std::set<void*> addresses;
  for (std::size_t i = 0; i < hooked_functions().size(); ++i) {
    void* hook = hook_of(static_cast<int>(i));
    ASSERT_NE(hook, nullptr) << hooked_functions()[i].symbol;
    EXPECT_TRUE(addresses.insert(hook).second) << hooked_functions()[i].symbol;
    EXPECT_EQ(find_hooked(hooked_functions()[i].symbol), static_cast<int>(i));
  }
}

TEST(FunctionTable, NamesThatAreNotHookedAreNotFound) {
  for (const char* name : {"cuInit", "cuMemAlloc", "cuMemAlloc_v3", "cudaMalloc", "cublasCreate_v2", ""}) {
    EXPECT_EQ(find_hooked(name), -1) << name;
  }
}

}  // namespace
}  // namespace thermocline
