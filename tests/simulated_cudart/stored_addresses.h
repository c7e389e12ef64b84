// SPDX-License-Identifier: Apache-2.0
#pragma once

// Launches a kernel that is called `set` and stores no address; it is given a small buffer and this one.
void launch_the_other(float* v, int times);
