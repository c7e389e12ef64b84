// SPDX-License-Identifier: Apache-2.0
// Threads of the library, which the program must not notice.
#pragma once

#include <functional>
#include <thread>

namespace thermocline {

// Runs `work` on a new thread, on which none of the program's signal handlers runs. If no thread can be created,
// nothing is run and the result is no thread.
std::thread try_in_background(std::function<void()> work);

}  // namespace thermocline
