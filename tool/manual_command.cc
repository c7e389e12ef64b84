// SPDX-License-Identifier: Apache-2.0
// thermocline manual: the manual page, and completion for bash, zsh and fish. All of it is generated from the parser's
// own descriptions, so nothing is written twice; the build installs this output.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "config/option_table.h"
#include "simulator/profile.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/message.h"
#include "tool/plan_policies.h"

namespace thermocline {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) { return app.get_subcommands(nullptr); }

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// "--budget", "-o"; the first one is the flag's name in messages.
std::vector<std::string> flags_of(const CLI::Option& option) {
  std::vector<std::string> flags;
  for (const std::string& name : option.get_snames()) flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flags.push_back("--" + name);
  return flags;
}

std::vector<std::string> all_flags(const CLI::App& app) {
  std::vector<std::string> all;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& flag : flags_of(*option)) all.push_back(flag);
  }
  return all;
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

std::vector<std::string> joined_lists(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string replaced(std::string text, char what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) text.replace(at, 1, by);
  return text;
}

// --- The manual page, in man(7)'s macros ---

std::string roff(const std::string& text) {
  std::string out = replaced(replaced(text, '\\', "\\e"), '-', "\\-");
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

// A number's range is said by its type (number_option.h).
std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.find("..") != std::string::npos ? type : "VALUE";
}

void print_options(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> flags = flags_of(*option);
    std::string head =
        flags.empty() ? "\\fI" + roff(option->get_name(true)) + "\\fR" : "\\fB" + roff(joined(flags, ", ")) + "\\fR";
    if (!flags.empty() && takes_value(*option)) head += " \\fI" + value_name(*option) + "\\fR";
    std::printf(".TP\n%s\n%s\n", head.c_str(), roff(option->get_description()).c_str());
  }
}

void print_command(const CLI::App& app, const std::string& name) {
  const bool takes_program = name == "run" || name == "record" || name == "kernels";
  std::printf(".SS \"%s\"\n%s.\n", roff(name + (takes_program ? " [OPTIONS] -- PROGRAM [ARGS]" : "")).c_str(),
              roff(app.get_description()).c_str());
  print_options(app);
  for (const CLI::App* inner : commands_of(app)) print_command(*inner, name + " " + inner->get_name());
}

// Environment variables that are not settings.
void print_environment() {
  struct Variable {
    const char *name, *what;
  };
  constexpr Variable kVariables[] = {
      {"THERMOCLINE_CONFIG", "A settings file, read after all others. run --config sets it."},
      {"THERMOCLINE_HOST_GROUP", "Names the processes that share host_limit_shared (docs/processes.md)."},
      {"THERMOCLINE_SIMULATE_DEVICE, THERMOCLINE_SIMULATE_SEED, THERMOCLINE_SIMULATE_CHECK, "
       "THERMOCLINE_SIMULATE_FAULTS",
       "The simulated device, its order, its race checker, what goes wrong on it. run --simulate, --seed, --check and "
       "--faults set them."},
      {"LD_PRELOAD, LD_LIBRARY_PATH",
       "run puts the library, and with --simulate the simulated device, in front of them."},
      {"XDG_CONFIG_HOME", "Where the user's settings file is looked for; default: ~/.config."}};
  std::puts(".SH ENVIRONMENT\nEach setting has a variable (SETTINGS). Besides:");
  for (const Variable& variable : kVariables)
    std::printf(".TP\n\\fB%s\\fR\n%s\n", roff(variable.name).c_str(), roff(variable.what).c_str());
}

void print_examples() {
  struct Example {
    const char *what, *command;
  };
  constexpr Example kExamples[] = {
      {"A training script in 60 % of the device's memory, and how that went:",
       "thermocline run --budget 60% --stats -- python train.py"},
      {"A CUDA program without a GPU, on a simulated H200 (built by nvcc -cudart shared):",
       "thermocline run --simulate h200 --budget 22MiB --stats -- ./digits"},
      {"Record a program, and see on which devices it would fit and how slow it would be:",
       "thermocline record -o step.trace -- python train.py\nthermocline estimate step.trace"},
      {"What 60 % of its peak would cost, for three policies, beside what no swapping can beat:",
       "thermocline replay step.trace --budget 60%peak --compare lru reactive learned"},
      {"The best settings for a device, and a run with them:",
       "thermocline tune step.trace --device rtx-4090 --budget 12GiB -o thermocline.toml\nthermocline run --config "
       "thermocline.toml -- python train.py"},
      {"What runs under the library hold, live:", "thermocline stats --watch"}};
  std::puts(".SH EXAMPLES");
  for (const Example& example : kExamples)
    std::printf(".PP\n%s\n.PP\n.nf\n.RS\n%s\n.RE\n.fi\n", roff(example.what).c_str(), roff(example.command).c_str());
}

