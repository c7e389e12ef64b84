// SPDX-License-Identifier: Apache-2.0
// The code that the program has loaded, and what is known of each function of it. Thread-safe.
//
// A function's code is known where the driver was given PTX, and where all machine code beside it was made from such:
// nvcc embeds both for an architecture. nvcc's wrappers are parts of a program's data, which stay as long as the code
// is loaded; they are read when the first of their kernels is launched. Other images may be gone by then, and are
// read at once.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/operands/parameters.h"
#include "hooks/relaunch/analysed_code.h"
#include "hooks/relaunch/kernel_verdicts.h"
#include "offload/kernel_trial.h"

namespace thermocline {

// What is known of a function.
struct KernelKnowledge : AnalysedCode {
  std::shared_ptr<const DeviceCode> code;  // keeps the texts
  // By LaunchVerdict.
  mutable std::array<std::atomic<std::uint64_t>, kLaunchVerdicts> launches{};
  // The same of all that were looked at: for recordings as well, whether or not contents may be recomputed.
  mutable std::array<std::atomic<std::uint64_t>, kLaunchVerdicts> seen{};
  // Of the launch that was refused first for its shape or sizes. Written once, by whoever comes first.
  void note_other_shape(const OtherShape& shape) const;
  std::optional<OtherShape> other_shape() const;
  // For tests: it is told to be proven, and to write its outputs whole (THERMOCLINE_TEST_PROVEN).
  bool is_taken_as_proven = false;
  // Of what it makes when it runs again.
  std::unique_ptr<KernelTrial> trial;

  bool has_layout(const ParameterLayout& layout) const;

 private:
  enum class Noted : std::uint8_t { kNothing, kBeingWritten, kThere };
  mutable std::atomic<Noted> noted_{Noted::kNothing};
  mutable OtherShape other_shape_;
};

class KernelCodes {
 public:
  // The driver has loaded the image; null: something that is not seen. `handle`: the CUmodule or CUlibrary. `may_read`:
  // see above.
  void loaded(const void* handle, const void* image, bool may_read);
  // `handle` is another handle of the code that `of` names (cuLibraryGetModule).
  void is_of(const void* handle, const void* of);
  // The driver has returned a CUfunction or CUkernel of that handle, or one that stands for another.
  void found(const void* function, const void* handle, const char* name);
  void same_function(const void* function, const void* as);
  // The handle's code is unloaded.
  void unloaded(const void* handle);
  // A context has ended: handles of functions may be given to others.
  void forget_functions();

  // Valid until the process ends. `name`: of a function that was not seen to be loaded; may be null.
  const KernelKnowledge& knowledge_of(const void* function, const char* name);
  // Of all kernels that were launched. Code that was loaded more than once, as before and after a device reset, is on
  // trial each time, and counts as one here.
  std::vector<KernelVerdict> verdicts() const { return verdicts(&KernelKnowledge::launches); }
  // With the launches that were looked at for recordings, too.
  std::vector<KernelVerdict> seen_verdicts() const { return verdicts(&KernelKnowledge::seen); }

 private:
  struct Image {
    const void* wrapper = nullptr;
    std::shared_ptr<const DeviceCode> code;  // null: not read yet, or not to be
  };
  struct Function {
    std::shared_ptr<Image> image;
    std::string name;
    const KernelKnowledge* known = nullptr;
  };

  using LaunchCounts = std::array<std::atomic<std::uint64_t>, kLaunchVerdicts>;
  std::vector<KernelVerdict> verdicts(LaunchCounts KernelKnowledge::*counts) const;

  mutable Mutex mutex_{"kernels' codes", lock_level::kLeaf};
  std::unordered_map<const void*, std::shared_ptr<Image>> images_ THERMOCLINE_GUARDED_BY(mutex_);
  std::unordered_map<const void*, Function> functions_ THERMOCLINE_GUARDED_BY(mutex_);
  // Never removed; one for each code and name.
  std::map<std::pair<const DeviceCode*, std::string>, std::unique_ptr<KernelKnowledge>> all_
      THERMOCLINE_GUARDED_BY(mutex_);
};

KernelCodes& kernel_codes();

}  // namespace thermocline
