// SPDX-License-Identifier: Apache-2.0
#pragma once

using Function = int (*)(int);

// Both files define it, weakly.
template <typename T>
__device__ __noinline__ T in_both(T x) {
  return 7 * x;
}

// In linked_parts.cu.
int calls_so_far();
int kept_by_the_other();
