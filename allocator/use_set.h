// SPDX-License-Identifier: Apache-2.0
// Uses of memory by work on streams, and sets of them. Work within one stream runs in order, so the newest use on a
// stream covers all older ones: a set holds at most one use per stream.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thermocline {

// A stream as the StreamClock numbers it: dense, from 0. An index is reused for another stream only after everything
// submitted under it has completed, and its ordinals continue; so the meaning of a Use never changes.
enum class StreamIndex : std::uint32_t {};

// The n-th operation of a stream, from 1; 0 is before the first one.
using Ordinal = std::uint64_t;

struct Use {
  StreamIndex stream{};
  Ordinal ordinal = 0;

  friend constexpr bool operator==(Use, Use) = default;
};

// Invariant: sorted by stream, no stream twice, no ordinal 0. The first two uses are stored inline; memory allocated
// for more is kept when the set is cleared.
class UseSet {
 public:
  using const_iterator = const Use*;

  UseSet() : near_{} {}
  UseSet(const UseSet& other) : UseSet() { assign(other); }
  UseSet(UseSet&& other) noexcept : UseSet() { swap(other); }
  UseSet& operator=(const UseSet& other) {
    if (is_inline() && other.is_inline()) [[likely]] {
      assign_at_once(other);
    } else if (this != &other) {
      assign(other);
    }
    return *this;
  }
  UseSet& operator=(UseSet&& other) noexcept {
    swap(other);
    return *this;
  }
  ~UseSet() {
    if (is_far()) delete[] far_;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  const_iterator begin() const { return data(); }
  const_iterator end() const { return data() + size_; }

  void add(Use use) {
    // The common case: a set with one stream.
    if (size_ == 1 && data()->stream == use.stream) {
      data()->ordinal = data()->ordinal < use.ordinal ? use.ordinal : data()->ordinal;
    } else {
      insert(use);
    }
  }
  void join(const UseSet& other) {
    if (other.size_ == 0) return;
    if (other.size_ == 1) return add(*other.data());
    for (const Use& use : other) add(use);
  }
  void clear() { size_ = 0; }

  // For code that calls no function: whether that is enough, as for uses of one stream; and what can then be done.
  bool is_inline() const { return capacity_ == kNear; }
  bool can_join_at_once(const UseSet& other) const {
    return other.size_ == 0 || (other.size_ == 1 && other.is_inline() && can_add_at_once(other.near_[0].stream));
  }
  bool can_add_at_once(StreamIndex stream) const {
    return is_inline() && (size_ == 0 || (size_ == 1 && near_[0].stream == stream));
  }
  void join_at_once(const UseSet& other) {
    if (other.size_ != 0) add_at_once(other.near_[0]);
  }
  void add_at_once(Use use) {
    if (size_ != 0) {
      near_[0].ordinal = near_[0].ordinal < use.ordinal ? use.ordinal : near_[0].ordinal;
    } else if (use.ordinal != 0) {
      near_[0] = use;
      size_ = 1;
    }
  }
  // At most one use, and inline.
  bool is_short() const { return is_inline() && size_ <= 1; }
  // Both must be inline. What is beyond the size does not matter.
  void assign_at_once(const UseSet& other) {
    size_ = other.size_;
    near_[0] = other.near_[0];
    near_[1] = other.near_[1];
  }
  // The other one must be short.
  void assign_short(const UseSet& other) {
    *data() = other.near_[0];
    size_ = other.size_;
  }

  // True if the set has at most a use on that stream.
  bool is_of_none_but(StreamIndex stream) const { return size_ == 0 || (size_ == 1 && data()->stream == stream); }
  // The newest ordinal of the stream in this set; 0 if the set has none.
  Ordinal newest(StreamIndex stream) const;

  void validate() const;

  friend bool operator==(const UseSet& a, const UseSet& b);

 private:
  static constexpr std::uint32_t kNear = 2;
  static_assert(kNear == 2, "Assignment copies two.");

  bool is_far() const { return !is_inline(); }
  Use* data() { return is_far() ? far_ : near_; }
  const Use* data() const { return is_far() ? far_ : near_; }
  void insert(Use use);
  void assign(const UseSet& other);
  void grow(std::uint32_t capacity);
  void swap(UseSet& other) noexcept;

  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = kNear;
  union {
    Use near_[kNear];
    Use* far_;  // all uses, once there have been more than fit inline
  };
};

}  // namespace thermocline
