// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/execution/declared_operator.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "simulator/core/hash.h"

namespace simulator {
namespace {

using Ranges = boost::container::small_vector<ByteRange, 2>;

std::span<const ByteRange> spanned(const Ranges& ranges) { return {ranges.data(), ranges.size()}; }

// An operand as a whole: all ranges that belong to it.
struct Whole {
  bool read = false, write = false, sliced = false;
  Ranges ranges{};

  Bytes bytes() const {
    Bytes sum = 0;
    for (const ByteRange range : ranges) sum += range.bytes;
    return sum;
  }
  // The bytes [begin, begin + length) of the concatenated ranges.
  Ranges within(Bytes begin, Bytes length) const {
    Ranges out;
    for (const ByteRange range : ranges) {
      if (begin < range.bytes && length > 0) {
        const Bytes taken = std::min(length, range.bytes - begin);
        out.push_back({range.address + begin, taken});
        length -= taken;
        begin = 0;
      } else {
        begin -= std::min(begin, range.bytes);
      }
    }
    return out;
  }
};

using Wholes = boost::container::small_vector<Whole, 8>;

Wholes joined(const Operator& op) {
  Wholes all;
  for (const Operand& operand : op.operands) {
    if (!operand.continues || all.empty()) all.push_back({operand.read, operand.write, operand.sliced});
    all.back().ranges.push_back({operand.address, operand.bytes});
  }
  return all;
}

std::uint64_t compute_whole(const Wholes& operands, std::uint64_t hash, Contents& contents) {
  for (const Whole& operand : operands) {
    if (operand.read) hash = combine(hash, contents.digest(spanned(operand.ranges)));
  }
  for (std::size_t position = 0; position < operands.size(); ++position) {
    if (operands[position].write) contents.derive(spanned(operands[position].ranges), combine(hash, position));
  }
  return hash;
}

class SlicedComputation {
 public:
  SlicedComputation(const Operator& op, const Wholes& operands, Contents& contents)
      : slices_(op.slices), operands_(operands), contents_(contents) {
    for (const Whole& operand : operands_) {
      if (!operand.sliced && !operand.write) begin_ = combine(begin_, contents_.digest(spanned(operand.ranges)));
    }
  }

  // `slice` counts from the operator's first one. Accumulating operands come last and are hashed separately, because a
  // later launch also reads them, and names them in another place.
  std::uint64_t compute(std::uint32_t slice, std::uint64_t hash) {
    hash = combine(combine(hash, begin_), slice);
    for (const Whole& operand : operands_) {
      if (operand.sliced && operand.read) hash = combine(hash, contents_.digest(spanned(own(operand, slice))));
    }
    for (const Whole& operand : operands_) {
      if (accumulates(operand) && (operand.read || slice > 0))
        hash = combine(hash, contents_.digest(spanned(operand.ranges)));
    }
    std::uint64_t sliced = 0, accumulated = 0;
    for (const Whole& operand : operands_) {
      if (!operand.write) continue;
      if (operand.sliced) {
        contents_.derive(spanned(own(operand, slice)), combine(hash, 2 * sliced++));
      } else {
        contents_.derive(spanned(operand.ranges), combine(hash, 2 * accumulated++ + 1));
      }
    }
    return hash;
  }

 private:
  static bool accumulates(const Whole& operand) { return operand.write && !operand.sliced; }

  Ranges own(const Whole& operand, std::uint32_t slice) const {
    const Bytes bytes = operand.bytes() / slices_.count;
    return operand.within(bytes * (slice - slices_.first), bytes);
  }

  const Slices slices_;
  const Wholes& operands_;
  Contents& contents_;
  std::uint64_t begin_ = 0;  // the hash of the operands that every slice reads
};

}  // namespace

bool can_be_sliced(const Operator& op) {
  const Operand* first = nullptr;
  for (const Operand& operand : op.operands) {
    if (!operand.continues) first = &operand;
    if (first == nullptr || operand.sliced != first->sliced) return false;
  }
  return std::ranges::all_of(
      joined(op), [&op](const Whole& operand) { return !operand.sliced || operand.bytes() % op.slices.count == 0; });
}

std::uint64_t compute(const Operator& op, Contents& contents) {
  for (const Operand& operand : op.operands) {
    if (operand.fresh) contents.zero(operand.address, operand.bytes);
  }
  const Wholes operands = joined(op);
  const std::uint64_t hash = combine(hash_text(op.name), op.ordinal);
  if (op.slices.all == 0) return combine(op.ordinal, compute_whole(operands, hash, contents));
  SlicedComputation sliced(op, operands, contents);
  std::uint64_t sum = 0;
  for (std::uint32_t s = op.slices.first; s < op.slices.first + op.slices.count; ++s) {
    sum += combine(op.ordinal, sliced.compute(s, hash));
  }
  return sum;
}

}  // namespace simulator
