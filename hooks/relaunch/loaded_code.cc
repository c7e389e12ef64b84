// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/loaded_code.h"

#include <string_view>

#include "config/settings.h"
#include "config/trusted_file.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/relaunch/kernel_codes.h"
#include "hooks/relaunch/known_launch.h"
#include "hooks/relaunch/launches.h"
#include "hooks/relaunch/nothing_dropped.h"
#include "hooks/runtime/guarded.h"
#include "offload/recompute/obstacles.h"

namespace thermocline {
namespace {

template <class Note>
void unless_of_no_use(Note note) {
  if (code_is_of_no_use.load(std::memory_order_relaxed)) return;
  static_cast<void>(guarded([&] {
    note();
    return CUDA_SUCCESS;
  }));
}

bool is_recorded() {
  const char* const recording = variable_of_process("THERMOCLINE_RECORD");
  return recording != nullptr && *recording != '\0';
}

}  // namespace

void note_code(const void* handle, const void* image) {
  unless_of_no_use([&] { kernel_codes().loaded(handle, image, code_is_read.load()); });
}
void note_same_code(const void* handle, const void* of) {
  unless_of_no_use([&] { kernel_codes().is_of(handle, of); });
}
void note_function(const void* function, const void* handle, const char* name) {
  unless_of_no_use([&] { kernel_codes().found(function, handle, name); });
}
void note_same_function(const void* function, const void* as) {
  unless_of_no_use([&] { kernel_codes().same_function(function, as); });
}
void note_unloaded(const void* handle) {
  unless_of_no_use([&] {
    // Launches that are examined meanwhile are examined again.
    kernel_codes().change();
    launches().forget_functions();
    kernel_codes().unloaded(handle);
  });
}

void read_recompute_setting(const Settings& settings) {
  process_lifetime<NothingDropped>() = forbidden_by(settings);
  recompute_is_on.store(settings.recompute == Recompute::kAuto);
  const bool is_read = settings.recompute == Recompute::kAuto || is_recorded();
  code_is_read.store(is_read);
  code_is_of_no_use.store(!is_read);
  // There are copies of the code that was loaded before.
  if (!is_read) kernel_codes().forget_images();
}

void offer_relaunches(EngineOptions* options) {
  const bool recomputes = options->recompute == Recompute::kAuto;
  options->buffers_apart = is_recorded() ? KeepApart::kMost : recomputes ? KeepApart::kWhereCheap : KeepApart::kNone;
  if (!recomputes) return;
  options->relauncher = &launches();
  // Contents recomputed while the lock is free would count for another thread's operation.
  options->waits_without_lock = false;
  const char* const drops = variable_of_process("THERMOCLINE_TEST_DROPS");
  options->drops_all = drops != nullptr;
  options->drops_by_proof = drops != nullptr && std::string_view(drops) != "verified";
  recompute_obstacles().drops_all = options->drops_all;
  recompute_obstacles().drops_by_proof = options->drops_by_proof;
}

void forget_functions_of_contexts() {
  if (code_is_of_no_use.load()) return;
  kernel_codes().change();
  launches().forget_functions();
  kernel_codes().forget_functions();
}

}  // namespace thermocline
