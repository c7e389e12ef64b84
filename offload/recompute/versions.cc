// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/versions.h"

#include <algorithm>

#include "driver/check.h"
#include "driver/host_reserve.h"
#include "offload/recompute/kept_inputs.h"

namespace thermocline {
namespace {

// A version's id is the operand of the operation that wrote it; or the version existed before.
constexpr unsigned kOperandBits = 16;
constexpr VersionId kFound = VersionId{1} << 63;

VersionId version_of(std::uint64_t operation, std::size_t operand) { return operation << kOperandBits | operand; }
std::uint64_t operation_of(VersionId version) { return version >> kOperandBits; }

}  // namespace

// Which versions exist or may be recomputed at this moment. `own`: buffers whose contents are to be restored; `going`:
// buffers that must not be read.
class Versions::World {
 public:
  // `only`: of the existing versions, only these may be read; null: all may.
  World(const Versions& versions, std::span<const BufferNumber> own, std::span<const BufferNumber> going,
        const std::vector<BufferNumber>* only = nullptr)
      : versions_(versions), own_(own), going_(going), only_(only) {}

  bool producer(VersionId version, std::uint64_t* operation) const {
    if ((version & kFound) != 0 || version == kNoVersion) return false;
    *operation = operation_of(version);
    return *operation >= versions_.first_ && versions_.record(*operation).form->may_run_again;
  }
  std::span<const VersionedOperand> operands(std::uint64_t operation) const {
    return versions_.record(operation).versions;
  }
  bool is_available(VersionId version) const {
    const auto buffer = versions_.buffer_of_.find(version);
    return buffer != versions_.buffer_of_.end() && !versions_.is_dropped(buffer->second) &&
           std::ranges::find(own_, buffer->second) == own_.end() &&
           std::ranges::find(going_, buffer->second) == going_.end() &&
           (only_ == nullptr || std::ranges::find(*only_, buffer->second) != only_->end());
  }
  bool owns(VersionId version) const {
    const auto buffer = versions_.buffer_of_.find(version);
    return buffer != versions_.buffer_of_.end() && std::ranges::find(own_, buffer->second) != own_.end();
  }

