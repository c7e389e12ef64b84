// SPDX-License-Identifier: Apache-2.0
// thermocline run: runs a program with the library preloaded, on the real device or on the simulated one. All flags are
// passed in the environment, so that the program's own children get them too.
#include <CLI/CLI.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "config/load.h"
#include "config/option_table.h"
#include "config/rank.h"
#include "config/suggest.h"
#include "simulator/fault_check.h"
#include "simulator/profile.h"
#include "simulator/settings_check.h"
#include "tool/child.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/framework_settings.h"
#include "tool/message.h"
#include "tool/number_option.h"
#include "tool/places.h"
#include "tool/policy_flag.h"
#include "tool/program_start.h"
#include "tool/python_runtime.h"
#include "tool/record.h"
#include "tool/run_program.h"
#include "tool/values.h"

namespace thermocline {
namespace {

using Changes = std::map<std::string, std::string>;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Puts `first` before the variable's present value.
std::string prepended(const std::string& first, const char* variable) {
  const std::string rest = environment(variable);
  return rest.empty() ? first : first + ":" + rest;
}

// "60%device" is "60%" in the settings. A number that this command remarks on has its unit there, so that the library
// does not remark on it again.
std::string budget_setting(const std::string& text) {
  constexpr std::string_view kWord = "device";
  if (!doubt_about_size(text).message.empty()) return text + "B";
  return text.ends_with("%device") ? text.substr(0, text.size() - kWord.size()) : text;
}

// Nothing, after an error message, if it is no size.
std::optional<Bytes> record_limit(const std::string& text) {
  const std::optional<Bytes> bytes = parse_bytes_flag(text, "--limit");
  if (!bytes || *bytes >= kMiB) return bytes;
  say("--limit: expected a size of 1MiB or more, not '" + text + "'");
  return std::nullopt;
}

// Whether the path is this process's stdout, under any of its names.
bool is_stdout(const std::string& path) {
  struct stat named {
  }, out{};
  if (path == "-") return true;
  if (!path.starts_with("/dev/") && !path.starts_with("/proc/")) return false;
  return stat(path.c_str(), &named) == 0 && fstat(STDOUT_FILENO, &out) == 0 && named.st_dev == out.st_dev &&
         named.st_ino == out.st_ino && !S_ISCHR(named.st_mode);
}

bool check_budget(const std::string& text, Settings* settings) {
  if (text.ends_with("peak") && text.find('%') != std::string::npos) {
    say("--budget: '" + text + "' is of a recorded program's peak, which is not known here; 60% is of the device");
    return false;
  }
  if (!parse_setting_flag("budget", budget_setting(text), "--budget", settings)) return false;
  remark_on_bare_number(text, "--budget");
  return true;
}

// A plan as text, or the name of a file with one; an error in an existing file is bad input.
int check_faults(const std::string& plan) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(plan, error);
  const bool is_folder = std::filesystem::is_directory(plan, error);
  const std::string problem = is_folder ? plan + " is a folder" : simulator::fault_plan_problem(plan);
  if (problem.empty()) return kDone;
  say("--faults: " + problem +
      (is_file ? "" : "; a plan is text (\"fail cuMemCreate call 3 OUT_OF_MEMORY\"), or a file with such lines"));
  return is_file ? kBadInput : kWrongUsage;
}

bool makes_up_kernels(const RunFlags& flags) {
  return flags.made_up || environment("THERMOCLINE_SIMULATE_KERNELS") == "made-up";
}

int check_audit(const RunFlags& flags) {
  if (flags.audit && (flags.budget || flags.policy || flags.no_library)) {
    say(std::string("--audit evicts nothing, and it is the library that looks: ") +
        (flags.budget   ? "--budget"
         : flags.policy ? "--policy"
                        : "--no-library") +
        " has no place beside it");
    return kWrongUsage;
  }
  if (flags.audit && flags.device && makes_up_kernels(flags)) {
    say(std::string("--audit finds nothing in made-up kernels, which follow no address: leave out ") +
        (flags.made_up ? "--made-up" : "THERMOCLINE_SIMULATE_KERNELS=made-up"));
    return kWrongUsage;
  }
  return kDone;
}

int check_flags(const RunFlags& flags, const CommandLine& line, const std::string& command) {
  Settings settings = default_settings();
  if (!line.has_program || line.program.empty()) {
    say(command + " needs a program behind '--': thermocline " + command + " [OPTIONS] -- PROGRAM [ARGS]");
    return kWrongUsage;
  }
  if (flags.trace && flags.trace->empty()) {
    say("the file to record to has no name");
    return kWrongUsage;
  }
  if (flags.trace && is_stdout(*flags.trace)) {
    say(*flags.trace + ": the program's own output goes there and would be within the trace; name a file");
    return kWrongUsage;
  }
  if (flags.limit && !flags.trace) {
    say("--limit is of what is recorded: it needs --trace FILE");
    return kWrongUsage;
  }
  if (flags.limit && !record_limit(*flags.limit)) return kWrongUsage;
  if (flags.trace && flags.no_library) {
    say("--no-library: it is the library that records");
    return kWrongUsage;
  }
  if (flags.no_library && (flags.budget || flags.policy)) {
    say(std::string("--no-library: it is the library that evicts; leave out ") +
        (flags.budget ? "--budget" : "--policy"));
    return kWrongUsage;
  }
  if (const int status = check_audit(flags); status != kDone) return status;
  if (flags.budget && !check_budget(*flags.budget, &settings)) return kWrongUsage;
  if (!flags.stats.empty() && !parse_setting_flag("stats", flags.stats, "--stats", &settings)) return kWrongUsage;
  if (flags.policy && !parse_setting_flag("policy", *flags.policy, "--policy", &settings)) return kWrongUsage;
  if (!flags.device && (flags.seed || flags.no_library || flags.check || flags.faults || flags.made_up)) {
    const char* const flag = flags.seed      ? "--seed"
                             : flags.check   ? "--check"
                             : flags.faults  ? "--faults"
                             : flags.made_up ? "--made-up"
                                             : "--no-library";
    say(std::string(flag) + " needs --simulate DEVICE");
    return kWrongUsage;
  }
  if (flags.faults) {
    if (const int status = check_faults(*flags.faults); status != kDone) return status;
  }
  if (flags.config && flags.config->empty()) {
    say("--config: the file has no name");
    return kWrongUsage;
  }
  // A wrong value is reported when the settings are read.
  std::error_code error;
  if (flags.config && !std::filesystem::exists(*flags.config, error)) {
    say("--config " + *flags.config + ": there is no such settings file");
    return kBadInput;
  }
  if (flags.device && find_device_flag(*flags.device, "--simulate") == nullptr) return kWrongUsage;
  return kDone;
}

void apply_setting_flags(const RunFlags& flags, Changes* changes) {
  if (flags.budget) (*changes)["THERMOCLINE_BUDGET"] = budget_setting(*flags.budget);
  if (flags.policy) (*changes)["THERMOCLINE_POLICY"] = *flags.policy;
  // The program may change its folder.
  if (flags.config) (*changes)["THERMOCLINE_CONFIG"] = std::filesystem::absolute(*flags.config).string();
  if (!flags.stats.empty()) (*changes)["THERMOCLINE_STATS"] = flags.stats;
  if (flags.no_children) (*changes)["THERMOCLINE_CHILDREN"] = "false";
  if (flags.no_frameworks) (*changes)["THERMOCLINE_FRAMEWORKS"] = "false";
  if (flags.audit) (*changes)["THERMOCLINE_AUDIT"] = "true";
}

int apply_library(Changes* changes) {
  std::string looked;
  const std::optional<std::string> library = find_library(&looked);
  if (!library) {
    say("the library is not there; looked for " + looked);
    return kFailed;
  }
  // The loader splits LD_PRELOAD at both characters.
  if (library->find_first_of(": ") != std::string::npos) {
    say("the library can not be preloaded from a path with a space or a colon: " + *library);
    return kFailed;
  }
  (*changes)["LD_PRELOAD"] = prepended(*library, "LD_PRELOAD");
  return kDone;
}

// A plan as text, or the absolute path of a file with one, because the program may run in another folder.
std::string fault_plan(const std::string& plan) {
  std::error_code error;
  return std::filesystem::is_regular_file(plan, error) ? std::filesystem::absolute(plan).string() : plan;
}

// Checks the simulated device's variables that the program will see, with the changes.
int check_simulator_variables(const Changes& changes) {
  std::map<std::string, std::string> variables = Surroundings::of_process().variables;
  for (const auto& [name, value] : changes) variables[name] = value;
  constexpr std::string_view kPrefix = "THERMOCLINE_SIMULATE_";
  std::vector<std::string_view> known;
  for (const std::string_view variable : simulator::setting_variables())
    known.push_back(variable.substr(kPrefix.size()));
  for (const auto& [name, value] : variables) {
    if (!name.starts_with(kPrefix) || value.empty()) continue;
    const std::string own = name.substr(kPrefix.size());
    const std::string meant = nearest_name(own, known);
    const std::string problem =
        meant == own ? simulator::setting_problem(name, value)
                     : name + ": unknown variable" + did_you_mean(meant.empty() ? "" : std::string(kPrefix) + meant);
    if (problem.empty()) continue;
    say(problem);
    return kWrongUsage;
  }
  return kDone;
}

// Python's packages bring NVIDIA's runtime, which would call undocumented functions of the simulated driver.
void apply_python_runtime(const std::string& program, const std::filesystem::path& simulator, bool made_up,
                          Changes* changes) {
  const std::optional<PythonRuntime> runtime = find_python_runtime(program);
  if (!runtime) return;
  if (!runtime->is_replaceable) {
    say(runtime->path + " is of CUDA 12, and the simulated runtime of 13: what uses it finds no device");
    return;
  }
  const std::string ours = (simulator.parent_path() / "libcudart.so.13").string();
  const std::string own = (*changes)["LD_PRELOAD"];
  (*changes)["LD_PRELOAD"] = own.empty() ? prepended(ours, "LD_PRELOAD") : own + ":" + ours;
  say("the simulated runtime stands in for NVIDIA's of this Python; cuBLAS and cuDNN do not run on it" +
      std::string(made_up ? "" : ", nor kernels without PTX, which PyTorch's are (--made-up: with made-up results)"));
}

int apply_simulator(const RunFlags& flags, const std::string& program, Changes* changes) {
  std::string looked;
  const std::optional<std::string> driver = find_simulator(&looked);
  if (!driver) {
    say("the simulated device is not installed; looked for " + looked);
    return kFailed;
  }
  (*changes)["LD_LIBRARY_PATH"] = prepended(std::filesystem::path(*driver).parent_path().string(), "LD_LIBRARY_PATH");
  // The program may change its folder.
  (*changes)["THERMOCLINE_SIMULATE_DEVICE"] =
      simulator::is_profile_file(*flags.device) ? std::filesystem::absolute(*flags.device).string() : *flags.device;
  if (flags.seed) (*changes)["THERMOCLINE_SIMULATE_SEED"] = std::to_string(*flags.seed);
  (*changes)["THERMOCLINE_SIMULATE_CHECK"] = flags.check ? "1" : environment("THERMOCLINE_SIMULATE_CHECK");
  (*changes)["THERMOCLINE_SIMULATE_FAULTS"] =
      flags.faults ? fault_plan(*flags.faults) : environment("THERMOCLINE_SIMULATE_FAULTS");
  if (flags.made_up) (*changes)["THERMOCLINE_SIMULATE_KERNELS"] = "made-up";
  if (const int status = check_simulator_variables(*changes); status != kDone) return status;
  apply_python_runtime(program, *driver, makes_up_kernels(flags), changes);
  if (flags.no_library) {
    if (!flags.stats.empty()) (*changes)["THERMOCLINE_SIMULATE_STATS"] = "1";
    return kDone;
  }
  // The simulated device learns of the program's buffers from the library's annotations, as any tool would.
  (*changes)["NVTX_INJECTION64_PATH"] = *driver;
  (*changes)["THERMOCLINE_NVTX"] = "true";
  return kDone;
}

// Checks the settings that the program will use as strictly as `config check` does. One of them must be known before
// the program's first instruction, when the library can not read files yet (hooks/entry/children.cc); another one is
// used by this command itself.
int apply_settings(const std::string& program, bool has_library, Changes* changes) {
  Surroundings surroundings = Surroundings::of_process();
  for (const auto& [name, value] : *changes) surroundings.variables[name] = value;
  const LoadedSettings loaded = load_settings(surroundings);
  say_all(loaded.problems);
  if (!loaded.settings.children) (*changes)["THERMOCLINE_CHILDREN"] = "false";
  if (loaded.problems.empty() && has_library && loaded.settings.frameworks) apply_frameworks(program, changes);
  return loaded.problems.empty() ? kDone : kBadInput;
}

// Checked before the program runs, possibly for hours.
int check_writable(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  // A device or a pipe is written to; any other file is replaced.
  const bool is_written_to = std::filesystem::exists(found) && !std::filesystem::is_regular_file(found);
  std::filesystem::path changed = std::filesystem::absolute(path);
  if (!is_written_to) changed = changed.parent_path();
  if (!std::filesystem::is_directory(found) && access(changed.c_str(), W_OK) == 0) return kDone;
  say(path + ": can not be written: " + std::strerror(std::filesystem::is_directory(found) ? EISDIR : errno));
  return kBadInput;
}

}  // namespace

