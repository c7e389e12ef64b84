// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/execution/digests_of_tags.h"

#include <cstring>
#include <string_view>

#include "simulator/core/hash.h"

namespace simulator {
namespace {

// Names, parameters and records are those of offload/digest/digest_code.h.
constexpr std::string_view kDigestKernel = "thermocline_digest", kCopyKernel = "thermocline_copy_if_changed";
constexpr std::size_t kDigestParameters = 4, kCopyParameters = 12;

struct DigestRecord {
  std::uint64_t low, high, ticket, bytes;
};
struct CopyVerdict {
  std::uint64_t ticket, found;
};
constexpr std::uint64_t kEqual = 1, kChanged = 2;

bool is(const Kernel& kernel, std::string_view name, std::size_t parameters) {
  return kernel.name == name && kernel.parameters.size() == parameters;
}

std::uint64_t parameter(const Kernel& kernel, std::size_t number) {
  std::uint64_t value = 0;
  std::memcpy(&value, kernel.block_of_parameters.data() + kernel.parameters[number].offset, sizeof value);
  return value;
}

// Bytes that the host reads.
template <class Of>
Of* bytes_at(Address at) {
  return reinterpret_cast<Of*>(at);
}

// Each block's record: the first has the sum, the others have added nothing.
void write_records(const Kernel& kernel, Contents& contents) {
  const Bytes bytes = parameter(kernel, 1);
  const std::uint64_t hash = contents.digest(parameter(kernel, 0), bytes);
  auto* const records = bytes_at<DigestRecord>(parameter(kernel, 2));
  for (unsigned block = 0; block < kernel.grid.x; ++block) {
    const bool is_first = block == 0;
    records[block] = {is_first ? hash : 0, is_first ? mix(hash) : 0, parameter(kernel, 3), bytes};
  }
}

// The sums of records from parameter `first` on: their address, their ticket, their number. False: one is missing.
bool add(const Kernel& kernel, std::size_t first, DigestRecord* sum) {
  const auto* const records = bytes_at<DigestRecord>(parameter(kernel, first));
  for (std::uint64_t i = 0; i < parameter(kernel, first + 2); ++i) {
    if (records[i].ticket != parameter(kernel, first + 1) || records[i].bytes != parameter(kernel, 1)) return false;
    sum->low += records[i].low;
    sum->high += records[i].high;
  }
  return true;
}

void copy_if_changed(Kernel& kernel, Contents& contents) {
  DigestRecord fresh{}, old{parameter(kernel, 9), parameter(kernel, 10), 0, 0};
  const bool are_there = add(kernel, 3, &fresh) && add(kernel, 6, &old);
  kernel.wrote = !are_there || fresh.low != old.low || fresh.high != old.high;
  if (kernel.wrote) contents.copy(parameter(kernel, 2), parameter(kernel, 0), parameter(kernel, 1));
  *bytes_at<CopyVerdict>(parameter(kernel, 11)) = {parameter(kernel, 4), kernel.wrote ? kChanged : kEqual};
}

}  // namespace

std::optional<Declared> accesses_of_digests(const Kernel& kernel) {
  const bool copies = is(kernel, kCopyKernel, kCopyParameters);
  if (!copies && !is(kernel, kDigestKernel, kDigestParameters)) return std::nullopt;
  const auto plain = [&](std::size_t number) {
    Fetch range;
    range.address = parameter(kernel, number);
    range.shape.width = parameter(kernel, 1);
    return range;
  };
  Declared declared{plain(0)};
  if (copies) declared.may_write = plain(2);
  return declared;
}

void compute_digests(Kernel& kernel, Contents& contents) {
  if (kernel.name == kCopyKernel) return copy_if_changed(kernel, contents);
  write_records(kernel, contents);
}

}  // namespace simulator
