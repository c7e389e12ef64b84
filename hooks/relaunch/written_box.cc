// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/written_box.h"

#include <algorithm>
#include <utility>

namespace thermocline {
namespace {

constexpr std::int64_t kUnbounded = INT64_MAX;
constexpr std::int64_t kEndOfSigned = std::int64_t{1} << 31, kEndOfUnsigned = std::int64_t{1} << 32;
constexpr std::size_t kAxes = kLoopAxis + 1;  // the last: the axis of the loop

// A number that counts as unknown once it has become too large.
class Number {
 public:
  Number() = default;
  explicit Number(std::int64_t value) : value_(value) {}
  bool is_known() const { return is_known_; }
  std::int64_t value() const { return value_; }
  Number& operator+=(const Number& other) {
    is_known_ = is_known_ && other.is_known_ && !__builtin_add_overflow(value_, other.value_, &value_);
    return *this;
  }
  Number operator*(const Number& other) const {
    Number product = *this;
    product.is_known_ = is_known_ && other.is_known_ && !__builtin_mul_overflow(value_, other.value_, &product.value_);
    return product;
  }

 private:
  std::int64_t value_ = 0;
  bool is_known_ = true;
};

struct NumberForm {
  std::int64_t by_axis[kAxes] = {};
  std::int64_t constant = 0;
};

// One dimension of the box: from 0 up to its extent.
struct Dimension {
  std::vector<std::int64_t> by_form;
  std::int64_t extent = 1;
  bool is_loop = false;  // it is the loop alone
};

struct Range {
  Number least, most;
};

class Box {
 public:
  Box(const StoredPlaces& places, const PtxGuards& guards, const Uniform& uniform)
      : places_(places), guards_(guards), uniform_(uniform) {}

  bool find(std::uint64_t* written) {
    if (!make()) return false;
    *written = 0;
    if (is_empty()) return true;
    std::erase_if(dimensions_, [](const Dimension& one) { return one.extent == 1; });
    const bool ends = std::ranges::none_of(dimensions_, [](const Dimension& one) { return one.extent == kUnbounded; });
    return ends && are_exact(/*inside=*/true) && fills(written);
  }

  PlacesReach reach() {
    if (!make()) return PlacesReach::kUnknown;
    if (is_empty()) return PlacesReach::kFromBegin;
    const Number least = range_of(0, /*without_loop=*/false).least;
    if (!least.is_known()) return PlacesReach::kUnknown;
    // An address that wraps around may be anywhere.
    if (least.value() < 0) return PlacesReach::kBefore;
    return are_exact(/*inside=*/true) ? PlacesReach::kFromBegin : PlacesReach::kUnknown;
  }

 private:
  // The limits, `last` included, within which a form equals its register. `by_all`: this must hold also in threads that
  // a guard keeps from storing.
  struct Limit {
    std::size_t form = 0;
    std::int64_t first = 0, last = 0;
    bool by_all = false;
  };
  struct Guard {
    std::size_t id = 0, left = 0, right = 0;
    bool is_cut = false;
  };

  // False: some form or guard is not supported.
  bool make() {
    if (!add_forms()) return false;
    make_dimensions();
    if (!are_exact(/*inside=*/false) || !is_granted()) return false;
    forget_what_is_exact();
    merge();
    return cut();
  }
  bool is_empty() const {
    return std::ranges::any_of(dimensions_, [](const Dimension& one) { return one.extent <= 0; });
  }

  bool add(const LinearForm& form) {
    NumberForm numbers;
    for (const LinearForm::Term& term : form.terms) {
      std::int64_t value = 0;
      std::int64_t* const to = place_of(term.axis, &numbers);
      if (to == nullptr || !uniform_.evaluate(term, &value) || __builtin_add_overflow(*to, value, to)) return false;
    }
    constexpr std::int64_t kLargest = std::int64_t{1} << 60;
    const auto is_small = [](std::int64_t value) { return value <= kLargest && value >= -kLargest; };
    forms_.push_back(numbers);
    return is_small(numbers.constant) && std::ranges::all_of(numbers.by_axis, is_small);
  }
  std::int64_t* place_of(int axis, NumberForm* numbers) const {
    if (axis == kNoAxis) return &numbers->constant;
    if (axis < kLoopAxis) return &numbers->by_axis[axis];
    return axis == kLoopAxis + places_.loop ? &numbers->by_axis[kLoopAxis] : nullptr;
  }

