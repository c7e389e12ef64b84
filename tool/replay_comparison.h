// SPDX-License-Identifier: Apache-2.0
// `replay --compare`: a trace under several policies or settings files, side by side.
#pragma once

#include "tool/replay_job.h"

namespace thermocline {

// Each name of flags.compare is a policy or a settings file; the other flags apply to all of them. Returns an exit
// status.
int compare_replays(const ReplayFlags& flags);

}  // namespace thermocline