void print_man(const CLI::App& app) {
  std::printf(".TH THERMOCLINE 1 \"\" \"thermocline %s\" \"User Commands\"\n", THERMOCLINE_VERSION);
  std::printf(".SH NAME\nthermocline \\- %s\n", roff(app.get_description()).c_str());
  std::puts(
      ".SH SYNOPSIS\n.B thermocline\n.I COMMAND\n[\\fIOPTIONS\\fR] [\\fB\\-\\-\\fR \\fIPROGRAM\\fR [\\fIARGS\\fR]]");
  std::puts(".SH COMMANDS");
  for (const CLI::App* command : commands_of(app)) print_command(*command, command->get_name());
  std::puts(".SH SETTINGS\nKeys of thermocline.toml, and the variables that overrule them.");
  for (const Option& option : option_table()) {
    const std::string standard =
        *option.default_text == '\0' ? "" : std::string(" Default: ") + option.default_text + ".";
    std::printf(".TP\n\\fB%s\\fR, \\fB%s\\fR\n%s%s\n", roff(option.key).c_str(), roff(option.variable).c_str(),
                roff(option.doc).c_str(), roff(standard).c_str());
  }
  print_environment();
  std::puts(
      ".SH FILES\n/etc/thermocline/config.toml, $XDG_CONFIG_HOME/thermocline/config.toml, ./thermocline.toml, the file "
      "named by THERMOCLINE_CONFIG; later ones win.\n.SH \"EXIT STATUS\"\nrun gives the program's own (128 + signal "
      "where "
      "one ended it); else 0 done, 1 failed, 2 wrong usage, 3 bad input, 4 no device. A replay that runs out of memory "
      "is a result: it is printed, and the status is 1. Where the reader of stdout has gone, the status is 141.");
  print_examples();
  std::puts(
      ".SH \"SEE ALSO\"\n.BR nvidia\\-smi (1),\n.BR ld.so (8)\n.PP\nThe documentation: README.md and docs/ of the "
      "source, or share/doc/thermocline where it is installed.");
}

// --- Completion ---

// The possible values of a flag, if it accepts only a few words.
std::vector<std::string> values_of(const std::string& flag) {
  std::vector<std::string> values;
  if (flag == "--device" || flag == "--simulate") {
    for (const simulator::Profile& profile : simulator::profiles()) values.emplace_back(profile.name);
  }
  if (flag == "--format") values = {"perfetto", "memory_viz", "csv"};
  if (flag == "--compare") {
    for (const PolicyEntry& policy : kPolicies) values.emplace_back(policy.name);
  }
  if (flag == "--plans" || flag == "--compare") {
    for (const PlanPolicy& policy : plan_policies()) values.emplace_back(policy.name);
  }
  const Option* const option = flag == "--policy" || flag == "--safety" || flag == "--recompute"
                                   ? find_option(flag.substr(2))
                               : flag == "--host-fallback" ? find_option("host_fallback")
                                                           : nullptr;
  if (option != nullptr) {
    for (const Choice& choice : option->choices) values.emplace_back(choice.name);
  }
  return values;
}

constexpr const char* kFlagsWithValues[] = {"--device",    "--simulate", "--policy", "--safety", "--host-fallback",
                                            "--recompute", "--format",   "--plans",  "--compare"};

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  return names;
}

// The words that may follow the command, if there are only a few.
std::vector<std::string> words_of(const CLI::App& command) {
  if (command.get_name() == "devices") return values_of("--device");
  if (command.get_name() == "manual") return {"man", "bash", "zsh", "fish"};
  return names_of(command);
}

void print_bash(const CLI::App& app) {
  std::puts(
      "# bash completion for thermocline\n_thermocline() {\n  local word=${COMP_WORDS[COMP_CWORD]} i flags='' "
      "words=''\n"
      "  # What stands behind -- is another program's.\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    [[ ${COMP_WORDS[i]} != -- ]] || { _command_offset $((i + 1)) 2>/dev/null; return; }\n  done");
  std::printf(
      "  if ((COMP_CWORD == 1)); then\n    mapfile -t COMPREPLY < <(compgen -W '%s help version --help --version' -- "
      "\"$word\")\n   "
      " return\n  fi\n",
      joined(names_of(app), " ").c_str());
  std::puts("  case ${COMP_WORDS[COMP_CWORD-1]} in");
  for (const char* const flag : kFlagsWithValues) {
    std::printf("    %s) mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$word\"); return ;;\n", flag,
                joined(values_of(flag), " ").c_str());
  }
  // The flag takes several words.
  std::printf(
      "  esac\n  for ((i = COMP_CWORD - 1; i > 1; --i)); do\n    [[ ${COMP_WORDS[i]} == -* ]] || continue\n"
      "    [[ ${COMP_WORDS[i]} == --compare && $word != -* ]] || break\n"
      "    mapfile -t COMPREPLY < <(compgen -f -W '%s' -- \"$word\"); return\n  done\n",
      joined(values_of("--compare"), " ").c_str());
  std::puts("  case ${COMP_WORDS[1]} in");
  for (const CLI::App* command : commands_of(app)) {
    std::vector<std::string> flags = all_flags(*command);
    for (const CLI::App* inner : commands_of(*command)) flags = joined_lists(flags, all_flags(*inner));
    std::ranges::sort(flags);
    flags.erase(std::unique(flags.begin(), flags.end()), flags.end());
    std::printf("    %s) flags='%s' words='%s' ;;\n", command->get_name().c_str(), joined(flags, " ").c_str(),
                joined(words_of(*command), " ").c_str());
  }
  std::printf("    help) words='%s' ;;\n", joined(names_of(app), " ").c_str());
  std::puts(
      "  esac\n  if [[ $word == -* ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$flags\" -- \"$word\")\n"
      "  elif [[ -n $words ]] && ((COMP_CWORD == 2)) || [[ ${COMP_WORDS[1]} == devices ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n  else\n"
      "    compopt -o filenames 2>/dev/null\n    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n  fi\n}\n"
      "complete -F _thermocline thermocline");
}

