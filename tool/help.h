// SPDX-License-Identifier: Apache-2.0
// The output of `--help`: CLI11's, with usage lines that show where a program's command line goes.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace thermocline {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
};

// "--stats" for a flag that CLI11 calls "--stats{table}".
std::string plain_name(const std::string& name);

}  // namespace thermocline
