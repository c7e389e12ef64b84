// SPDX-License-Identifier: Apache-2.0
// The open files of this folder. They are closed on exec (O_CLOEXEC); in the child of a fork, which must not use them,
// and would keep the file's space taken, they are closed by close_own_descriptors().
#pragma once

namespace thermocline {

// Out of the way of programs that close, or count on, low numbers: the descriptor under a high number, where one is
// free; `descriptor` itself is closed then. Known to close_own_descriptors from now on.
int keep_descriptor(int descriptor);
// The descriptor stays under its number, and is known to close_own_descriptors from now on.
void note_descriptor(int descriptor);
// Not known any more; `descriptor` may be closed.
void forget_descriptor(int descriptor);

// Only in a child of fork: async-signal-safe.
void close_own_descriptors();

}  // namespace thermocline