// Escapes for single quotes, and for an _arguments or _describe entry.
std::string zsh_text(const std::string& text) {
  std::string out = replaced(replaced(text, '\\', "\\\\"), ':', "\\:");
  return replaced(replaced(replaced(out, '[', "\\["), ']', "\\]"), '\'', "'\\''");
}

std::string zsh_value(const std::string& flag) {
  const std::vector<std::string> values = values_of(flag);
  return values.empty() ? ":value:_files" : ":value:(" + joined(values, " ") + ")";
}

void print_zsh(const CLI::App& app) {
  std::puts("#compdef thermocline\n_thermocline() {\n  local -a commands=(");
  for (const CLI::App* command : commands_of(app)) {
    std::printf("    '%s:%s'\n", command->get_name().c_str(), zsh_text(command->get_description()).c_str());
  }
  std::puts("  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n  case $words[2] in");
  for (const CLI::App* command : commands_of(app)) {
    std::printf("    %s) _arguments", command->get_name().c_str());
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& flag : flags_of(*option)) {
        std::printf(" \\\n      '%s[%s]%s'", flag.c_str(), zsh_text(option->get_description()).c_str(),
                    takes_value(*option) ? zsh_value(flag).c_str() : "");
      }
    }
    const std::vector<std::string> inner = words_of(*command);
    if (!inner.empty()) std::printf(" \\\n      '2:command:(%s)'", joined(inner, " ").c_str());
    std::puts(" \\\n      '*:file:_files' ;;");
  }
  std::puts("  esac\n}\n_thermocline \"$@\"");
}

void print_fish(const CLI::App& app) {
  const auto quoted = [](const std::string& text) {
    return "'" + replaced(replaced(text, '\\', "\\\\"), '\'', "\\'") + "'";
  };
  std::puts("# fish completion for thermocline");
  for (const CLI::App* command : commands_of(app)) {
    const std::string name = command->get_name();
    std::printf("complete -c thermocline -n __fish_use_subcommand -f -a %s -d %s\n", name.c_str(),
                quoted(command->get_description()).c_str());
    for (const CLI::Option* option : command->get_options()) {
      const std::string rest = (takes_value(*option) ? " -r -d " : " -d ") + quoted(option->get_description());
      const std::string when = "complete -c thermocline -n '__fish_seen_subcommand_from " + name + "'";
      for (const std::string& flag : option->get_snames())
        std::printf("%s -s %s%s\n", when.c_str(), flag.c_str(), rest.c_str());
      for (const std::string& flag : option->get_lnames()) {
        const std::vector<std::string> values = values_of("--" + flag);
        const std::string words = values.empty() ? "" : " -f -a " + quoted(joined(values, " "));
        std::printf("%s -l %s%s%s\n", when.c_str(), flag.c_str(), rest.c_str(), words.c_str());
      }
    }
    if (const std::vector<std::string> words = words_of(*command); !words.empty() && commands_of(*command).empty()) {
      std::printf("complete -c thermocline -n '__fish_seen_subcommand_from %s' -f -a %s\n", name.c_str(),
                  quoted(joined(words, " ")).c_str());
    }
    for (const CLI::App* inner : commands_of(*command)) {
      std::printf("complete -c thermocline -n '__fish_seen_subcommand_from %s' -f -a %s -d %s\n", name.c_str(),
                  inner->get_name().c_str(), quoted(inner->get_description()).c_str());
    }
  }
}

int manual(const CLI::App& app, const std::string& what) {
  if (what == "man") {
    print_man(app);
  } else if (what == "bash") {
    print_bash(app);
  } else if (what == "zsh") {
    print_zsh(app);
  } else if (what == "fish") {
    print_fish(app);
  } else {
    say("manual: unknown kind '" + what + "'; known are man, bash, zsh, fish");
    return kWrongUsage;
  }
  return kDone;
}

}  // namespace

void add_manual(CLI::App& app, CommandLine* line) {
  auto what = std::make_shared<std::string>("man");
  CLI::App* command = app.add_subcommand("manual", "The manual page, or completion for a shell");
  command->add_option("KIND", *what, "man, bash, zsh or fish (default: man)");
  command->callback([what, line, &app] { line->action = [what, &app] { return manual(app, *what); }; });
}

}  // namespace thermocline
