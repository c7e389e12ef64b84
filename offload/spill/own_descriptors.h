// SPDX-License-Identifier: Apache-2.0
// The open files of this folder. They are closed on exec (O_CLOEXEC). The child of a fork must not use them, and would
// keep the file's space taken: there close_own_descriptors() closes them.
#pragma once

namespace thermocline {

// Moves the descriptor to a high number if one is free, out of the way of programs that close, or count on, low
// numbers; closes `descriptor` then. close_own_descriptors() will close the result.
int keep_descriptor(int descriptor);
// The descriptor keeps its number, and close_own_descriptors() will close it.
void note_descriptor(int descriptor);
// close_own_descriptors() will not close it any more; the caller may.
void forget_descriptor(int descriptor);

// Only in a child of fork: async-signal-safe.
void close_own_descriptors();

}  // namespace thermocline
