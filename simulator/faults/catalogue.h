// SPDX-License-Identifier: Apache-2.0
// Which errors each function of the simulated driver may return. Functions are listed by the name that programs use,
// without the version: cuMemAlloc includes cuMemAlloc_v2 and all other forms.
#pragma once

#include <cuda.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simulator {

struct MayFail {
  std::string_view function;
  std::string_view errors;  // names without CUDA_ERROR_, separated by one space
};

std::span<const MayFail> fault_catalogue();

// nullptr: not in the catalogue.
const MayFail* find_may_fail(std::string_view function);
bool may_answer(const MayFail& function, std::string_view error);
std::vector<std::string_view> errors_of(const MayFail& function);

// By name, with or without CUDA_ERROR_.
std::optional<CUresult> error_named(std::string_view name);
std::string_view name_of(CUresult error);

// "cuMemAlloc_v2", "cuMemcpyAsync_ptsz" -> "cuMemAlloc", "cuMemcpyAsync".
std::string_view plain_name(std::string_view symbol);

}  // namespace simulator
