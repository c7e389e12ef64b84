// SPDX-License-Identifier: Apache-2.0
// The table of hooked functions against the toolkit's own lists: cudaTypedefs.h gives every version of every driver
// function with its parameters, and the version of CUDA that brought it.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "hooks/exempt.h"
#include "hooks/symbols.h"

namespace thermocline {
namespace {

struct Declared {
  std::string base;
  int since = 0;
  std::string suffix;  // "", "_ptds" or "_ptsz"
  std::string parameters;
};

// Every PFN_<base>_v<since>[suffix] of the header.
std::vector<Declared> declared_functions() {
  std::ifstream file(CUDA_TYPEDEFS);
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  static const std::regex declaration(R"(\*PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)\(([^;]*)\);)");
  std::vector<Declared> found;
  for (auto it = std::sregex_iterator(all.begin(), all.end(), declaration); it != std::sregex_iterator(); ++it) {
    found.push_back({(*it)[1], std::stoi((*it)[2]), (*it)[3], (*it)[4]});
  }
  return found;
}

using Key = std::tuple<std::string, int, bool>;

std::set<Key> hooked_keys() {
  std::set<Key> keys;
  for (const HookedFunction& function : hooked_functions()) {
    keys.emplace(function.base, function.since, function.variant == DefaultStream::kPerThread);
  }
  return keys;
}

bool takes_memory_or_stream(const Declared& function) {
  static const std::regex telling(
      "CUdeviceptr|CUstream\\b|CUmemGenericAllocationHandle|MEMCPY|MEMSET|NODE_PARAMS|NodeParams|CUarrayMapInfo|"
      "RESOURCE_DESC|CUgraphExec\\b|CUtensorMap|LAUNCH_PARAMS|CUlaunchConfig|CUmemDecompressParams");
  return std::regex_search(function.parameters, telling);
}

bool takes_short_address(const Declared& function) {
  return function.parameters.find("CUdeviceptr_v1") != std::string::npos;
}

TEST(FunctionTable, HeaderIsRead) { EXPECT_GT(declared_functions().size(), 500u); }

TEST(FunctionTable, EveryEntryIsAVersionThatTheToolkitKnows) {
  std::set<Key> known;
  for (const Declared& function : declared_functions()) {
    known.emplace(function.base, function.since, !function.suffix.empty());
  }
  for (const auto& [base, since, per_thread] : hooked_keys()) {
    EXPECT_TRUE(known.contains({base, since, per_thread}))
        << base << " of CUDA " << since << (per_thread ? ", per thread" : "");
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
    // "_v2" sorts behind the bare name.
    for (const auto& [symbol, since] : versions) {
      EXPECT_GT(since, before) << symbol;
      before = since;
    }
  }
}

TEST(FunctionTable, BothDefaultStreamsOfAHookedVersionAreHooked) {
  const std::set<Key> hooked = hooked_keys();
  for (const Declared& function : declared_functions()) {
    if (function.suffix.empty()) continue;
    const bool base_is_hooked = has_hooked_base(function.base);
    EXPECT_EQ(hooked.contains({function.base, function.since, true}), base_is_hooked)
        << function.base << function.suffix;
  }
}

TEST(FunctionTable, WhatTakesMemoryOrAStreamIsHookedOrExemptWithAReason) {
  std::map<std::string, std::string> exempt;
#define THERMOCLINE_X(base, reason) exempt.emplace(#base, reason);
  THERMOCLINE_EXEMPT_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
  const std::set<Key> hooked = hooked_keys();
  for (const Declared& function : declared_functions()) {
    if (!takes_memory_or_stream(function) || takes_short_address(function)) continue;
    const bool is_hooked = hooked.contains({function.base, function.since, !function.suffix.empty()});
    const bool is_exempt = exempt.contains(function.base);
    // Structures of the first versions hold 32-bit addresses.
    const bool is_first = function.since <= 3000 && has_hooked_base(function.base);
    EXPECT_TRUE(is_hooked || is_exempt || is_first)
        << function.base << " of CUDA " << function.since << function.suffix << "(" << function.parameters << ")";
    EXPECT_FALSE(is_hooked && is_exempt) << function.base;
  }
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
