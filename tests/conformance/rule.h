// SPDX-License-Identifier: Apache-2.0
// A rule: one small program for the CUDA driver, what must come of it, and the page of NVIDIA's documentation that says
// so. The table of rules is made by RULE at the place where each stands; docs/conformance.md is made from it.
#pragma once

#include <cuda.h>

#include <vector>

namespace conformance {

class Session;

// How far the driver has been started when a rule begins.
enum class Start { kNothing, kDriver, kContext };

// What is known of the rule on the simulated device. A test holds every entry to be exactly so.
enum class OnSimulator { kAgrees, kNotCarried, kDisagrees };

struct Rule {
  const char* name = "";     // never changes once results carry it
  const char* subject = "";  // one of kSubjects
  const char* says = "";     // what must hold, in our words
  const char* basis = "";    // the page, and the function or section
  const char* open = "";     // what the documentation leaves open and the rule therefore accepts
  OnSimulator simulator = OnSimulator::kAgrees;
  Start start = Start::kContext;
  int needs = 0;            // a CUdevice_attribute that must not be 0, else the device does not support the rule
  int devices = 1;          // that there must be, else the machine does not support the rule
  bool needs_time = false;  // says that something is still running: holds where work takes its time and keeps its order
  void (*body)(Session&) = nullptr;
};

inline constexpr const char* kSubjects[] = {"start",       "devices",         "contexts",    "errors",
                                            "lookups",     "memory",          "mapping",     "aliasing",
                                            "memory info", "pointers",        "host memory", "copies and sets",
                                            "streams",     "events",          "pools",       "modules and launches",
                                            "capture",     "several devices", "sharing",     "arrays and textures"};

// All rules: by subject in the order above, within one in the order of their file.
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
