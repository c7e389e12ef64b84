// SPDX-License-Identifier: Apache-2.0
// Facts that the system knows about processes: proc(5).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace thermocline {

// Start time of the process in clock ticks; nothing if no process has that number, or it is a zombie.
std::optional<std::uint64_t> beginning_of(int pid);

// Whether any of the process's user ids (real, effective, saved, file system) is `user`.
bool runs_as(int pid, uid_t user);

// An inode number; 0: unknown.
std::uint64_t own_pid_namespace();

// "python train.py": the file's name without folders, and the arguments.
std::string program_of_process();

}  // namespace thermocline
