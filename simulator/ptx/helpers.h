// SPDX-License-Identifier: Apache-2.0
// Host functions that generated code calls, by name.
#pragma once

#include <span>
#include <vector>

namespace simulator::ptx {

struct Helper {
  const char* name;
  const void* address;
};

// All helpers; they are in helpers.cc (threads, memory), float_helpers.cc, bit_helpers.cc and others.
const std::vector<Helper>& helpers();
void add_float_helpers(std::vector<Helper>* to);
void add_bit_helpers(std::vector<Helper>* to);
void add_small_float_helpers(std::vector<Helper>* to);
void add_texture_helpers(std::vector<Helper>* to);
void add_matrix_helpers(std::vector<Helper>* to);
void add_cluster_helpers(std::vector<Helper>* to);
void add_video_helpers(std::vector<Helper>* to);
void add_async_helpers(std::vector<Helper>* to);

}  // namespace simulator::ptx
