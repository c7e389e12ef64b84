// SPDX-License-Identifier: Apache-2.0
// The code that the program has loaded, and what is known about each function in it. Thread-safe.
//
// A function's code is known if the driver was given PTX, and if all machine code beside it was compiled from that PTX:
// nvcc embeds both for an architecture. nvcc's wrappers are parts of a program's data, which stay as long as the code
// is loaded; they are read when the first of their kernels is launched. Other images may be gone by then, so they are
// read at once; or, while it is not known yet whether anybody wants to know, they are copied.
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

// The known facts about a function.
struct KernelKnowledge : AnalysedCode {
  std::shared_ptr<const DeviceCode> code;  // keeps the texts
  // Numbers of launches, by LaunchVerdict.
  mutable std::array<std::atomic<std::uint64_t>, kLaunchVerdicts> launches{};
  // The same for all launches that were examined: also for recordings, whether or not contents may be recomputed.
  mutable std::array<std::atomic<std::uint64_t>, kLaunchVerdicts> seen{};
  // The first launch that was refused for its shape or sizes. Written once, by the thread that comes first.
  void note_other_shape(const OtherShape& shape) const;
  std::optional<OtherShape> other_shape() const;
  // For tests: the kernel counts as proven, and as writing all of its outputs (THERMOCLINE_TEST_PROVEN).
  bool is_taken_as_proven = false;
  // The trial of the results of its reruns.
  std::unique_ptr<KernelTrial> trial;

  bool has_layout(const ParameterLayout& layout) const;

 private:
  enum class Noted : std::uint8_t { kNothing, kBeingWritten, kThere };
  mutable std::atomic<Noted> noted_{Noted::kNothing};
  mutable OtherShape other_shape_;
};

class KernelCodes {
 public:
  // The driver has loaded the image; null: code that is not seen. `handle`: the CUmodule or CUlibrary. `is_wanted`
  // false: whether its code is read will be known before its first launch.
  void loaded(const void* handle, const void* image, bool is_wanted);
  // Nobody wants to know.
  void forget_images();
  // `handle` is another handle of the code of handle `of` (cuLibraryGetModule).
  void is_of(const void* handle, const void* of);
  // The driver has returned a CUfunction or CUkernel of that handle; same_function(): one that stands for another.
  void found(const void* function, const void* handle, const char* name);
  void same_function(const void* function, const void* as);
  // The code of the handle is unloaded.
  void unloaded(const void* handle);
  // A context has ended: the handles of its functions may be reused.
  void forget_functions();

  // Another number whenever knowledge_of() may have got another answer for a function. Lock-free.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // Ends what was found out about launches so far.
  void change() { version_.fetch_add(1, std::memory_order_acq_rel); }

  // Valid until the process ends. `name`: for a function that was not seen to be loaded; may be null.
  const KernelKnowledge& knowledge_of(const void* function, const char* name);
  // The verdicts of all kernels that were launched. Code that was loaded several times, as before and after a device
  // reset, is on trial each time, and counts as one kernel here.
  std::vector<KernelVerdict> verdicts() const { return verdicts(&KernelKnowledge::launches); }
  // Includes launches that were examined for recordings.
  std::vector<KernelVerdict> seen_verdicts() const { return verdicts(&KernelKnowledge::seen); }

 private:
  struct Image {
    const void* wrapper = nullptr;
    std::vector<unsigned char> copy;         // not read yet
    std::shared_ptr<const DeviceCode> code;  // null: not read yet, or not to be read
  };
  struct Function {
    std::shared_ptr<Image> image;
    std::string name;
    const KernelKnowledge* known = nullptr;
  };

  void read(Image* image) THERMOCLINE_REQUIRES(mutex_);
  void drop_copy(Image* image) THERMOCLINE_REQUIRES(mutex_);
  using LaunchCounts = std::array<std::atomic<std::uint64_t>, kLaunchVerdicts>;
  std::vector<KernelVerdict> verdicts(LaunchCounts KernelKnowledge::*counts) const;

  // The most bytes of all copies of images. Code beyond stays unknown if it is loaded before the first allocation.
  static constexpr std::size_t kMostCopied = std::size_t{256} << 20;

  mutable Mutex mutex_{"kernels' codes", lock_level::kLeaf};
  std::atomic<std::uint64_t> version_{0};
  std::size_t copied_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  std::unordered_map<const void*, std::shared_ptr<Image>> images_ THERMOCLINE_GUARDED_BY(mutex_);
  std::unordered_map<const void*, Function> functions_ THERMOCLINE_GUARDED_BY(mutex_);
  // Never removed; one for each code and name.
  std::map<std::pair<const DeviceCode*, std::string>, std::unique_ptr<KernelKnowledge>> all_
      THERMOCLINE_GUARDED_BY(mutex_);
};

KernelCodes& kernel_codes();

}  // namespace thermocline
