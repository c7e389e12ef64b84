// SPDX-License-Identifier: Apache-2.0
#include "simulator/faults/faults.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "simulator/core/hash.h"
#include "simulator/faults/catalogue.h"

namespace simulator {
namespace {

constexpr std::uint64_t kMostSaid = 20;

constexpr std::string_view kAllocating[] = {"cuMemCreate",     "cuMemAlloc",        "cuMemAllocPitch",
                                            "cuMemAllocAsync", "cuMemAllocManaged", "cuMemAllocFromPoolAsync",
                                            "cuMemAllocHost",  "cuMemHostAlloc",    "cuMemHostRegister"};

bool allocates(std::string_view function) {
  return std::find(std::begin(kAllocating), std::end(kAllocating), function) != std::end(kAllocating);
}

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](std::string_view b) { return name.starts_with(b); });
}

}  // namespace

Faults::Faults(FaultPlan plan) : plan_(std::move(plan)) {
  for (const FaultRule& rule : plan_.rules) {
    (rule.function.empty() ? allocations_ : counters_[rule.function]).rules.push_back(&rule);
  }
}

bool Faults::fires(const FaultRule& rule, std::uint64_t call) const {
  switch (rule.when) {
    case FaultRule::When::kCall:
      return call == rule.number;
    case FaultRule::When::kFrom:
      return call >= rule.number;
    case FaultRule::When::kEvery:
      return call % rule.number == 0;
    case FaultRule::When::kChance:
      return combine(combine(plan_.seed, hash_text(rule.function)), call) % 1'000'000 < rule.number;
  }
  return false;
}

CUresult Faults::check(Counter& counter, std::string_view function) {
  if (counter.rules.empty()) return CUDA_SUCCESS;
  ++counter.calls;
  for (const FaultRule* rule : counter.rules) {
    if (!fires(*rule, counter.calls)) continue;
    if (++count_ <= kMostSaid) {
      std::fprintf(stderr, "simulated device: fault: call %llu of %s answers %s\n",
                   static_cast<unsigned long long>(counter.calls), std::string(function).c_str(),
                   std::string(name_of(rule->error)).c_str());
    }
    return rule->error;
  }
  return CUDA_SUCCESS;
}

bool Faults::lacks(std::string_view symbol) const { return plan_.without.count(plain_name(symbol)) != 0; }

CUresult Faults::on_call(std::string_view symbol) {
  const std::string_view function = plain_name(symbol);
  if (plan_.without.count(function) != 0) return CUDA_ERROR_NOT_FOUND;
  if (plan_.no_virtual_memory &&
      starts_with_any(function, {"cuMemAddress", "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemSetAccess",
                                 "cuMemGetAllocationGranularity", "cuMemRelease", "cuMemRetainAllocationHandle"})) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (plan_.no_memory_pools &&
      (starts_with_any(function, {"cuMemPool", "cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemFreeAsync"}))) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (const auto counter = counters_.find(function); counter != counters_.end()) {
    if (const CUresult error = check(counter->second, function); error != CUDA_SUCCESS) return error;
  }
  return allocates(function) ? check(allocations_, function) : CUDA_SUCCESS;
}

Time jittered(const FaultPlan& plan, Time duration, std::uint64_t ordinal) {
  if (plan.jitter == 0) return duration;
  constexpr double kRange = 18446744073709551616.0;  // 2^64
  const double share = static_cast<double>(combine(plan.seed, ordinal)) / kRange * 2 - 1;
  return std::max<Time>(0, std::llround(static_cast<double>(duration) * (1 + plan.jitter * share)));
}

}  // namespace simulator
