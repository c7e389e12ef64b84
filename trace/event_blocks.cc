// SPDX-License-Identifier: Apache-2.0
#include "trace/event_blocks.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "driver/check.h"
#include "telemetry/packed.h"

namespace thermocline {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
// The same limit as for a line of the JSON format.
constexpr std::uint64_t kLargestBlock = std::uint64_t{65} << 20;
constexpr int kLevel = 3;  // zstd's own default

enum Kind : std::uint8_t { kHeader, kAllocate, kFree, kOperator, kStep, kEnd, kChoice };
struct KindName {
  Kind kind;
  std::string_view name;
};
constexpr std::array<KindName, 5> kKinds = {
    {{kAllocate, "alloc"}, {kFree, "free"}, {kOperator, "op"}, {kStep, "step"}, {kChoice, "choice"}}};

// The bits of the mask, in the order of the fields.
constexpr std::array kIntegers = {&EventFields::buffer, &EventFields::bytes,  &EventFields::stream,
                                  &EventFields::device, &EventFields::thread, &EventFields::index};
constexpr std::array kFigures = {&EventFields::flops, &EventFields::traffic, &EventFields::microseconds};
constexpr std::array kTexts = {&EventFields::name, &EventFields::tag};
constexpr std::array kLists = {&EventFields::reads, &EventFields::writes};
// These follow, so that the older bits stay the same: choice, alternative, alternatives, slices, split.
constexpr std::size_t kFields = kIntegers.size() + kFigures.size() + kTexts.size() + kLists.size() + 5;

std::uint64_t mask_of(const EventFields& fields) {
  std::uint64_t mask = 0, bit = 1;
  const auto add = [&](bool is_there) {
    if (is_there) mask |= bit;
    bit <<= 1;
  };
  for (const auto member : kIntegers) add((fields.*member).has_value());
  for (const auto member : kFigures) add((fields.*member).has_value());
  for (const auto member : kTexts) add(!(fields.*member).empty());
  for (const auto member : kLists) add(!(fields.*member).empty());
  add(fields.choice.has_value());
  add(!fields.alternative.empty());
  add(!fields.alternatives.empty());
  add(fields.slices.has_value());
  add(!fields.split.empty());
  return mask;
}

}  // namespace

EventBlockWriter::EventBlockWriter(std::string* out) : out_(out) { out_->append(kEventBlocksHeader); }

void EventBlockWriter::number(std::uint64_t value) { append_number(value, &contents_); }

void EventBlockWriter::header(std::string_view json) {
  contents_.push_back(kHeader);
  number(json.size());
  contents_.append(json);
}

void EventBlockWriter::text(const std::string& text) {
  const auto [at, fresh] = texts_.try_emplace(text, texts_.size());
  number(at->second);
  if (!fresh) return;
  number(text.size());
  contents_.append(text);
}

void EventBlockWriter::ids(const std::vector<std::int64_t>& ids) {
  number(ids.size());
  std::uint64_t before = 0;
  for (const std::int64_t id : ids) {
    const auto now = static_cast<std::uint64_t>(id);
    number(folded(static_cast<std::int64_t>(now - before)));
    before = now;
  }
}

bool EventBlockWriter::event(const EventFields& fields) {
  const auto kind = std::ranges::find(kKinds, fields.kind, &KindName::name);
  if (kind == kKinds.end()) return false;
  contents_.push_back(static_cast<char>(kind->kind));
  number(mask_of(fields));
  for (const auto member : kIntegers) {
    if ((fields.*member).has_value()) number(folded(*(fields.*member)));
  }
  for (const auto member : kFigures) {
    if ((fields.*member).has_value()) append_word(std::bit_cast<std::uint64_t>(*(fields.*member)), &contents_);
  }
  for (const auto member : kTexts) {
    if (!(fields.*member).empty()) text(fields.*member);
  }
  for (const auto member : kLists) {
    if (!(fields.*member).empty()) ids(fields.*member);
  }
  if (fields.choice.has_value()) number(folded(*fields.choice));
  if (!fields.alternative.empty()) text(fields.alternative);
  if (!fields.alternatives.empty()) texts(fields.alternatives);
  if (fields.slices.has_value()) number(folded(*fields.slices));
  if (!fields.split.empty()) ids(fields.split);
  if (contents_.size() >= kBlockBytes) flush();
  return true;
}

void EventBlockWriter::texts(const std::vector<std::string>& all) {
  number(all.size());
  for (const std::string& each : all) text(each);
}

