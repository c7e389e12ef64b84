// SPDX-License-Identifier: Apache-2.0
// Launches that were examined (known_launch.h). Most come again: with the same buffers, the same sizes, and other seeds. Then
// they are compared with what they were, and everything that was found out about them holds again. Thread-safe.
//
// It holds as long as these are the same, all of which are compared: the function and its code, the shape, the engines,
// which buffers are where (Engine::placement), and those bytes of the parameters on which anything depends that was
// found: addresses, and what the proof has read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/relaunch/kernel_verdicts.h"
#include "hooks/relaunch/launches.h"
#include "hooks/relaunch/used_parameters.h"
#include "offload/access.h"
#include "offload/relauncher.h"

namespace thermocline {

class Engine;
class EngineSet;
struct KernelKnowledge;
struct LaunchedKernel;

// Stands for the circumstances of a launch. To be taken before anything is looked up.
struct Circumstances {
  const EngineSet* engines = nullptr;
  std::uint64_t code = 0;  // KernelCodes::version()
};

class ExaminedLaunch {
 public:
  struct Findings {
    LaunchVerdict verdict{};
    const KernelKnowledge* known = nullptr;
    bool may_run_again = false;
    KernelTrial* trial = nullptr;
    std::vector<OperandUse> uses;
    std::vector<MemoryAccess> accesses, seen;
    std::shared_ptr<const LaunchForm> form;  // null: it may not run again
  };

  // `engine`: that of all buffers. `used`: what the findings depend on.
  ExaminedLaunch(const LaunchedKernel& kernel, const Circumstances& circumstances, const Engine& engine,
                 std::uint64_t placement, const UsedParameters& used, Findings findings);

  const Findings& findings() const { return findings_; }
  // Without `id`.
  const RelaunchInfo& info() const { return info_; }
  // `is_identical`: all parameters are the same, also those on which nothing depends.
  bool is(const LaunchedKernel& kernel, const Circumstances& circumstances, bool* is_identical) const;

 private:
  struct Word {
    std::uint64_t value = 0, mask = 0;  // mask: the bits on which something depends
  };

  const CUfunction function_;
  const ParameterLayout* const layout_;
  const std::array<unsigned, 3> grid_, block_;
  const unsigned shared_bytes_;
  const bool is_special_;
  const Circumstances circumstances_;
  const Engine& engine_;
  const std::uint64_t placement_;
  std::vector<Word> words_;  // all parameters, each in as many as it fills
  const Findings findings_;
  RelaunchInfo info_;
};

class ExaminedLaunches {
 public:
  // The launch, if it is there, with its id (Launches::add). Null: it has to be examined.
  std::shared_ptr<const ExaminedLaunch> find(const LaunchedKernel& kernel, const Circumstances& circumstances,
                                             std::uint64_t key, std::uint64_t* id);
  // `id`: of this launch; 0: it may not run again.
  void keep(std::uint64_t key, std::shared_ptr<const ExaminedLaunch> launch, std::uint64_t id);

  // Equal for launches that may be the same. False: of such launches none is kept.
  static bool key_of(std::uint64_t kind, std::span<const MemoryAccess> addresses, std::uint64_t* key);

 private:
  // As many as a large network's step has kernels (KnownOperations).
  static constexpr unsigned kBits = 12;
  struct Slot {
    std::uint64_t key = 0;
    std::shared_ptr<const ExaminedLaunch> launch;
    std::uint64_t id = 0;
  };
  // Two launches whose keys have the same hash do not displace each other.
  struct SlotPair {
    Slot newer, older;
  };

  Mutex mutex_{"examined launches", lock_level::kLeaf};
  std::vector<SlotPair> pairs_ THERMOCLINE_GUARDED_BY(mutex_);  // empty until the first is kept
};

ExaminedLaunches& examined_launches();

}  // namespace thermocline