 private:
  const Versions& versions_;
  const std::span<const BufferNumber> own_, going_;
  const std::vector<BufferNumber>* const only_;
};

Versions::Form::Form(std::span<const Operand> list, bool may_run_again_in, bool is_all_in, KernelTrial* trial_in)
    : operands(list.begin(), list.end()),
      may_run_again(may_run_again_in && list.size() < (std::size_t{1} << kOperandBits)),
      is_all(is_all_in),
      any_in_place(std::ranges::any_of(list, [](const Operand& operand) { return operand.use.in_place; })),
      trial(trial_in) {}

void Versions::catch_up() const {
  try {
    while (!late_.empty()) {
      // The rest of the call that asks needs memory, too.
      if (dropped_.empty()) HostReserve::require();
      note_late(late_.front());
      if (late_.front().form != nullptr) --late_operations_;
      late_.pop_front();
    }
  } catch (const std::bad_alloc&) {
    // As long as nothing is dropped, nothing has to be known.
    if (!dropped_.empty()) throw;
    forget_all();
  }
}

// All of it, or nothing.
void Versions::note_late(const Late& late) const {
  if (late.form == nullptr) return late.id == kAllContents ? note_end_of_contents() : note_free(late.id);
  const std::size_t before = records_.size();
  try {
    note(late);
    if (late.forgets) note_end_of_contents();
    if (late.is_submitted) begin_written();
  } catch (const std::bad_alloc&) {
    if (records_.size() > before) records_.pop_back();
    throw;
  }
}

// Something is dropped. An operation that cannot be noted has not arrived.
void Versions::note_at_once() {
  try {
    catch_up();
  } catch (const std::bad_alloc&) {
    late_.pop_back();
    --late_operations_;
    arriving_ = false;
    newest_ = records_.back().form.get();
    throw;
  }
}

void Versions::arrives_unlisted(std::shared_ptr<const Form> form) {
  forget_all();
  ++first_;
  forgotten_ = std::move(form);
  newest_ = forgotten_.get();
  arriving_ = true;
}

// Needs no memory. What was arriving is still arriving, and nothing is known about it but its form.
void Versions::forget_all() const {
  THERMOCLINE_CHECK(dropped_.empty(), "what is dropped is made of what is known");
  const auto is_newest = [this](const auto& one) { return one.form.get() == newest_; };
  if (const auto late = std::ranges::find_if(late_, is_newest); late != late_.end()) {
    forgotten_ = late->form;
  } else if (!records_.empty()) {
    forgotten_ = records_.back().form;
  }
  first_ += records_.size() + late_operations_;
  records_.clear();
  late_.clear();
  late_operations_ = 0;
  current_.clear();
  buffer_of_.clear();
  in_place_.clear();
  deaths_.clear();
}

// The operation arrives.
void Versions::note(const Late& late) const {
  const std::uint64_t operation = first_ + records_.size();
  Record& record = records_.emplace_back();
  record.form = late.form;
  record.id = late.id;
  record.nanoseconds = late.nanoseconds;
  const Form& form = *late.form;
  record.versions.reserve(form.operands.size());
  for (std::size_t i = 0; i < form.operands.size(); ++i) {
    const Operand& operand = form.operands[i];
    VersionedOperand& versions = record.versions.emplace_back();
    versions.reads = operand.use.reads;
    versions.writes = operand.use.writes;
    versions.in_place = operand.use.in_place;
    if (operand.use.in_place) in_place_.insert(operand.buffer);
    if (operand.use.reads && !current_.contains(operand.buffer)) begin_version(operand.buffer, kFound | ++found_);
    if (operand.use.reads) versions.read = current_.at(operand.buffer);
    if (operand.use.writes) versions.written = form.may_run_again ? version_of(operation, i) : kFound | ++found_;
  }
}

void Versions::submitted_at_once() {
  // It has been forgotten, as has been what the buffers contained before it.
  if (records_.empty()) return note_end_of_contents();
  for (const Operand& operand : records_.back().form->operands) {
    if (operand.use.writes) restored(operand.buffer);
  }
  try {
    begin_written();
  } catch (const std::bad_alloc&) {
    if (!dropped_.empty()) throw;
    forget_all();
  }
}

// The operation that was noted last has been submitted.
void Versions::begin_written() const {
  const Record& record = records_.back();
  for (std::size_t i = 0; i < record.versions.size(); ++i) {
    if (record.versions[i].writes) begin_version(record.form->operands[i].buffer, record.versions[i].written);
  }
}

void Versions::begin_version(BufferNumber buffer, VersionId version) const {
  const auto old = current_.find(buffer);
  if (old != current_.end()) {
    auto place = buffer_of_.extract(old->second);
    place.key() = old->second = version;
    buffer_of_.insert(std::move(place));
    return;
  }
  buffer_of_.emplace(version, buffer);
  try {
    current_.emplace(buffer, version);
  } catch (const std::bad_alloc&) {
    buffer_of_.erase(version);
    throw;
  }
}

void Versions::forget_contents() {
  THERMOCLINE_CHECK(dropped_.empty(), "what is dropped is made of what is known");
  if (arriving_ && !late_.empty()) {
    late_.back().forgets = true;
  } else {
    note_in_turn(kAllContents);
  }
}

void Versions::note_end_of_contents() const {
  current_.clear();
  buffer_of_.clear();
}

// An operation that has arrived stays the last in the list.
void Versions::note_in_turn(BufferNumber ended) {
  if (!late_.empty() && !arriving_ && late_.size() < 2 * remembered_) return list_end_of(ended);
  catch_up();
  ended == kAllContents ? note_end_of_contents() : note_free(ended);
}

void Versions::list_end_of(BufferNumber ended) {
  try {
    late_.push_back({nullptr, ended});
  } catch (const std::bad_alloc&) {
    // Then there is nothing left that could end. Something is late, so nothing is dropped.
    forget_all();
  }
}

void Versions::changed_unseen(BufferNumber buffer) {
  THERMOCLINE_CHECK(!is_dropped(buffer), "what is dropped is made of what is known");
  catch_up();
  begin_version(buffer, kFound | ++found_);
}

void Versions::freed(BufferNumber buffer) {
  restored(buffer);
  asides_.erase(buffer);
  note_in_turn(buffer);
}

void Versions::note_free(BufferNumber buffer) const {
  in_place_.erase(buffer);
  const auto known = current_.find(buffer);
  if (known == current_.end()) return;
  buffer_of_.erase(known->second);
  current_.erase(known);
  note_death(buffer);
}

// Plans are better for it; nothing else depends on it.
void Versions::note_death(BufferNumber buffer) const {
  if (records_.empty()) return;
  try {
    deaths_.try_emplace(buffer, first_ + records_.size() - 1);
  } catch (const std::bad_alloc&) {
    return;
  }
}

VersionId Versions::current(BufferNumber buffer) const {
  catch_up();
  const auto known = current_.find(buffer);
  return known == current_.end() ? kNoVersion : known->second;
}

std::vector<Versions::BufferNumber> Versions::dropped() const {
  std::vector<BufferNumber> all;
  all.reserve(dropped_.size());
  for (const auto& [buffer, dropped] : dropped_) all.push_back(buffer);
  std::ranges::sort(all);
  return all;
}

std::optional<Recipe> Versions::recipe_without(std::span<const BufferNumber> buffers,
                                               std::span<const BufferNumber> going) const {
  const World world(*this, buffers, going);
  RecipeBuilder builder(world, Recipe::kMostRunsOfSegment);
  for (const BufferNumber buffer : buffers) {
    if (!builder.add(current(buffer))) return std::nullopt;
  }
  return builder.take();
}

std::optional<Recipe> Versions::recipe_for(std::span<const BufferNumber> buffers) const {
  catch_up();
  return recipe_without(buffers, {});
}

bool Versions::drop(BufferNumber buffer) {
  THERMOCLINE_CHECK(!is_dropped(buffer), "contents are dropped once");
  catch_up();
  if (!find_another_recipe(buffer, {})) return false;
  // Contents that are computed from this buffer must be computed from its inputs now.
  const auto readers = readers_.find(buffer);
  if (readers == readers_.end()) return true;
  std::vector<BufferNumber> others(readers->second.begin(), readers->second.end());
  std::ranges::sort(others);
  for (const BufferNumber other : others) {
    if (find_another_recipe(other, {})) continue;
    restored(buffer);
    return false;
  }
  return true;
}

// Finds a new recipe for the buffer; false: there is none, and nothing has changed.
bool Versions::find_another_recipe(BufferNumber buffer, std::span<const BufferNumber> going) {
  const std::optional<Recipe> recipe = recipe_without({&buffer, 1}, going);
  if (!recipe || !may_rely_on(*recipe)) return false;
  unlink(buffer);
  Dropped& dropped = dropped_[buffer];
  dropped.version = current(buffer);
  dropped.trials = trials_of(*recipe);
  dropped.oldest = first_ + records_.size();
  for (const Recipe::Run& run : recipe->runs) dropped.oldest = std::min(dropped.oldest, run.operation);
  for (const VersionId input : recipe->inputs) {
    const BufferNumber read = buffer_of_.at(input);
    dropped.inputs.push_back(read);
    readers_[read].insert(buffer);
  }
  return true;
}

// Contents already dropped are recomputed by the kernels that made them, even if these were demoted since.
bool Versions::may_rely_on(const Recipe& recipe) const {
  return by_proof_ || std::ranges::all_of(recipe.runs, [this](const Recipe::Run& run) {
           const KernelTrial* const trial = trial_of(run.operation);
           return trial == nullptr || trial->is_promoted();
         });
}

std::vector<KernelTrial*> Versions::trials_of(const Recipe& recipe) const {
  std::vector<KernelTrial*> trials;
  for (auto run = recipe.runs.rbegin(); run != recipe.runs.rend(); ++run) {
    KernelTrial* const trial = trial_of(run->operation);
    if (trial != nullptr && std::ranges::find(trials, trial) == trials.end()) trials.push_back(trial);
  }
  return trials;
}

void Versions::unlink(BufferNumber buffer) {
  const auto known = dropped_.find(buffer);
  if (known == dropped_.end()) return;
  for (const BufferNumber input : known->second.inputs) {
    const auto readers = readers_.find(input);
    if (readers == readers_.end()) continue;
    readers->second.erase(buffer);
    if (readers->second.empty()) readers_.erase(readers);
  }
  known->second.inputs.clear();
}

void Versions::restored(BufferNumber buffer) {
  unlink(buffer);
  dropped_.erase(buffer);
}

bool Versions::is_kept(BufferNumber buffer, Bytes bytes) {
  const auto readers = readers_.find(buffer);
  if (readers == readers_.end()) return false;
  Bytes most = 0;
  for (const BufferNumber reader : readers->second) most = std::max(most, bytes_of(current(reader)));
  if (!is_kept_for(bytes, most)) return false;
  note_death(buffer);
  return true;
}

bool Versions::is_worth_a_copy(BufferNumber buffer, Bytes bytes) const {
  const auto readers = readers_.find(buffer);
  if (readers == readers_.end() || in_place_.contains(buffer)) return false;
  Bytes sum = 0;
  for (const BufferNumber reader : readers->second) sum += bytes_of(current(reader));
  return is_kept_for(bytes, sum);
}

void Versions::copied_aside(BufferNumber buffer, BufferNumber copy, DeviceAddress at) {
  catch_up();
  THERMOCLINE_CHECK(!is_dropped(buffer) && !current_.contains(copy),
                    "a copy is made of what is there, where nothing was");
  const auto known = current_.find(buffer);
  THERMOCLINE_CHECK(known != current_.end(), "what is made of something knows its version");
  current_[copy] = known->second;
  buffer_of_[known->second] = copy;
  current_.erase(buffer);
  asides_[copy] = at;
  const auto readers = readers_.find(buffer);
  if (readers == readers_.end()) return;
  for (const BufferNumber reader : readers->second) std::ranges::replace(dropped_.at(reader).inputs, buffer, copy);
  readers_[copy] = readers->second;
  readers_.erase(buffer);
}

DeviceAddress Versions::address_of(std::uint64_t operation, std::size_t i) const {
  const Record& known = record(operation);
  const auto buffer = buffer_of_.find(known.versions[i].read);
  const auto aside = buffer == buffer_of_.end() ? asides_.end() : asides_.find(buffer->second);
  return aside == asides_.end() ? known.form->operands[i].address : aside->second;
}

// The size of a version that can be recomputed.
Bytes Versions::bytes_of(VersionId version) const {
  return operands_of(operation_of(version))[version & ((VersionId{1} << kOperandBits) - 1)].bytes;
}

std::vector<Versions::BufferNumber> Versions::lost_without(std::span<const BufferNumber> going) {
  std::vector<BufferNumber> readers;
  for (const BufferNumber buffer : going) {
    if (const auto known = readers_.find(buffer); known != readers_.end()) {
      readers.insert(readers.end(), known->second.begin(), known->second.end());
    }
  }
  std::ranges::sort(readers);
  readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  // Dropped buffers that are themselves overwritten or freed need no contents any more.
  std::erase_if(readers, [&](BufferNumber reader) {
    return std::ranges::find(going, reader) != going.end() || find_another_recipe(reader, going);
  });
  return readers;
}

// Something that came before all operations that are remembered. What an operation has written then counts as written by
// somebody before it, who is not remembered, either; nor is anybody who read it in between.
void Versions::skip(const Late& late) const {
  if (late.form == nullptr) return late.id == kAllContents ? note_end_of_contents() : note_free(late.id);
  if (late.forgets) note_end_of_contents();
  if (!late.form->any_in_place) return;
  for (const Operand& operand : late.form->operands) {
    if (operand.use.in_place) in_place_.insert(operand.buffer);
  }
}

// Keeps as many records as the relauncher remembers, or half as many again.
void Versions::forget_old() {
  // Buffers dropped since too_old() was called may depend on old operations.
  std::uint64_t kept = first_ + (records_.size() + late_operations_) / 2;
  for (const auto& [buffer, dropped] : dropped_) kept = std::min(kept, dropped.oldest);
  std::uint64_t forgotten = kept - first_;
  const std::uint64_t noted = std::min<std::uint64_t>(forgotten, records_.size());
  records_.erase(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(noted));
  first_ += noted;
  try {
    for (forgotten -= noted; forgotten > 0; late_.pop_front()) {
      skip(late_.front());
      if (late_.front().form == nullptr) continue;
      --late_operations_;
      ++first_;
      --forgotten;
    }
  } catch (const std::bad_alloc&) {
    // Nothing is dropped while operations are late.
    forget_all();
  }
  std::erase_if(deaths_, [this](const auto& death) { return death.second < first_; });
}

std::vector<Versions::BufferNumber> Versions::too_old() const {
  std::vector<BufferNumber> old;
  if (records_.size() + 1 < remembered_) return old;
  for (const auto& [buffer, dropped] : dropped_) {
    if (dropped.oldest < first_ + records_.size() / 2 + 1) old.push_back(buffer);
  }
  std::ranges::sort(old);
  return old;
}

std::vector<Bytes> Versions::content_bytes(std::size_t period) const {
  catch_up();
  if (records_.size() < period) return {};
  struct Accesses {
    Bytes bytes = 0;
    std::size_t first = 0, last = 0;
    bool begins_read = false;
  };
  std::unordered_map<BufferNumber, Accesses> all;
  std::vector<std::int64_t> change(period + 1);
  const auto add = [&change](std::size_t from, std::size_t to, Bytes bytes) {
    change[from] += static_cast<std::int64_t>(bytes);
    change[to] -= static_cast<std::int64_t>(bytes);
  };
  for (std::size_t i = 0; i < period; ++i) {
    for (const Operand& operand : records_[records_.size() - period + i].form->operands) {
      const auto [known, is_new] = all.try_emplace(operand.buffer, Accesses{operand.bytes, i, i, operand.use.reads});
      if (!is_new && operand.use.reads) add(known->second.last + 1, i + 1, operand.bytes);
      known->second.last = i;
    }
  }
  // From the last access in one turn to the first in the next.
  for (const auto& [buffer, accesses] : all) {
    if (!accesses.begins_read) continue;
    add(0, accesses.first + 1, accesses.bytes);
    add(accesses.last + 1, period, accesses.bytes);
  }
  std::vector<Bytes> bytes(period);
  std::int64_t now = 0;
  for (std::size_t i = 0; i < period; ++i) bytes[i] = static_cast<Bytes>(now += change[i]);
  return bytes;
}

bool Versions::are_all_known(std::size_t period) const {
  catch_up();
  if (records_.size() < period) return false;
  return std::all_of(records_.end() - static_cast<std::ptrdiff_t>(period), records_.end(),
                     [](const Record& record) { return record.form->is_all; });
}

std::optional<Lineage> Versions::lineage_of(const Profile& profile) const {
  catch_up();
  const std::size_t period = profile.places();
  if (records_.size() < period) return std::nullopt;
  const std::uint64_t begin = first_ + records_.size() - period;
  Lineage lineage;
  lineage.keeps_inputs = lineage.drops_lasting = true;
  std::unordered_map<BufferNumber, std::uint32_t> indices;
  std::vector<Lineage::Access> accesses;
  for (std::uint32_t place = 0; place < period; ++place) {
    const Form& form = *record(begin + place).form;
    if (!form.is_all) return std::nullopt;
    const std::span<const std::uint32_t> names = profile.operands(place);
    std::size_t own = 0;
    accesses.clear();
    for (const Operand& operand : form.operands) {
      if (operand.owns_pages && own == names.size()) return std::nullopt;
      const std::uint32_t name = operand.owns_pages ? names[own++] : kNoBuffer;
      const auto [index, is_new] =
          indices.try_emplace(operand.buffer, static_cast<std::uint32_t>(lineage.buffers.size()));
      if (is_new) {
        LineageBuffer& buffer = lineage.buffers.emplace_back();
        buffer.name = name;
        buffer.bytes = operand.bytes;
        const auto death = deaths_.find(operand.buffer);
        if (death != deaths_.end()) buffer.death = static_cast<std::uint32_t>(death->second - begin);
      }
      if (lineage.buffers[index->second].name != name) return std::nullopt;
      accesses.push_back({.buffer = index->second,
                          .reads = operand.use.reads,
                          .writes = operand.use.writes,
                          .in_place = operand.use.in_place});
    }
    // Kernels on trial are counted on: until they are promoted their results stay, or are copied.
    const bool is_refused = form.trial != nullptr && form.trial->is_refused();
    lineage.add(form.may_run_again && !is_refused, accesses);
  }
  // Buffers that the program frees after the last operation have not been freed yet; buffers that live on into the next
  // iteration have another role there.
  for (LineageBuffer& buffer : lineage.buffers) {
    if (buffer.name == kNoBuffer || buffer.death != LineageBuffer::kOutlives) continue;
    const ProfiledBuffer& profiled = profile.buffers[buffer.name];
    if (!profiled.always && profiled.birth <= profiled.death) buffer.death = profiled.death;
  }
  return lineage;
}

void Versions::validate_number_of(std::size_t index) const {
  const Record& record = records_[index];
  THERMOCLINE_CHECK(record.versions.size() == record.form->operands.size(), "an operation is noted wholly");
  for (std::size_t i = 0; record.form->may_run_again && i < record.versions.size(); ++i) {
    const VersionedOperand& one = record.versions[i];
    THERMOCLINE_CHECK(!one.writes || one.written == version_of(first_ + index, i), "operations are numbered in order");
  }
}

void Versions::validate() const {
  THERMOCLINE_CHECK(dropped_.empty() || late_.empty(),
                    "while anything is dropped each operation is noted when it comes");
  const auto operations = std::ranges::count_if(late_, [](const Late& late) { return late.form != nullptr; });
  THERMOCLINE_CHECK(static_cast<std::uint64_t>(operations) == late_operations_, "late operations are counted");
  THERMOCLINE_CHECK(current_.size() == buffer_of_.size(), "a version stands in one buffer");
  for (const auto& [buffer, version] : current_)
    THERMOCLINE_CHECK(buffer_of_.at(version) == buffer, "the buffer of a version contains it");
  if (!records_.empty()) {
    validate_number_of(0);
    validate_number_of(records_.size() - 1);
  }
  for (const auto& [buffer, dropped] : dropped_) {
    THERMOCLINE_CHECK(dropped.version == current(buffer), "what is dropped is not overwritten");
    // There may be a shorter recipe by now; the stored one is valid whatever happens to other buffers.
    const World world(*this, {&buffer, 1}, {}, &dropped.inputs);
    RecipeBuilder builder(world, Recipe::kMostRunsOfSegment);
    THERMOCLINE_CHECK(builder.add(dropped.version), "what is dropped can be recomputed from what is kept for it");
    for (const BufferNumber input : dropped.inputs) {
      const auto readers = readers_.find(input);
      THERMOCLINE_CHECK(readers != readers_.end() && readers->second.contains(buffer),
                        "what is read to recompute something is known to be");
    }
  }
}

}  // namespace thermocline
