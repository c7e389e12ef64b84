// SPDX-License-Identifier: Apache-2.0
#include "trace/choices.h"

#include <algorithm>

#include "trace/slices.h"

namespace thermocline {
namespace {

// Names that the command itself uses for selections.
constexpr std::string_view kReserved[] = {"recorded", "auto"};

std::string quoted(const std::string& text) { return '"' + text + '"'; }

std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace

void ChoiceChecker::add_from_before(std::int64_t buffer, std::int64_t bytes, std::size_t freed_on) {
  lives_[buffer] = {.freed_on = freed_on, .bytes = bytes};
}

std::string ChoiceChecker::declare(const EventFields& fields, std::size_t line) {
  if (!fields.choice) return "the choice has no number (\"c\")";
  if (fields.name.empty()) return "the choice has no name (\"k\")";
  const std::string which = "choice " + std::to_string(*fields.choice);
  if (ids_.contains(*fields.choice)) return which + " is declared twice; numbers are unique in a file";
  const std::vector<std::string>& names = fields.alternatives;
  if (names.size() < 2 || names.size() > kMostAlternatives) {
    return which + " has " + std::to_string(names.size()) + " alternatives (\"of\"); 2 to " +
           std::to_string(kMostAlternatives) + " are possible";
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) return which + " has an alternative without a name";
    if (std::ranges::find(kReserved, names[i]) != std::end(kReserved))
      return which + " has an alternative " + quoted(names[i]) + "; that name has another meaning";
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i)) {
      return which + " has two alternatives " + quoted(names[i]);
    }
  }
  ids_.emplace(*fields.choice, static_cast<std::uint32_t>(choices_.size()));
  choices_.push_back({.id = *fields.choice, .name = fields.name, .alternatives = names});
  facts_.push_back({.line = line, .all = ~Mask{0} >> (kMostAlternatives - names.size()), .operates = 0});
  return "";
}

std::string ChoiceChecker::place(const EventFields& fields, std::optional<ChoicePlace>* out) const {
  out->reset();
  if (!fields.choice && fields.alternative.empty()) return "";
  if (!fields.choice) return "the event has an alternative (\"a\") and no choice (\"c\")";
  if (fields.alternative.empty()) return "the event has a choice (\"c\") and no alternative (\"a\")";
  if (fields.kind == "step") return "a step ends whatever is chosen: it has no choice (\"c\")";
  const auto id = ids_.find(*fields.choice);
  if (id == ids_.end()) {
    return "choice " + std::to_string(*fields.choice) + " is unknown; a line {\"e\":\"choice\"} has to come before";
  }
  const std::vector<std::string>& names = choices_[id->second].alternatives;
  const auto name = std::ranges::find(names, fields.alternative);
  if (name == names.end()) {
    return named(id->second) + " has no alternative " + quoted(fields.alternative) + "; it has " + listed(names);
  }
  *out = ChoicePlace{id->second, static_cast<std::uint32_t>(name - names.begin())};
  return "";
}

std::string ChoiceChecker::event(const EventFields& fields, std::size_t line, std::optional<ChoicePlace> place) {
  if (fields.kind == "alloc") return allocate(fields, line, place);
  Life* life = nullptr;
  if (fields.kind == "free") {
    std::string reason = use(*fields.buffer, place, &life);
    if (reason.empty()) free(life, line, place);
    return reason;
  }
  for (const std::int64_t buffer : fields.reads) {
    if (std::string reason = use(buffer, place, &life); !reason.empty()) return reason;
  }
  for (const std::int64_t buffer : fields.writes) {
    if (std::string reason = use(buffer, place, &life); !reason.empty()) return reason;
    if (place) facts_[place->choice].written[buffer] |= Mask{1} << place->alternative;
  }
  if (place) facts_[place->choice].operates |= Mask{1} << place->alternative;
  return check_slices(fields, [this](std::int64_t buffer) { return std::optional(lives_.at(buffer).bytes); });
}

