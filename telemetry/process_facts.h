// SPDX-License-Identifier: Apache-2.0
// What the system says of processes: proc(5).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace thermocline {

// When the process began, in clock ticks; nothing when there is none of that number, or only its remains.
std::optional<std::uint64_t> beginning_of(int pid);

// Whether the process runs as that user: really, in effect, as saved, or for files.
bool runs_as(int pid, uid_t user);

// An inode; 0: not known.
std::uint64_t own_pid_namespace();

// "python train.py": the file's name without its folders, and the arguments.
std::string program_of_process();

}  // namespace thermocline