int run_program(const RunFlags& flags, const CommandLine& line, const std::string& command) {
  if (const int status = check_flags(flags, line, command); status != kDone) return status;
  Changes changes;
  apply_setting_flags(flags, &changes);
  if (!flags.no_library) {
    if (const int status = apply_library(&changes); status != kDone) return status;
  }
  if (flags.device) {
    if (const int status = apply_simulator(flags, line.program.front(), &changes); status != kDone) return status;
  }
  if (const int status = apply_settings(line.program.front(), !flags.no_library, &changes); status != kDone)
    return status;
  std::string recording, trace;
  const std::optional<Rank> rank = rank_of_process();
  const std::optional<int> own = rank ? std::optional(rank->rank) : std::nullopt;
  if (flags.trace) {
    // If this command is one process of a job, its trace is one of several.
    trace = own ? name_for_rank(*flags.trace, own) : *flags.trace;
    if (const int status = check_writable(trace); status != kDone) return status;
    recording = recording_base(trace);
    changes["THERMOCLINE_RECORD"] = recording;
    // An empty value removes the variable.
    changes["THERMOCLINE_RECORD_LIMIT"] = flags.limit ? std::to_string(*record_limit(*flags.limit)) : "";
  }
  if (flags.kernels_folder != nullptr) {
    changes["THERMOCLINE_RECORD"] = *flags.kernels_folder + "/recording";
    changes["THERMOCLINE_RECORD_LIMIT"] = "";
    changes["THERMOCLINE_KERNELS"] = *flags.kernels_folder + "/kernels";
  }
  if (!flags.device && own.value_or(0) == 0) remark_on_missing_driver(line.program.front());
  if (!flags.no_library) remark_on_static_program(line.program.front());
  const ChildResult result = run_child(line.program, changes);
  if (result.start_error == 0) {
    const int recorded = flags.trace ? make_traces(recording, trace, own, line.program) : kDone;
    return result.status != 0 ? result.status : recorded;
  }
  say(not_started(line.program.front(), result.start_error));
  return kBadInput;
}

