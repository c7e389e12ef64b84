// SPDX-License-Identifier: Apache-2.0
// thermocline kernels: which arguments kernels read and write, how that is known, and whether they may run again. It
// examines the code in a file, a program that it runs, or the output of an earlier run.
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/json_text.h"
#include "tool/kernel_table.h"
#include "tool/message.h"
#include "tool/output_file.h"
#include "tool/run_program.h"

namespace thermocline {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct KernelsFlags {
  RunFlags run;
  std::optional<std::string> file;
  std::string output = "-";
  bool json = false;
};

// A temporary folder, removed with its contents.
class Folder {
 public:
  Folder() {
    const char* const base = std::getenv("TMPDIR");
    path_ = std::string(base == nullptr || *base == '\0' ? "/tmp" : base) + "/thermocline_kernels_XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Folder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int print(const ordered_json& rows, const KernelsFlags& flags, OutputFile* out) {
  const ordered_json object = {{"schema", "thermocline-kernels/1"}, {"kernels", rows}};
  out->write(flags.json ? json_text(object, 1) + "\n" : kernel_table(rows));
  return out->finish() ? kDone : kFailed;
}

int print_file(const KernelsFlags& flags) {
  std::string reason;
  const std::optional<ordered_json> rows = read_kernels(*flags.file, &reason);
  if (!rows) {
    say(*flags.file + ": " + reason);
    return kBadInput;
  }
  const std::unique_ptr<OutputFile> out = OutputFile::open(flags.output);
  return out == nullptr ? kBadInput : print(*rows, flags, out.get());
}

// The rows that the program's processes have written.
ordered_json rows_of(const std::string& folder) {
  ordered_json rows = ordered_json::array();
  std::map<std::string, KernelCost> costs;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("recording.") && !add_costs(entry.path(), &costs))
      say(name + " can not be read: times and bytes are not of all launches");
    if (!name.starts_with("kernels.")) continue;
    std::string reason;
    const std::optional<ordered_json> some = read_kernels(entry.path(), &reason);
    if (some) rows.insert(rows.end(), some->begin(), some->end());
  }
  put_costs(costs, &rows);
  return rows;
}

int run_and_print(KernelsFlags& flags, const CommandLine& line) {
  const Folder folder;
  if (folder.path().empty()) {
    say("no folder for temporary files can be made (TMPDIR)");
    return kFailed;
  }
  // Opened before the program runs, possibly for hours.
  const std::unique_ptr<OutputFile> out = OutputFile::open(flags.output);
  if (out == nullptr) return kBadInput;
  flags.run.kernels_folder = &folder.path();
  const int status = run_program(flags.run, line, "kernels");
  const ordered_json rows = rows_of(folder.path());
  if (rows.empty()) {
    if (status == kDone) say("no kernel was seen: the program launched none in memory that the library sees");
    return status == kDone ? kFailed : status;
  }
  const int printed = print(rows, flags, out.get());
  return status != kDone ? status : printed;
}

int kernels(KernelsFlags& flags, const CommandLine& line) {
  if (flags.file.has_value() == line.has_program) {
    say(flags.file ? "kernels takes a file or a program behind '--', not both"
                   : "kernels needs a file, or a program behind '--': thermocline kernels FILE");
    return kWrongUsage;
  }
  return flags.file ? print_file(flags) : run_and_print(flags, line);
}

}  // namespace

void add_kernels(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<KernelsFlags>();
  CLI::App* command = app.add_subcommand(
      "kernels", "Say which arguments kernels read and write, how that is known, and whether they may run again");
  command->footer(
      "thermocline kernels ./my_cuda_program             of the code in it: nothing is run\n"
      "thermocline kernels --simulate h200 -- ./my_cuda_program   of what it launches, with times and bytes\n"
      "thermocline kernels run.json                      of what 'run --stats=json' has printed\n"
      "docs/directions.md explains the columns.");
  command->add_option("FILE", flags->file,
                      "a program or library, a fat binary, PTX, or what 'run --stats=json' has printed");
  command->add_option("-o,--output", flags->output, "where to print (default: stdout)");
  command->add_flag("--json", flags->json, "print JSON");
  add_run_flags(command, &flags->run);
  command->callback([=] { line->action = [flags, line] { return kernels(*flags, *line); }; });
}

}  // namespace thermocline
