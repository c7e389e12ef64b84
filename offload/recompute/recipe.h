// SPDX-License-Identifier: Apache-2.0
// A recipe: which operations have to run again, and where their results go, so that some versions exist again. Results
// go to the buffers that they belong to, or to scratch memory while something in the recipe reads them. Used for
// planning, on the lineage of an iteration, and at run time, on the operations that were actually submitted.
//
// Updates in place: before an operation that overwrites what it reads, the operation that made that version runs into
// the same memory, which nobody else reads. So a result of a recipe stays unchanged until its last reader has run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace thermocline {

using VersionId = std::uint64_t;
inline constexpr VersionId kNoVersion = ~VersionId{0};

// The effect of an operation on an operand. Both flags: it updated it in place, or wrote a part of it.
struct VersionedOperand {
  bool reads = false, writes = false;
  bool in_place = false;  // it is read in the version's own buffer, or not at all (OperandUse)
  VersionId read = kNoVersion, written = kNoVersion;
};

struct Recipe {
  // How many operations a recipe may consist of. The search for the cheapest drops tries very many recipes, and long
  // ones are never cheap; where segments are recomputed, one recipe may make a whole segment.
  static constexpr std::size_t kMostRuns = 96, kMostRunsOfSegment = 2048;
  static constexpr std::uint32_t kInPlace = ~std::uint32_t{0};
  // Memory that the recipe writes.
  struct Value {
    VersionId version;                   // the version in it at the end
    bool own;                            // true: the version's own buffer; false: scratch
    std::uint32_t first_run = kInPlace;  // the first run that accesses it
    std::uint32_t last_run = 0;
  };
  struct Run {
    std::uint64_t operation;
    std::uint32_t first_operand;  // index in `operands`
  };
  std::vector<Value> values;
  std::vector<Run> runs;
  // For each operand of each run: an index into values; kInPlace: read where it is.
  std::vector<std::uint32_t> operands;
  std::vector<VersionId> inputs;  // versions that the runs read where they are; may contain duplicates
};

// Builds recipes. World provides:
//   bool producer(VersionId, std::uint64_t* operation)   false: no operation that may run again
//   std::span<const VersionedOperand> operands(std::uint64_t operation)
//   bool is_available(VersionId)   true: its buffer contains it, and it may be read there
//   bool owns(VersionId)     its buffer has no contents and is to be filled with it
template <class World>
class RecipeBuilder {
 public:
  explicit RecipeBuilder(const World& world, std::size_t most_runs = Recipe::kMostRuns)
      : world_(world), most_runs_(most_runs) {}

  // Adds the operations that make the version, unless they have been added already. False: that is impossible, and the
  // recipe is unusable.
  bool add(VersionId version) { return find_made(version) != nullptr || make(version, Recipe::kInPlace); }
  const Recipe& recipe() const { return recipe_; }
  Recipe take() { return std::move(recipe_); }

 private:
  struct Made {
    VersionId version;
    std::uint32_t value;
  };

  // Most recipes are short, and very many are built: those are searched, and only long ones have an index.
  const Made* find_made(VersionId version) const {
    if (made_.size() <= kSearched) {
      const auto found = std::ranges::find(made_, version, &Made::version);
      return found == made_.end() ? nullptr : &*found;
    }
    const auto found = index_.find(version);
    return found == index_.end() ? nullptr : &made_[found->second];
  }
  void add_made(VersionId version, std::uint32_t value) {
    made_.push_back({version, value});
    if (made_.size() <= kSearched) return;
    for (; indexed_ < made_.size(); ++indexed_) index_.try_emplace(made_[indexed_].version, indexed_);
  }

  std::uint32_t new_value(VersionId version, bool own) {
    recipe_.values.push_back({.version = version, .own = own});
    return static_cast<std::uint32_t>(recipe_.values.size() - 1);
  }

  // Finds where a version that is only read comes from: Recipe::kInPlace, or a value. False: it is not available.
  bool input(VersionId version, std::uint32_t* place) {
    *place = Recipe::kInPlace;
    if (world_.is_available(version)) {
      recipe_.inputs.push_back(version);
      return true;
    }
    if (find_made(version) == nullptr && !make(version, Recipe::kInPlace)) return false;
    *place = find_made(version)->value;
    return true;
  }

  // `target`: the value to write it to, which nobody else may use then; kInPlace: a new value.
  bool make(VersionId version, std::uint32_t target) {
    std::uint64_t operation = 0;
    if (!world_.producer(version, &operation) || ++pending_ + recipe_.runs.size() > most_runs_) return false;
    const std::span<const VersionedOperand> operands = world_.operands(operation);
    // Its end of `places_`, because making inputs makes others.
    const std::size_t first = places_.size();
    places_.resize(first + operands.size(), Recipe::kInPlace);
    const auto place_of = [this, first](std::size_t i) -> std::uint32_t& { return places_[first + i]; };
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const VersionedOperand& operand = operands[i];
      if (operand.in_place && (operand.writes || !world_.is_available(operand.read))) return false;
      if (!operand.reads || operand.writes) continue;
      std::uint32_t from = Recipe::kInPlace;
      if (!input(operand.read, &from)) return false;
      place_of(i) = from;
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const VersionedOperand& operand = operands[i];
      if (!operand.writes) continue;
      const bool goes_there = operand.written == version && target != Recipe::kInPlace;
      place_of(i) = goes_there ? target : new_value(operand.written, owns(operand.written));
      if (operand.reads && !make(operand.read, place_of(i))) return false;
    }
    append(operation, operands, std::span(places_).subspan(first), target);
    places_.resize(first);
    --pending_;
    return true;
  }

  bool owns(VersionId version) const { return find_made(version) == nullptr && world_.owns(version); }

  void append(std::uint64_t operation, std::span<const VersionedOperand> operands,
              std::span<const std::uint32_t> places, std::uint32_t target) {
    const auto run = static_cast<std::uint32_t>(recipe_.runs.size());
    recipe_.runs.push_back({operation, static_cast<std::uint32_t>(recipe_.operands.size())});
    for (std::size_t i = 0; i < places.size(); ++i) {
      recipe_.operands.push_back(places[i]);
      if (places[i] == Recipe::kInPlace) continue;
      Recipe::Value& value = recipe_.values[places[i]];
      value.first_run = std::min(value.first_run, run);
      value.last_run = run;
      if (operands[i].writes && places[i] != target) add_made(operands[i].written, places[i]);
    }
  }

  const World& world_;
  const std::size_t most_runs_;
  Recipe recipe_;
  static constexpr std::size_t kSearched = 64;
  std::vector<std::uint32_t> places_;  // of the operands of operations that are being added, one after the other
  std::vector<Made> made_;
  std::unordered_map<VersionId, std::size_t> index_;  // of made_, once it is long
  std::size_t indexed_ = 0;
  std::size_t pending_ = 0;
};

}  // namespace thermocline
