// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each adds itself to the parser and sets `action` to the function to run, which returns the exit
// status.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace thermocline {

struct CommandLine {
  std::function<int()> action;
  // The arguments after `--`, and whether there was a `--`.
  bool has_program = false;
  std::vector<std::string> program;
};

void add_run(CLI::App& app, CommandLine* line);
void add_record(CLI::App& app, CommandLine* line);
void add_convert(CLI::App& app, CommandLine* line);
void add_compare(CLI::App& app, CommandLine* line);
void add_plan(CLI::App& app, CommandLine* line);
void add_replay(CLI::App& app, CommandLine* line);
void add_bound(CLI::App& app, CommandLine* line);
void add_estimate(CLI::App& app, CommandLine* line);
void add_report(CLI::App& app, CommandLine* line);
void add_export(CLI::App& app, CommandLine* line);
void add_config(CLI::App& app, CommandLine* line);
void add_doctor(CLI::App& app, CommandLine* line);
void add_devices(CLI::App& app, CommandLine* line);
void add_kernels(CLI::App& app, CommandLine* line);
void add_manual(CLI::App& app, CommandLine* line);
void add_sleep(CLI::App& app, CommandLine* line);
void add_stats(CLI::App& app, CommandLine* line);
void add_tune(CLI::App& app, CommandLine* line);
void add_wake(CLI::App& app, CommandLine* line);

}  // namespace thermocline
