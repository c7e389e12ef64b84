// SPDX-License-Identifier: Apache-2.0
// A rule: a small program for the CUDA driver, its required result, and the page of NVIDIA's documentation that
// requires it. RULE adds a rule to the table; docs/conformance.md is generated from the table.
#pragma once

#include <cuda.h>

#include <vector>

namespace conformance {

class Session;

// How far the driver has been initialized when a rule begins.
enum class Start { kNothing, kDriver, kContext };

// The known result of the rule on the simulated device. A test checks that every entry is right.
enum class OnSimulator { kAgrees, kNotCarried, kDisagrees };

struct Rule {
  const char* name = "";     // must not change, because result files contain it
  const char* subject = "";  // one of kSubjects
  const char* says = "";     // what must hold
  const char* basis = "";    // the documentation page, and the function or section
  const char* open = "";     // what the documentation leaves open, so that the rule accepts several results
  OnSimulator simulator = OnSimulator::kAgrees;
  Start start = Start::kContext;
  int needs = 0;            // a CUdevice_attribute; if it is 0, the device does not support the rule
  int devices = 1;          // number of devices required; with fewer, the machine does not support the rule
  bool needs_time = false;  // checks that something is still running: needs work that takes time and keeps its order
  void (*body)(Session&) = nullptr;
};

inline constexpr const char* kSubjects[] = {"start",       "devices",         "contexts",    "errors",
                                            "lookups",     "memory",          "mapping",     "aliasing",
                                            "memory info", "pointers",        "host memory", "copies and sets",
                                            "streams",     "events",          "pools",       "modules and launches",
                                            "capture",     "several devices", "sharing",     "arrays and textures"};

// All rules: by subject in the order above; within one subject in the order of their file.
std::vector<Rule> all_rules();

struct Registration {
  explicit Registration(const Rule& rule);
};

// RULE(name, "says", "basis", .field = value...) { body with `session` and `cu` in scope }
#define RULE(identifier, sentence, page, ...)                                 \
  static void identifier##_body(Session&, const Driver&);                     \
  static const Registration identifier##_registration(                        \
      Rule{.name = #identifier,                                               \
           .subject = kSubject,                                               \
           .says = sentence,                                                  \
           .basis = page __VA_OPT__(, ) __VA_ARGS__,                          \
           .body = [](Session& in) { identifier##_body(in, in.driver()); }}); \
  static void identifier##_body([[maybe_unused]] Session& session, [[maybe_unused]] const Driver& cu)

}  // namespace conformance
