// SPDX-License-Identifier: Apache-2.0
// Whether programs that this one starts get the library, too: they do by LD_PRELOAD, which they inherit.
#pragma once

namespace thermocline {

// Takes this library, and nothing else, out of LD_PRELOAD of this process's environment. Not to be called while other
// threads read or write the environment; children that have begun keep what they have.
void leave_children_alone() noexcept;

}  // namespace thermocline
