// SPDX-License-Identifier: Apache-2.0
#include "tool/plan_terms.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <stdexcept>
#include <unordered_map>

namespace thermocline {
namespace {

using nlohmann::json;

class Reader {
 public:
  Reader(const Trace& trace, StepTerms* terms) : terms_(*terms) {
    for (std::uint32_t i = 0; i < trace.buffers.size(); ++i) index_of_[trace.buffers[i].id] = i;
  }

  // Throws std::runtime_error or json::exception.
  void read(const json& file) {
    if (!file.is_object() || file.value("schema", "") != "thermocline-plan-terms/1") {
      throw std::runtime_error("the schema is not thermocline-plan-terms/1");
    }
    for (const json& held : list(file, "held")) terms_.held_until[buffer(held.at(0))] = place(held.at(1));
    for (const json& stays : list(file, "stays")) terms_.held_until[buffer(stays)] = StepTerms::kStays;
    for (const json& aside : list(file, "aside")) terms_.is_aside[buffer(aside)] = true;
    for (const json& result : list(file, "results")) terms_.is_result[buffer(result)] = true;
    for (const json& moves : list(file, "moves")) terms_.moves[buffer(moves)] = true;
    for (const json& once : list(file, "once")) terms_.runs_once[place(once)] = true;
  }

 private:
  static json list(const json& file, const char* key) { return file.value(key, json::array()); }

  std::uint32_t buffer(const json& number) const {
    const auto found = index_of_.find(number.get<std::uint64_t>());
    if (found == index_of_.end()) throw std::runtime_error("the trace has no buffer " + number.dump());
    return found->second;
  }
  std::uint32_t place(const json& number) const {
    const auto place = number.get<std::uint64_t>();
    if (place >= terms_.runs_once.size()) throw std::runtime_error("the step has no operator " + number.dump());
    return static_cast<std::uint32_t>(place);
  }

  StepTerms& terms_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_of_;
};

}  // namespace

bool read_plan_terms(const std::string& path, const Trace& trace, StepTerms* terms, std::string* reason) {
  std::ifstream in(path);
  if (!in) {
    *reason = "can not be read";
    return false;
  }
  *terms = StepTerms::free_for(trace, last_step_operators(trace));
  try {
    Reader(trace, terms).read(json::parse(in));
  } catch (const std::exception& error) {
    *reason = error.what();
    return false;
  }
  return true;
}

}  // namespace thermocline