std::string ChoiceChecker::allocate(const EventFields& fields, std::size_t line, std::optional<ChoicePlace> place) {
  const std::int64_t buffer = *fields.buffer;
  const auto [at, is_new] = lives_.try_emplace(buffer, Life{.bytes = *fields.bytes});
  Life& life = at->second;
  if (is_new) {
    if (place) life = {.choice = place->choice, .allocated = 0, .alive = 0, .bytes = life.bytes};
  } else if (!place || life.choice != place->choice || (life.allocated >> place->alternative & 1) != 0) {
    return "buffer " + std::to_string(buffer) + " was allocated before; ids are unique in a file, but for alternatives";
  }
  if (!place) return "";
  if (life.bytes != *fields.bytes) {
    return "buffer " + std::to_string(buffer) + " has " + std::to_string(*fields.bytes) + " bytes in " + named(*place) +
           ", and " + std::to_string(life.bytes) + " in another alternative";
  }
  life.allocated |= Mask{1} << place->alternative;
  life.alive |= Mask{1} << place->alternative;
  merge_if_shared(&life, line);
  return "";
}

bool ChoiceChecker::is_alive(const Life& life, std::optional<ChoicePlace> place) const {
  if (life.choice == kNone) return life.freed_on == 0;
  return place && life.choice == place->choice && (life.alive >> place->alternative & 1) != 0;
}

std::string ChoiceChecker::use(std::int64_t buffer, std::optional<ChoicePlace> place, Life** out) {
  const auto at = lives_.find(buffer);
  if (at == lives_.end()) return "buffer " + std::to_string(buffer) + " is not alive: it was never allocated";
  if (!is_alive(at->second, place)) return not_alive(buffer, at->second);
  *out = &at->second;
  return "";
}

void ChoiceChecker::free(Life* life, std::size_t line, std::optional<ChoicePlace> place) const {
  if (!place) {
    life->freed_on = line;
    return;
  }
  if (life->choice == kNone) {
    const Mask all = facts_[place->choice].all;
    *life = {.choice = place->choice, .allocated = all, .alive = all, .bytes = life->bytes};
  }
  life->alive &= ~(Mask{1} << place->alternative);
  merge_if_shared(life, line);
}

bool ChoiceChecker::is_shared(const Life& life) const {
  return life.choice == kNone || life.allocated == facts_[life.choice].all;
}

// Buffers that are the same in all alternatives belong to none of them.
void ChoiceChecker::merge_if_shared(Life* life, std::size_t line) const {
  if (!is_shared(*life) || (life->alive != 0 && life->alive != facts_[life->choice].all)) return;
  *life = {.choice = kNone, .freed_on = life->alive != 0 ? 0 : line, .bytes = life->bytes};
}

std::string ChoiceChecker::not_alive(std::int64_t buffer, const Life& life) const {
  const std::string which = "buffer " + std::to_string(buffer) + " is not alive";
  if (life.choice == kNone) return which + ": it was freed on line " + std::to_string(life.freed_on);
  std::vector<std::string> where;
  for (std::size_t i = 0; i < choices_[life.choice].alternatives.size(); ++i) {
    if ((life.alive >> i & 1) != 0) where.push_back(choices_[life.choice].alternatives[i]);
  }
  if (where.empty()) return which + ": it belonged to alternatives of " + named(life.choice);
  return which + " here: only where " + named(life.choice) + " takes " + listed(where);
}

std::string ChoiceChecker::named(std::uint32_t choice) const {
  return "choice " + std::to_string(choices_[choice].id) + " (" + choices_[choice].name + ")";
}

std::string ChoiceChecker::named(ChoicePlace place) const {
  return "alternative " + quoted(choices_[place.choice].alternatives[place.alternative]) + " of " + named(place.choice);
}

std::string ChoiceChecker::finish(std::size_t* line) const {
  for (std::uint32_t c = 0; c < choices_.size(); ++c) {
    *line = facts_[c].line;
    for (std::uint32_t a = 0; a < choices_[c].alternatives.size(); ++a) {
      if ((facts_[c].operates >> a & 1) == 0) return named({c, a}) + " has no operator";
      for (const auto& [buffer, by] : facts_[c].written) {
        if ((by >> a & 1) != 0 || !is_shared(lives_.at(buffer))) continue;
        return named({c, a}) + " does not write buffer " + std::to_string(buffer) +
               ", which another alternative writes for what follows";
      }
    }
  }
  return "";
}

}  // namespace thermocline
