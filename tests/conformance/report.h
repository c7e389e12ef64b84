// SPDX-License-Identifier: Apache-2.0
// Results as JSON, and the documentation page that is generated from the rules and from such files.
#pragma once

#include <string>
#include <vector>

#include "tests/conformance/run.h"

namespace conformance {

struct RuleResult {
  Rule rule;
  Result result;
};

std::string to_json(const DeviceFacts& device, const std::vector<RuleResult>& results);

// docs/conformance.md, with a column for each result file (the texts of to_json). Throws std::exception on an invalid
// text.
std::string to_markdown(const std::vector<Rule>& rules, const std::vector<std::string>& result_files);

}  // namespace conformance
