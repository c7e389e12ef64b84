// SPDX-License-Identifier: Apache-2.0
// The kernels of a PTX text and its variables of shared memory, found in one pass: a text may have thousands of kernels,
// and be of many megabytes. Comments and strings are not code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace thermocline {

class PtxIndex {
 public:
  PtxIndex() = default;
  explicit PtxIndex(std::string_view text);

  // In the order of the text.
  const std::vector<std::string>& kernels() const { return kernels_; }
  static constexpr std::size_t kNone = ~std::size_t{0};
  // The position behind the kernel's name; kNone: the text does not have it.
  std::size_t behind_name_of(std::string_view kernel) const;

  struct Variable {
    std::string name;
    std::uint64_t bytes = 0;  // as of PtxReader::read_variable

    bool operator==(const Variable&) const = default;
  };
  // Outside of kernels.
  const std::vector<Variable>& shared() const { return shared_; }
  // False: there are others, which are not understood.
  bool has_all_shared() const { return has_all_shared_; }

  bool operator==(const PtxIndex&) const = default;

 private:
  class Scan;

  std::vector<std::string> kernels_;
  std::map<std::string, std::size_t, std::less<>> behind_;
  std::vector<Variable> shared_;
  bool has_all_shared_ = true;
};

}  // namespace thermocline