  // The first form is the place's.
  bool add_forms() {
    if (!add(places_.begin)) return false;
    for (const LinearForm& form : places_.widened) {
      if (!add(form)) return false;
      limits_.push_back({forms_.size() - 1, 0, kEndOfSigned - 1, false});
    }
    const PtxGuards::Set implied = guards_.implied(places_.guards, places_.loop);
    for (std::size_t id = 0; id < PtxGuards::kMost; ++id) {
      if (!places_.guards.test(id) || implied.test(id)) continue;
      const PtxGuards::Comparison& one = guards_.comparisons()[id / 2];
      if (!add_side(one.left, one) || !add_side(one.right, one)) return false;
      const std::size_t right = forms_.size() - 1;
      if (one.other_right.has_value()) {
        if (!add_side(*one.other_right, one)) return false;
        forms_[right].constant = std::max(forms_[right].constant, forms_.back().constant);
      }
      cuts_.push_back({id, right - 1, right});
      for (const LinearForm& form : one.widened) {
        if (!add(form)) return false;
        limits_.push_back({forms_.size() - 1, 0, kEndOfSigned - 1, true});
      }
    }
    return true;
  }
  bool add_side(const Symbolic::Value& side, const PtxGuards::Comparison& one) {
    if (!add(side.form)) return false;
    const std::size_t form = forms_.size() - 1;
    if (side.form.axes() == 0) {
      std::int64_t& value = forms_[form].constant;
      if (one.bytes == 4) value = wrapped(value, one.is_signed ? "s32" : "u32");
      // Unsigned numbers of this size are not bounds.
      return one.is_signed || value >= 0;
    }
    if (one.bytes == 4 && one.is_signed) limits_.push_back({form, -kEndOfSigned, kEndOfSigned - 1, true});
    if (one.bytes == 4 && !one.is_signed) limits_.push_back({form, 0, kEndOfUnsigned - 1, true});
    if (one.bytes == 8) limits_.push_back({form, one.is_signed ? INT64_MIN : 0, kUnbounded, true});
    return true;
  }

  void make_dimensions() {
    for (std::size_t axis = 0; axis < kAxes; ++axis) {
      Dimension one;
      const LaunchShape& shape = uniform_.shape();
      if (axis < kBlockAxis) one.extent = static_cast<std::int64_t>(shape.threads[axis]);
      if (axis >= kBlockAxis && axis < kLoopAxis)
        one.extent = static_cast<std::int64_t>(shape.blocks[axis - kBlockAxis]);
      if (axis == kLoopAxis && places_.loop < 0) continue;
      if (axis == kLoopAxis) one.extent = kUnbounded, one.is_loop = true;
      if (one.extent == 1) continue;
      for (const NumberForm& form : forms_) one.by_form.push_back(form.by_axis[axis]);
      dimensions_.push_back(std::move(one));
    }
  }

  Range range_of(std::size_t form, bool without_loop) const {
    Range range{Number(forms_[form].constant), Number(forms_[form].constant)};
    for (const Dimension& one : dimensions_) {
      const std::int64_t each = one.by_form[form];
      if (each == 0 || (without_loop && one.is_loop)) continue;
      const Number all = Number(each) * Number(one.extent - 1);
      (each > 0 ? range.most : range.least) += all;
    }
    return range;
  }

  // Before the box is cut: checks values that all threads compute, at the beginning of the loop. Afterwards: checks
  // values computed by the threads within the box, and in one more iteration of the loop, where it ends.
  bool are_exact(bool inside) const {
    return std::ranges::all_of(limits_, [&](const Limit& limit) {
      if (!inside && !limit.by_all) return true;
      Range range = range_of(limit.form, !inside);
      if (inside && limit.by_all) {
        const std::int64_t each = forms_[limit.form].by_axis[kLoopAxis];
        (each > 0 ? range.most : range.least) += Number(each);
      }
      return is_within(range, limit);
    });
  }
  static bool is_within(const Range& range, const Limit& limit) {
    return range.least.is_known() && range.most.is_known() && range.least.value() >= limit.first &&
           range.most.value() <= limit.last;
  }

