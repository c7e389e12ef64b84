// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/linear_form.h"

#include <algorithm>

namespace thermocline {
namespace {

constexpr std::int64_t kLargestNumber = std::int64_t{1} << 48;

}  // namespace

LinearForm LinearForm::of_number(std::int64_t number) {
  LinearForm form;
  if (number != 0) form.terms.push_back({.axis = kNoAxis, .number = number, .factors = {}});
  form.is_too_large = number > kLargestNumber || number < -kLargestNumber;
  return form;
}

LinearForm LinearForm::of_axis(int axis) {
  LinearForm form;
  form.terms.push_back({.axis = axis, .number = 1, .factors = {}});
  return form;
}

LinearForm LinearForm::of_factor(const Factor& factor) {
  LinearForm form;
  form.terms.push_back({.axis = kNoAxis, .number = 1, .factors = {factor}});
  return form;
}

LinearForm::Term* LinearForm::like(const Term& term) {
  const auto found = std::ranges::find_if(terms, [&](const Term& one) { return one.is_like(term); });
  return found == terms.end() ? nullptr : &*found;
}

void LinearForm::add(const LinearForm& other, std::int64_t times) {
  is_too_large |= other.is_too_large;
  for (const Term& term : other.terms) {
    std::int64_t number = 0;
    is_too_large |= __builtin_mul_overflow(term.number, times, &number);
    Term* const there = like(term);
    if (there == nullptr) {
      terms.push_back({.axis = term.axis, .number = number, .factors = term.factors});
    } else {
      is_too_large |= __builtin_add_overflow(there->number, number, &there->number);
    }
  }
  std::erase_if(terms, [](const Term& term) { return term.number == 0; });
  for (const Term& term : terms) is_too_large |= term.number > kLargestNumber || term.number < -kLargestNumber;
}

LinearForm LinearForm::times(std::int64_t number) const {
  LinearForm product;
  product.add(*this, number);
  return product;
}

LinearForm LinearForm::times(const Factor& factor) const {
  constexpr std::size_t kMostFactors = 8;
  const auto is_before = [](const Factor& a, const Factor& b) {
    return a.reg != b.reg ? a.reg < b.reg : a.special < b.special;
  };
  LinearForm product = *this;
  for (Term& term : product.terms) {
    term.factors.insert(std::ranges::upper_bound(term.factors, factor, is_before), factor);
    product.is_too_large |= term.factors.size() > kMostFactors;
  }
  return product;
}

std::uint64_t LinearForm::axes() const {
  std::uint64_t all = 0;
  for (const Term& term : terms) all |= term.axis == kNoAxis ? 0 : std::uint64_t{1} << term.axis;
  return all;
}

LinearForm LinearForm::without(int axis) const {
  LinearForm rest = *this;
  std::erase_if(rest.terms, [axis](const Term& term) { return term.axis == axis; });
  return rest;
}

bool LinearForm::operator==(const LinearForm& other) const {
  return !is_too_large && !other.is_too_large && terms.size() == other.terms.size() &&
         std::ranges::all_of(terms, [&](const Term& term) { return std::ranges::count(other.terms, term) == 1; });
}

}  // namespace thermocline
