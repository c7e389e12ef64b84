// SPDX-License-Identifier: Apache-2.0
// The environment of a rule: a driver that was initialized as far as the rule requested, checks that end the rule when
// they fail, and shorthands for what most rules need. A rule runs in a process of its own (run.h), so nothing is
// released at its end.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/driver.h"
#include "tests/conformance/rule.h"

namespace conformance {

// Thrown by a failed check: the driver violates the rule, or the device does not support it.
struct Disagreement {
  std::string what;
};
struct NotSupported {
  std::string what;
};

class Session {
 public:
  // `announce` is called with the text of each checked call before it is made: the last one shows where a rule crashed.
  Session(const Driver& cu, std::function<void(const char*)> announce) : cu_(cu), announce_(std::move(announce)) {}

  const Driver& driver() const { return cu_; }
  void begin(const Rule& rule);

  // Use the macros below. If several results are allowed, the actual one is recorded.
  void announce(const char* call) { announce_(call); }
  void require(CUresult result, const char* call, std::initializer_list<CUresult> allowed);
  void require_failure(CUresult result, const char* call);
  void require_refusal(CUresult result, const char* call);
  bool failed(CUresult result, const char* call);
  void require_that(bool holds, const char* sentence);
  void note(const std::string& text) { answers_.push_back(text); }
  const std::vector<std::string>& answers() const { return answers_; }

  int attribute(CUdevice_attribute attribute);

  // Memory. The words are of 32 bits.
  CUdeviceptr allocate(std::size_t bytes);
  void* pinned(std::size_t bytes);
  void write(CUdeviceptr to, const std::vector<std::uint32_t>& words);
  std::vector<std::uint32_t> read(CUdeviceptr from, std::size_t words);
  bool holds(CUdeviceptr at, std::size_t words, std::uint32_t value);
  std::size_t free_memory();

  // Mappings, of the smallest granularity.
  CUmemAllocationProp properties();
  std::size_t granule();
  CUdeviceptr reserve(std::size_t bytes);
  CUmemGenericAllocationHandle create(std::size_t bytes);
  void map(CUdeviceptr at, std::size_t bytes, CUmemGenericAllocationHandle handle);
  void grant(CUdeviceptr at, std::size_t bytes, CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUresult set_access(CUdeviceptr at, std::size_t bytes, CUmemAccess_flags flags);
  unsigned long long access_of(CUdeviceptr at);
  CUdeviceptr mapped(std::size_t bytes);  // all of the above at once

  // Streams and events.
  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING);
  CUevent event(unsigned flags = CU_EVENT_DISABLE_TIMING);
  void prepare_busy();          // what keep_busy needs, so that it does not allocate
  void keep_busy(CUstream in);  // some milliseconds of copying
  void synchronize();

  // Kernels (kernels.h).
  CUfunction function(const char* name);
  void launch(CUfunction function, unsigned threads, CUstream in, std::initializer_list<void*> parameters);
  void add(CUdeviceptr at, std::uint32_t words, std::uint32_t value, CUstream in);  // at[i] += value

 private:
  const Driver& cu_;
  std::function<void(const char*)> announce_;
  std::vector<std::string> answers_;
  CUmodule module_ = nullptr;
  void* busy_from_ = nullptr;
  CUdeviceptr busy_to_ = 0;
};

#define OK(call) (session.announce(#call), session.require((call), #call, {CUDA_SUCCESS}))
#define ANSWERS(call, ...) (session.announce(#call), session.require((call), #call, {__VA_ARGS__}))
#define FAILS(call) (session.announce(#call), session.require_failure((call), #call))
// As FAILS, for calls that a driver refuses as not supported because of their arguments.
#define REFUSES(call) (session.announce(#call), session.require_refusal((call), #call))
// Whether the call failed, where success and failure are allowed.
#define MAY_FAIL(call) (session.announce(#call), session.failed((call), #call))
#define HOLDS(condition, sentence) session.require_that((condition), sentence)

}  // namespace conformance
