// SPDX-License-Identifier: Apache-2.0
#include "tool/help.h"

namespace thermocline {

std::string plain_name(const std::string& name) {
  std::string out;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t brace = std::min(name.find('{', at), name.size());
    out += name.substr(at, brace - at);
    at = brace == name.size() ? brace : std::min(name.find('}', brace), name.size() - 1) + 1;
  }
  return out;
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  if (app->get_parent() == nullptr) {
    return "Usage: " + name + " run [OPTIONS] -- PROGRAM [ARGS]\n       " + name +
           " COMMAND [OPTIONS] [ARGS]\n       " + name + " help COMMAND\n";
  }
  const std::string& command = app->get_name();
  if (command == "run") return "Usage: " + name + " [OPTIONS] -- PROGRAM [ARGS]\n";
  if (command == "record") {
    return "Usage: " + name + " -o TRACE [OPTIONS] -- PROGRAM [ARGS]\n       " + name + " -o TRACE --from FILE\n";
  }
  if (command == "doctor") return "Usage: " + name + " [OPTIONS] [PROGRAM | -- PROGRAM [ARGS]]\n";
  return CLI::Formatter::make_usage(app, std::move(name));
}

std::string HelpFormatter::make_option_name(const CLI::Option* option, bool is_positional) const {
  return plain_name(CLI::Formatter::make_option_name(option, is_positional));
}

}  // namespace thermocline