void add_run_flags(CLI::App* command, RunFlags* flags) {
  command->add_option("--budget", flags->budget, "most device memory to hold: 12GiB, or 60% of the device's memory");
  command->add_option("--policy", flags->policy, policy_setting_help());
  command->add_option("--config", flags->config, "a settings file, over the usual ones");
  command->add_option("--simulate", flags->device,
                      "run on the simulated device of this profile ('thermocline devices' lists them)");
  add_number(command, "--seed", flags->seed, kSeeds, "with --simulate: adversarial order of this number");
  command->add_flag("--check", flags->check, "with --simulate: say which operations race, and how many (races=N)");
  command->add_option("--faults", flags->faults,
                      "with --simulate: what goes wrong, a plan or a file that holds one (docs/faults.md)");
  command->add_flag("--made-up", flags->made_up,
                    "with --simulate: kernels do not run their code but make up results (docs/simulated_device.md)");
  command->add_flag("--no-children", flags->no_children, "programs that the program starts run without the library");
  command->add_flag("--no-frameworks", flags->no_frameworks,
                    "set nothing for PyTorch, TensorFlow and JAX (docs/frameworks.md)");
  command->add_flag("--stats{table}", flags->stats,
                    "statistics on stderr at the end: a table, or --stats=line, --stats=json for programs");
}