  bool is_granted() const {
    return std::ranges::all_of(cuts_, [&](const Guard& guard) {
      if (!guards_.granted().test(guard.id)) return true;
      const std::int64_t left = forms_[guard.left].constant, right = forms_[guard.right].constant;
      const bool holds = guards_.comparisons()[guard.id / 2].is_equality ? left == right : left < right;
      return holds == (guard.id % 2 == 0);
    });
  }

  // Removes limits that hold for all threads and do not change in the loop: they need not be checked again.
  void forget_what_is_exact() {
    is_of_interest_.assign(forms_.size(), false);
    is_of_interest_[0] = true;
    for (const Guard& guard : cuts_) is_of_interest_[guard.left] = is_of_interest_[guard.right] = true;
    std::erase_if(limits_, [this](const Limit& limit) {
      return forms_[limit.form].by_axis[kLoopAxis] == 0 && is_within(range_of(limit.form, false), limit);
    });
    for (const Limit& limit : limits_) is_of_interest_[limit.form] = true;
  }

  // Merges two dimensions if one continues where the other one ends, in all forms that are of interest.
  void merge() {
    for (bool again = true; again;) {
      again = false;
      for (std::size_t a = 0; a < dimensions_.size() && !again; ++a) {
        for (std::size_t b = 0; b < dimensions_.size() && !again; ++b) again = a != b && merge(a, b);
      }
    }
  }
  bool merge(std::size_t a, std::size_t b) {
    Dimension& inner = dimensions_[a];
    const Dimension& outer = dimensions_[b];
    if (inner.extent == kUnbounded) return false;
    for (std::size_t form = 0; form < forms_.size(); ++form) {
      if (!is_of_interest_[form]) continue;
      const Number all = Number(inner.by_form[form]) * Number(inner.extent);
      if (!all.is_known() || all.value() != outer.by_form[form]) return false;
    }
    std::int64_t extent = kUnbounded;
    if (outer.extent != kUnbounded && __builtin_mul_overflow(inner.extent, outer.extent, &extent)) return false;
    inner.extent = extent;
    inner.is_loop = false;
    dimensions_.erase(dimensions_.begin() + static_cast<std::ptrdiff_t>(b));
    return true;
  }

  // Cuts the box by all guards; false: one is not supported.
  bool cut() {
    for (bool again = true; again;) {
      again = false;
      for (Guard& guard : cuts_) {
        if (guard.is_cut) continue;
        guard.is_cut = guards_.comparisons()[guard.id / 2].is_equality ? cut_equality(guard) : cut_order(guard);
        again |= guard.is_cut;
      }
    }
    return std::ranges::all_of(cuts_, &Guard::is_cut);
  }
  // Computes left - right, or the opposite.
  std::int64_t difference(const Guard& guard, bool is_opposite, std::vector<std::int64_t>* by_dimension) const {
    const std::size_t plus = is_opposite ? guard.right : guard.left, minus = is_opposite ? guard.left : guard.right;
    for (const Dimension& one : dimensions_) by_dimension->push_back(one.by_form[plus] - one.by_form[minus]);
    return forms_[plus].constant - forms_[minus].constant;
  }
  Range range_of(const std::vector<std::int64_t>& by_dimension, std::int64_t constant) const {
    Range range{Number(constant), Number(constant)};
    for (std::size_t i = 0; i < dimensions_.size(); ++i) {
      if (by_dimension[i] == 0) continue;
      Number all = Number(by_dimension[i]) * Number(dimensions_[i].extent - 1);
      // The dimension is a loop without end.
      if (dimensions_[i].extent == kUnbounded) all = Number(by_dimension[i] > 0 ? INT64_MAX / 4 : INT64_MIN / 4);
      (by_dimension[i] > 0 ? range.most : range.least) += all;
    }
    return range;
  }
  // The only dimension with a coefficient other than 0; null: there are several.
  Dimension* only_one(const std::vector<std::int64_t>& by_dimension, std::int64_t* each) {
    Dimension* only = nullptr;
    for (std::size_t i = 0; i < dimensions_.size(); ++i) {
      if (by_dimension[i] == 0 || dimensions_[i].extent == 1) continue;
      if (only != nullptr) return nullptr;
      only = &dimensions_[i];
      *each = by_dimension[i];
    }
    return only;
  }
  void leave_nothing() {
    for (Dimension& one : dimensions_) one.extent = 0;
    if (dimensions_.empty()) dimensions_.push_back({std::vector<std::int64_t>(forms_.size()), 0, false});
  }

