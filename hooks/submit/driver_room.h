// SPDX-License-Identifier: Apache-2.0
// The driver allocates device memory for itself: for code that is loaded at its first launch
// (CUDA_MODULE_LOADING=LAZY), modules, managed memory, local memory, arrays, contexts, streams. If it runs out because
// the engines hold the memory, they release some and the call is repeated: without the library it would have succeeded.
#pragma once

#include "hooks/runtime/guarded.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// Call it when the driver itself has returned out of memory, in a call that with_driver_room repeats.
void driver_is_out_of_memory() noexcept;
inline CUresult heard(CUresult answer) noexcept {
  if (answer == CUDA_ERROR_OUT_OF_MEMORY) [[unlikely]]
    driver_is_out_of_memory();
  return answer;
}

// Keeps memory free on every device as long as it lives; each grow() adds more.
class DriverRoom {
 public:
  DriverRoom() = default;
  ~DriverRoom();
  DriverRoom(const DriverRoom&) = delete;
  DriverRoom& operator=(const DriverRoom&) = delete;

  // False if no more can be freed.
  bool grow();

 private:
  bool grow_on(const ActiveEngine& active);

  struct OfDevice {
    const ActiveEngine* engine = nullptr;  // may end meanwhile, and another one begin
    Bytes bytes = 0;
    unsigned times = 0;
  };
  OfDevice left_[EngineSet::kMost] = {};  // by device
  bool began_ = false;
};

// For an attempt that returned out of memory: repeats it, with more room each time, if the driver itself was out of
// memory.
CUresult again_with_driver_room(Call attempt);

// `attempt` makes its driver calls through heard(). The caller must not hold an engine's lock.
template <class Attempt>
CUresult with_driver_room(Attempt attempt) {
  const CUresult result = attempt();
  if (result != CUDA_ERROR_OUT_OF_MEMORY) [[likely]]
    return result;
  return again_with_driver_room([&] { return attempt(); });
}

}  // namespace thermocline