namespace {

// RunFlags that are shown as a separate group in the help.
void group_flags(CLI::App* command) {
  for (CLI::Option* option : command->get_options()) {
    const std::string name = option->get_lnames().empty() ? "" : option->get_lnames().front();
    for (const char* const simulated : {"simulate", "seed", "check", "faults", "made-up", "no-library"}) {
      if (name == simulated) option->group("Simulated device");
    }
    for (const char* const recording : {"output", "trace", "limit", "from"}) {
      if (name == recording) option->group("Recording");
    }
  }
}

}  // namespace

void add_run(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command =
      app.add_subcommand("run", "Run a program with a memory budget, on this machine's device or a simulated one");
  command->footer("The program goes behind '--': thermocline run --budget 12GiB -- python train.py");
  add_run_flags(command, flags.get());
  command->add_option("--limit", flags->limit, "most of a recording to keep, the newest: 256MiB (of each process)");
  command->add_flag("--no-library", flags->no_library, "with --simulate: the program on the simulated device alone");
  command->add_flag("--audit", flags->audit,
                    "evict nothing, and say whether kernels access memory that they are not seen to access (slow)");
  command->add_option("--trace", flags->trace, "record what the program does to this file, as 'record' does");
  group_flags(command);
  command->callback([=] { line->action = [flags, line] { return run_program(*flags, *line, "run"); }; });
}

void add_record(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<RunFlags>();
  auto from = std::make_shared<std::optional<std::string>>();
  CLI::App* command = app.add_subcommand("record", "Run a program and record what it does with memory: a trace");
  command->footer(
      "The program goes behind '--': thermocline record -o step.trace -- python train.py\n"
      "Then: thermocline replay step.trace --device h200 --budget 60%, thermocline estimate step.trace");
  command
      ->add_option("-o,--output", flags->trace,
                   "the trace: *.jsonl and *.jsonl.gz are JSON Lines, any other name is packed; one for each rank "
                   "under mpirun or torchrun: %r in the name is its number, else step.trace becomes step.rank0.trace")
      ->required();
  command->add_option("--from", *from, "make the trace of what a run that was killed has left, and run nothing");
  add_run_flags(command, flags.get());
  command->add_option("--limit", flags->limit, "most of a recording to keep, the newest: 256MiB (of each process)");
  group_flags(command);
  command->callback([=] {
    line->action = [flags, from, line] {
      return *from ? make_trace(**from, *flags->trace) : run_program(*flags, *line, "record");
    };
  });
}

}  // namespace thermocline
