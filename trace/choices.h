// SPDX-License-Identifier: Apache-2.0
// Choices of a trace file: some of its events happen only if one alternative of a choice is taken, so that one file
// describes as many programs as there are ways to choose. This checks all of them while the file is read once.
//
// Every way to choose must give a valid trace, whatever the other choices are: an event may use a buffer that is alive
// in all of them, or in the event's own alternative. All alternatives of a choice must write the same of the buffers
// that exist in each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/event_fields.h"

namespace thermocline {

struct TraceChoice {
  std::int64_t id;                        // as in the file
  std::string name;                       // of what is chosen
  std::vector<std::string> alternatives;  // the first is what was recorded
  std::uint32_t chosen = 0;
};

// By choice: the index of the chosen alternative.
using ChoiceSelection = std::vector<std::uint32_t>;

// The alternative to which an event belongs that does not always happen.
struct ChoicePlace {
  std::uint32_t choice, alternative;  // indices
};

// Each function returns "" or the reason why the file is rejected.
class ChoiceChecker {
 public:
  static constexpr std::size_t kMostAlternatives = 32;

  // Adds a buffer from before the first choice. `freed_on`: the line on which it was freed, or 0.
  void add_from_before(std::int64_t buffer, std::int64_t bytes, std::size_t freed_on);
  std::string declare(const EventFields& fields, std::size_t line);
  // Sets the event's place; none: the event always happens.
  std::string place(const EventFields& fields, std::optional<ChoicePlace>* out) const;
  // Checks an allocation, a free or an operator.
  std::string event(const EventFields& fields, std::size_t line, std::optional<ChoicePlace> place);
  // To be called at the end of the file; `line`: gets the line of a rejected choice.
  std::string finish(std::size_t* line) const;

  const std::vector<TraceChoice>& choices() const { return choices_; }

 private:
  using Mask = std::uint32_t;  // a bit for each alternative
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Life {
    std::uint32_t choice = kNone;  // the choice whose alternatives differ in it; kNone: none
    std::size_t freed_on = 0;      // if none's: line; 0: alive
    Mask allocated = 0, alive = 0;
    std::int64_t bytes = 0;
  };
  // Facts about a choice besides its names.
  struct Facts {
    std::size_t line = 0;
    Mask all = 0, operates = 0;
    std::map<std::int64_t, Mask> written{};  // by buffer: the alternatives that write it
  };

  std::string allocate(const EventFields& fields, std::size_t line, std::optional<ChoicePlace> place);
  std::string use(std::int64_t buffer, std::optional<ChoicePlace> place, Life** out);
  void free(Life* life, std::size_t line, std::optional<ChoicePlace> place) const;
  bool is_alive(const Life& life, std::optional<ChoicePlace> place) const;
  bool is_shared(const Life& life) const;
  std::string not_alive(std::int64_t buffer, const Life& life) const;
  std::string named(std::uint32_t choice) const;
  std::string named(ChoicePlace place) const;
  void merge_if_shared(Life* life, std::size_t line) const;

  std::vector<TraceChoice> choices_;
  std::vector<Facts> facts_;                             // by choice
  std::unordered_map<std::int64_t, std::uint32_t> ids_;  // of choices
  std::unordered_map<std::int64_t, Life> lives_;         // by buffer
};

}  // namespace thermocline