void EventBlockWriter::flush() {
  std::string frame(ZSTD_compressBound(contents_.size()), '\0');
  const std::size_t bytes = ZSTD_compress(frame.data(), frame.size(), contents_.data(), contents_.size(), kLevel);
  THERMOCLINE_CHECK(ZSTD_isError(bytes) == 0, "what was given room enough is compressed");
  append_block(kEventBlock, std::string_view(frame).substr(0, bytes), out_);
  contents_.clear();
}

void EventBlockWriter::finish() {
  contents_.push_back(kEnd);
  flush();
}

bool EventBlockReader::next_block() {
  std::string_view frame;
  if (!take_block(kEventBlock, &rest_, &frame)) return false;
  const unsigned long long bytes = ZSTD_getFrameContentSize(frame.data(), frame.size());
  // Also rejects the two values with which zstd reports an unknown size and an error.
  if (bytes > kLargestBlock || bytes == 0) return false;
  block_.resize(static_cast<std::size_t>(bytes));
  if (ZSTD_decompress(block_.data(), block_.size(), frame.data(), frame.size()) != block_.size()) return false;
  contents_ = block_;
  return true;
}

bool EventBlockReader::number(std::uint64_t* value) { return take_number(&contents_, value); }

bool EventBlockReader::header(std::string* json) {
  std::uint64_t bytes = 0;
  if (!next_block() || contents_.front() != kHeader) return false;
  contents_.remove_prefix(1);
  if (!number(&bytes) || bytes > contents_.size()) return false;
  *json = contents_.substr(0, bytes);
  contents_.remove_prefix(bytes);
  return true;
}

bool EventBlockReader::text(std::string* out) {
  std::uint64_t id = 0, bytes = 0;
  if (!number(&id) || id > texts_.size()) return false;
  if (id == texts_.size()) {
    if (!number(&bytes) || bytes > contents_.size()) return false;
    texts_.emplace_back(contents_.substr(0, bytes));
    contents_.remove_prefix(bytes);
  }
  *out = texts_[id];
  return true;
}

bool EventBlockReader::ids(std::vector<std::int64_t>* out) {
  std::uint64_t count = 0, difference = 0, id = 0;
  // Each number takes at least one byte.
  if (!number(&count) || count > contents_.size()) return false;
  out->resize(count);
  for (std::int64_t& each : *out) {
    if (!number(&difference)) return false;
    id += static_cast<std::uint64_t>(unfolded(difference));
    each = static_cast<std::int64_t>(id);
  }
  return true;
}

bool EventBlockReader::texts(std::vector<std::string>* out) {
  std::uint64_t count = 0;
  // Each text takes at least one byte.
  if (!number(&count) || count > contents_.size()) return false;
  out->resize(count);
  return std::ranges::all_of(*out, [this](std::string& each) { return text(&each); });
}

bool EventBlockReader::fields(std::uint64_t mask, EventFields* out) {
  const auto has = [&mask] {
    const bool is_there = (mask & 1) != 0;
    mask >>= 1;
    return is_there;
  };
  std::uint64_t value = 0;
  for (const auto member : kIntegers) {
    if (!has()) continue;
    if (!number(&value)) return false;
    out->*member = unfolded(value);
  }
  for (const auto member : kFigures) {
    if (!has()) continue;
    if (!take_word(&contents_, &value)) return false;
    const auto figure = std::bit_cast<double>(value);
    // JSON can not express other values.
    if (!std::isfinite(figure)) return false;
    out->*member = figure;
  }
  for (const auto member : kTexts) {
    if (has() && !text(&(out->*member))) return false;
  }
  for (const auto member : kLists) {
    if (has() && !ids(&(out->*member))) return false;
  }
  if (has()) {
    if (!number(&value)) return false;
    out->choice = unfolded(value);
  }
  if (has() && !text(&out->alternative)) return false;
  if (has() && !texts(&out->alternatives)) return false;
  if (has()) {
    if (!number(&value)) return false;
    out->slices = unfolded(value);
  }
  return !has() || ids(&out->split);
}

bool EventBlockReader::next(EventFields* out) {
  if (whole_ || failed_) return false;
  failed_ = contents_.empty() && !next_block();
  if (failed_) return false;
  const auto kind = static_cast<Kind>(contents_.front());
  contents_.remove_prefix(1);
  if (kind == kEnd) {
    whole_ = rest_.empty() && contents_.empty();
    failed_ = !whole_;
    return false;
  }
  out->clear();
  std::uint64_t mask = 0;
  const auto known = std::ranges::find(kKinds, kind, &KindName::kind);
  failed_ = known == kKinds.end() || !number(&mask) || mask >> kFields != 0 || !fields(mask, out);
  if (failed_) return false;
  out->kind = known->name;
  return true;
}

}  // namespace thermocline