  // The guard is left < right, or right <= left.
  bool cut_order(const Guard& guard) {
    const bool is_opposite = guard.id % 2 == 1;
    std::vector<std::int64_t> by_dimension;
    std::int64_t constant = difference(guard, is_opposite, &by_dimension);
    if (is_opposite) --constant;
    const Range range = range_of(by_dimension, constant);
    if (!range.least.is_known() || !range.most.is_known()) return false;
    if (range.most.value() < 0) return true;
    if (range.least.value() >= 0) return leave_nothing(), true;
    std::int64_t each = 0;
    Dimension* const only = only_one(by_dimension, &each);
    if (only == nullptr || each < 0) return false;
    // each * v + constant < 0, and the constant is negative.
    only->extent = std::min(only->extent, (-constant + each - 1) / each);
    return true;
  }
  // Supports: a loop until both sides are equal; a guard that never or always holds; a dimension's first element.
  bool cut_equality(const Guard& guard) {
    std::vector<std::int64_t> by_dimension;
    const std::int64_t constant = difference(guard, false, &by_dimension);
    const Range range = range_of(by_dimension, constant);
    if (!range.least.is_known() || !range.most.is_known()) return false;
    const bool never = range.least.value() > 0 || range.most.value() < 0;
    const bool always = range.least.value() == 0 && range.most.value() == 0, has_to = guard.id % 2 == 0;
    if (never || always) {
      if (always != has_to) leave_nothing();
      return true;
    }
    std::int64_t each = 0;
    Dimension* const only = only_one(by_dimension, &each);
    if (only == nullptr) return false;
    if (has_to) {
      if (constant == 0) only->extent = std::min<std::int64_t>(only->extent, 1);
      return constant == 0;
    }
    if (!only->is_loop || constant % each != 0 || -constant / each < 1) return false;
    only->extent = std::min(only->extent, -constant / each);
    return true;
  }

  bool fills(std::uint64_t* written) {
    Number begin(forms_[0].constant);
    for (Dimension& one : dimensions_) {
      std::int64_t& each = one.by_form[0];
      if (each >= 0) continue;
      // Counts from the other end of the dimension.
      begin += Number(each) * Number(one.extent - 1);
      each = -each;
    }
    if (!begin.is_known() || begin.value() != 0) return false;
    std::ranges::sort(dimensions_, {}, [](const Dimension& one) { return one.by_form[0]; });
    Number filled(places_.bytes);
    for (const Dimension& one : dimensions_) {
      if (!filled.is_known() || one.by_form[0] != filled.value()) return false;
      filled = filled * Number(one.extent);
    }
    *written = static_cast<std::uint64_t>(filled.value());
    return filled.is_known();
  }

  const StoredPlaces& places_;
  const PtxGuards& guards_;
  const Uniform& uniform_;
  std::vector<NumberForm> forms_;
  std::vector<Limit> limits_;
  std::vector<Guard> cuts_;
  std::vector<bool> is_of_interest_;  // by form: whether the dimensions hold its values
  std::vector<Dimension> dimensions_;
};

}  // namespace

bool find_written(const StoredPlaces& places, const PtxGuards& guards, const Uniform& uniform, std::uint64_t* written) {
  return Box(places, guards, uniform).find(written);
}

PlacesReach reach_of(const StoredPlaces& places, const PtxGuards& guards, const Uniform& uniform) {
  return Box(places, guards, uniform).reach();
}

}  // namespace thermocline
