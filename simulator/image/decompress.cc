// SPDX-License-Identifier: Apache-2.0
#include "simulator/image/decompress.h"

#include <zstd.h>

namespace simulator {

std::optional<std::vector<std::byte>> decompress_zstd(ByteSpan data, std::uint64_t bytes) {
  // The frame states its size. Relying on the fat binary's entry header instead would allow a damaged one to request
  // any amount of memory.
  const unsigned long long declared = ZSTD_getFrameContentSize(data.data(), data.size());
  if (declared != bytes || bytes > kLargestImage) return std::nullopt;
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  const std::size_t written = ZSTD_decompress(out.data(), out.size(), data.data(), data.size());
  if (ZSTD_isError(written) != 0 || written != out.size()) return std::nullopt;
  return out;
}

namespace {

class Lz4Block {
 public:
  Lz4Block(ByteSpan data, std::size_t bytes) : data_(data), bytes_(bytes) { out_.reserve(bytes); }

  std::optional<std::vector<std::byte>> decode() {
    while (at_ < data_.size()) {
      const auto token = std::to_integer<std::size_t>(data_[at_++]);
      std::size_t literals = token >> 4;
      if (!extend(&literals) || !take_literals(literals)) return std::nullopt;
      if (at_ == data_.size()) break;  // the last sequence has only literals
      std::size_t match = token & 15;
      if (!repeat(match)) return std::nullopt;
    }
    if (out_.size() != bytes_) return std::nullopt;
    return std::move(out_);
  }

 private:
  // A nibble of 15 is continued in further bytes, up to one that is not 255.
  bool extend(std::size_t* length) {
    if (*length != 15) return true;
    for (;;) {
      if (at_ == data_.size()) return false;
      const auto more = std::to_integer<std::size_t>(data_[at_++]);
      *length += more;
      if (more != 255) return true;
    }
  }

  bool take_literals(std::size_t count) {
    if (data_.size() - at_ < count || bytes_ - out_.size() < count) return false;
    const auto from = data_.begin() + static_cast<std::ptrdiff_t>(at_);
    out_.insert(out_.end(), from, from + static_cast<std::ptrdiff_t>(count));
    at_ += count;
    return true;
  }

  bool repeat(std::size_t length) {
    const auto distance = read_at<std::uint16_t>(data_, at_);
    if (!distance) return false;
    at_ += 2;
    if (!extend(&length)) return false;
    length += 4;
    if (*distance == 0 || *distance > out_.size() || bytes_ - out_.size() < length) return false;
    // Source and result may overlap: copying byte by byte is the definition.
    for (std::size_t i = 0; i < length; ++i) out_.push_back(out_[out_.size() - *distance]);
    return true;
  }

  ByteSpan data_;
  std::size_t bytes_;
  std::size_t at_ = 0;
  std::vector<std::byte> out_;
};

}  // namespace

std::optional<std::vector<std::byte>> decompress_lz4(ByteSpan data, std::uint64_t bytes) {
  // No sequence expands by more than a factor of 255, so a larger size means that the data is damaged.
  if (bytes > kLargestImage || bytes / 256 > data.size()) return std::nullopt;
  return Lz4Block(data, static_cast<std::size_t>(bytes)).decode();
}

}  // namespace simulator
