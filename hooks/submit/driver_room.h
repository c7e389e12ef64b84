// SPDX-License-Identifier: Apache-2.0
// The driver takes device memory for ends of its own: code that is loaded at the first launch
// (CUDA_MODULE_LOADING=LAZY), modules, managed memory, local memory, arrays, contexts, streams. Where there is none
// left because the engines hold it, they give some up, and the call is made again: whoever asked would have had it
// without the library.
#pragma once

#include "hooks/runtime/guarded.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// What the driver itself answered, in a call that with_driver_room makes again.
void driver_is_out_of_memory() noexcept;
inline CUresult heard(CUresult answer) noexcept {
  if (answer == CUDA_ERROR_OUT_OF_MEMORY) [[unlikely]]
    driver_is_out_of_memory();
  return answer;
}

// Room on every device, as long as this lives: more with each call.
class DriverRoom {
 public:
  DriverRoom() = default;
  ~DriverRoom();
  DriverRoom(const DriverRoom&) = delete;
  DriverRoom& operator=(const DriverRoom&) = delete;

  // False where no more can be had.
  bool grow();

 private:
  bool grow_on(const ActiveEngine& active);

  struct OfDevice {
    const ActiveEngine* engine = nullptr;  // which may end meanwhile, and another begin
    Bytes bytes = 0;
    unsigned times = 0;
  };
  OfDevice left_[EngineSet::kMost] = {};  // by device
  bool began_ = false;
};

// Of an attempt that ended with out of memory: again, with more room each time, where it was the driver that said so.
CUresult again_with_driver_room(Call attempt);

// `attempt` makes calls of the driver by heard(). No engine is locked by its caller.
template <class Attempt>
CUresult with_driver_room(Attempt attempt) {
  const CUresult result = attempt();
  if (result != CUDA_ERROR_OUT_OF_MEMORY) [[likely]]
    return result;
  return again_with_driver_room([&] { return attempt(); });
}

}  // namespace thermocline
