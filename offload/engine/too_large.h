// SPDX-License-Identifier: Apache-2.0
// Why the calling thread's operation was refused, for callers that would wait for others to give memory back.
#pragma once

namespace thermocline {

// Whether, since the last call, an operation of this thread was refused that alone needs more than the budget. Tables
// that had to be read for it count as what was found there, not as what may be.
bool take_was_too_large() noexcept;

void note_too_large() noexcept;

}  // namespace thermocline
