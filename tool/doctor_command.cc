// SPDX-License-Identifier: Apache-2.0
// thermocline doctor: checks what the library would find on this machine, and what would keep it from working.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "config/load.h"
#include "driver/library.h"
#include "driver/probes.h"
#include "offload/spill/disk_file.h"
#include "tool/commands.h"
#include "tool/elf_needs.h"
#include "tool/exit_status.h"
#include "tool/framework_settings.h"
#include "tool/json_text.h"
#include "tool/message.h"
#include "tool/places.h"
#include "tool/register.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

// The findings, as JSON; the text output shows the same, line by line.
class Examination {
 public:
  void driver();
  void machine();
  void partitions();
  void spill();
  void installation();
  void frameworks();
  void program(const std::string& path);
  // `devices`: answers_of_devices().
  void answers(const ordered_json& devices);

  bool has_device() const { return has_device_; }
  const ordered_json& findings() const { return findings_; }
  void print() const;

 private:
  void add(const char* key, const char* label, ordered_json value, std::string text) {
    findings_[key] = std::move(value);
    lines_.emplace_back(label, std::move(text));
  }
  void device(const DriverLibrary& library, int ordinal);

  ordered_json findings_ = {{"schema", "thermocline-doctor/1"}};
  std::vector<std::pair<std::string, std::string>> lines_;
  bool has_device_ = false;
};

std::string yes_no(bool value) { return value ? "yes" : "no"; }

std::string version_text(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void Examination::driver() {
  findings_["devices"] = ordered_json::array();
  std::string why;
  const std::unique_ptr<DriverLibrary> library = DriverLibrary::open(nullptr, &why);
  if (library == nullptr) return add("driver", "driver", nullptr, "none: " + why);
  int version = 0;
  Status status = library->initialise();
  if (status.ok()) status = library->version(&version);
  int count = 0;
  if (status.ok()) status = library->device_count(&count);
  const std::string path = library->path();
  if (!status.ok()) {
    const std::string error = library->error_name(status);
    return add("driver", "driver", {{"path", path}, {"error", error}}, path + ", which answers " + error);
  }
  // The first CUDA version that reports the parameters of kernels (cuFuncGetParamInfo).
  const bool tells_parameters = version >= 12040;
  add("driver", "driver", {{"path", path}, {"version", version}, {"tells_parameters", tells_parameters}},
      path + ", " + version_text(version) +
          (tells_parameters ? "" : " (before CUDA 12.4 it does not tell what kernels are given: nothing is evicted)"));
  for (int i = 0; i < count; ++i) device(*library, i);
  if (count == 0) lines_.emplace_back("devices", "none");
}

void Examination::device(const DriverLibrary& library, int ordinal) {
  DeviceSummary summary;
  if (const Status status = library.summary(ordinal, &summary); !status.ok()) {
    lines_.emplace_back("device " + std::to_string(ordinal), library.error_name(status));
    return;
  }
  has_device_ = true;
  findings_["devices"].push_back({{"name", summary.name},
                                  {"memory_bytes", summary.total_memory},
                                  {"compute_capability", summary.compute_capability},
                                  {"virtual_memory", summary.has_virtual_memory},
                                  {"host_mapping", summary.can_map_host}});
  const std::string offload =
      summary.has_virtual_memory ? "" : " (without it nothing is evicted: memory is cached, and the budget refuses)";
  lines_.emplace_back("device " + std::to_string(ordinal),
                      summary.name + ", " + human_bytes(summary.total_memory) +
                          ", virtual memory management: " + yes_no(summary.has_virtual_memory) + offload +
                          ", host-located mappings: " + yes_no(summary.can_map_host));
}

// With several NUMA nodes, host memory should be on the device's node (driver/numa.h).
int numa_nodes() {
  std::error_code error;
  int nodes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node", error)) {
    const std::string name = entry.path().filename().string();
    nodes += name.starts_with("node") && name.find_first_not_of("0123456789", 4) == std::string::npos ? 1 : 0;
  }
  return std::max(nodes, 1);
}

void Examination::frameworks() {
  const LoadedSettings loaded = load_settings(Surroundings::of_process());
  const char* const who = loaded.settings.frameworks ? "'thermocline run' sets " : "'frameworks = false' leaves out ";
  findings_["frameworks"] = ordered_json::array();
  for (const FrameworkSetting& setting : framework_settings()) {
    const char* const spoken = users_own(setting);
    const char* const own = std::getenv(setting.variable);
    const std::string wanted = std::string(setting.variable) + "=" + setting.value;
    findings_["frameworks"].push_back({{"framework", setting.framework},
                                       {"variable", setting.variable},
                                       {"wanted", setting.value},
                                       {"environment", own == nullptr ? ordered_json(nullptr) : ordered_json(own)},
                                       {"price", setting.price},
                                       {"set_by_run", spoken == nullptr && loaded.settings.frameworks}});
    if (spoken == nullptr) {
      const bool has_price = loaded.settings.frameworks && *setting.price != '\0';
      lines_.emplace_back(setting.framework, who + wanted + (has_price ? std::string("; ") + setting.price : ""));
    } else {
      lines_.emplace_back(setting.framework,
                          std::string(spoken) + " is '" + std::getenv(spoken) + "', and stays" +
                              (own != nullptr && own == std::string(setting.value) ? "" : "; good is " + wanted));
    }
  }
}

void Examination::machine() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  add("memlock_bytes", "locked memory", unlimited ? ordered_json(nullptr) : ordered_json(limit.rlim_cur),
      unlimited ? "unlimited" : "at most " + human_bytes(limit.rlim_cur));
  const Bytes host = host_memory_bytes();
  add("host_memory_bytes", "host memory", host, human_bytes(host) + ", the control group's limit included");
  const int nodes = numa_nodes();
  add("numa_nodes", "NUMA nodes", nodes,
      std::to_string(nodes) +
          (nodes > 1 ? "; host memory is taken from the device's, where the driver names one" : ""));
  const char* preload = std::getenv("LD_PRELOAD");
  const std::string text = preload == nullptr ? "" : preload;
  add("ld_preload", "LD_PRELOAD", text, text.empty() ? "empty" : text);
}

// Examines the folder of host_spill by creating a file there and deleting it at once.
void Examination::spill() {
  const Settings settings = load_settings(Surroundings::of_process()).settings;
  const std::string& folder = settings.host_spill;
  if (folder.empty()) return add("host_spill", "host_spill", nullptr, "off");
  std::string why;
  const std::unique_ptr<DiskFile> file = DiskFile::create(folder, {}, &why);
  if (file == nullptr) return add("host_spill", "host_spill", {{"folder", folder}, {"error", why}}, "unusable: " + why);
  const Bytes wanted = settings.host_spill_limit.resolve(0), free = file->free_bytes();
  const Bytes limit = wanted != 0 ? wanted : spill_limit_for(free);
  std::string text =
      file->description() + ", " + human_bytes(free) + " free, of which up to " + human_bytes(limit) + " are used";
  if (limit > free) text += ": host_spill_limit is more than there is";
  add("host_spill", "host_spill",
      {{"folder", folder},
       {"file_system", file->file_system()},
       {"direct", file->is_direct()},
       {"io_uring", file->has_rings()},
       {"free_bytes", free},
       {"limit_bytes", limit}},
      text);
}

ordered_json environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? ordered_json(nullptr) : ordered_json(value);
}

// Whether the device is divided between processes. Sources: NVIDIA, "Multi-Process Service", appendix "Tools and
// interface reference" (the daemon's folder and its .pid file, the variables); "MIG User Guide", "MIG device names"
// (CUDA_VISIBLE_DEVICES).
void Examination::partitions() {
  const char* const own = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  const std::string folder = own == nullptr ? "/tmp/nvidia-mps" : own;
  std::error_code error;
  const bool served = std::filesystem::exists(folder + "/nvidia-cuda-mps-control.pid", error);
  const ordered_json limit = environment("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  std::string text = (served ? "a control daemon at " : "no control daemon at ") + folder;
  if (served) text += "; its clients share the device's memory, so give each a budget that is its part";
  if (!limit.is_null()) {
    text += "; CUDA_MPS_PINNED_DEVICE_MEM_LIMIT is '" + limit.get<std::string>() +
            "': the budget has to be below it, in bytes, for a percentage is of the device's memory";
  }
  add("mps", "MPS",
      {{"folder", folder},
       {"control_daemon", served},
       {"active_thread_percentage", environment("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")},
       {"pinned_device_mem_limit", limit}},
      text);
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const bool instance = visible != nullptr && std::string(visible).find("MIG-") != std::string::npos;
  add("mig", "MIG", {{"visible", instance}},
      instance ? "CUDA_VISIBLE_DEVICES names an instance: it is the device, and percentages are of its memory"
               : "CUDA_VISIBLE_DEVICES names no instance");
}

void Examination::installation() {
  std::string looked;
  const auto library = find_library(&looked);
  add("library", "library", library ? ordered_json(*library) : ordered_json(nullptr),
      library ? *library : "missing; looked for " + looked);
  const auto simulator = find_simulator(&looked);
  add("simulator", "simulated device", simulator ? ordered_json(*simulator) : ordered_json(nullptr),
      simulator ? *simulator : "missing; looked for " + looked);
  const LoadedSettings loaded = load_settings(Surroundings::of_process());
  ordered_json problems = ordered_json::array();
  std::string text = loaded.problems.empty() ? "good" : "";
  for (const Problem& problem : loaded.problems) {
    problems.push_back(problem.text());
    text += (text.empty() ? "" : "; ") + problem.text();
  }
  for (const Problem& note : loaded.notes) text += "; note: " + note.text();
  add("settings_problems", "settings", std::move(problems), text);
}

void Examination::program(const std::string& name) {
  const std::string path = found_along_path(name);
  std::string reason;
  const std::optional<ElfNeeds> needs = read_elf_needs(path, &reason);
  if (!needs) return add("program", "program", {{"path", path}, {"error", reason}}, path + ": " + reason);
  const auto needed = [&needs](const char* prefix) {
    return std::ranges::any_of(needs->libraries, [prefix](const std::string& l) { return l.starts_with(prefix); });
  };
  const char* runtime = needed("libcudart.so") ? "shared" : needs->has_device_code ? "static" : "none";
  std::string text = path + ": CUDA runtime linked: " + runtime;
  if (needs->is_static) text += "; a static program can not be given a library";
  if (std::string(runtime) == "static") text += " (runs on a real device; the simulated one needs nvcc -cudart shared)";
  add("program", "program",
      {{"path", path}, {"cuda_runtime", runtime}, {"needs_driver", needed("libcuda.so")}, {"static", needs->is_static}},
      text);
}

void Examination::answers(const ordered_json& devices) {
  findings_["gpu"] = devices;
  for (const ordered_json& device : devices) {
    const std::string label =
        device.contains("device") ? "device " + std::to_string(device["device"].get<int>()) : "devices";
    if (device.contains("error")) lines_.emplace_back(label, device["error"].get<std::string>());
    for (const ordered_json& answer : device.value("answers", ordered_json::array())) {
      const std::string detail = answer["detail"];
      lines_.emplace_back(label, answer["id"].get<std::string>() + ": " + answer["seen"].get<std::string>() +
                                     (detail.empty() ? "" : " (" + detail + ")"));
    }
  }
}

void Examination::print() const {
  for (const auto& [label, text] : lines_) std::fprintf(stdout, "%-18s%s\n", label.c_str(), text.c_str());
}

int print_register() {
  std::puts(json_text({{"schema", "thermocline-assumptions/1"},
                       {"calls_at_start", kCallsOfProbes},
                       {"assumptions", assumptions_json()}})
                .c_str());
  return kDone;
}

// The reason why a program's file cannot be examined; empty: it can be read.
std::string unreadable(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  if (!std::filesystem::exists(found)) return "can not be opened: " + error.message();
  if (std::filesystem::is_directory(found)) return "it is a folder; expected a program";
  if (!std::filesystem::is_regular_file(found)) return "it is no file; expected a program";
  return access(path.c_str(), R_OK) == 0 ? "" : std::string("can not be opened: ") + std::strerror(errno);
}

int doctor(const std::vector<std::string>& program, bool json, bool gpu) {
  if (!program.empty()) {
    if (program.front().empty()) {
      say("the program to look at has no name: thermocline doctor PROGRAM");
      return kWrongUsage;
    }
    const std::string path = found_along_path(program.front());
    if (const std::string reason = unreadable(path); !reason.empty()) {
      say(path + ": " + reason);
      return kBadInput;
    }
  }
  // First: it forks, and a process that has called the driver cannot be forked.
  const ordered_json devices = gpu ? answers_of_devices() : ordered_json();
  Examination examination;
  // A driver that stopped the child would stop this process, too.
  const bool is_defective = !devices.empty() && !devices.back().contains("device");
  if (!is_defective) examination.driver();
  examination.machine();
  examination.spill();
  examination.partitions();
  examination.installation();
  examination.frameworks();
  if (!program.empty()) examination.program(program.front());
  if (gpu) examination.answers(devices);
  if (json) {
    std::puts(json_text(examination.findings()).c_str());
  } else {
    examination.print();
  }
  if (examination.has_device()) return kDone;
  say("no device; 'thermocline run --simulate DEVICE' needs none");
  return kNoDevice;
}

}  // namespace

void add_doctor(CLI::App& app, CommandLine* line) {
  auto json = std::make_shared<bool>(false);
  auto gpu = std::make_shared<bool>(false);
  auto register_only = std::make_shared<bool>(false);
  auto program = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      app.add_subcommand("doctor", "What the library finds on this machine, and what would keep it from working");
  command->add_option("PROGRAM", *program, "also look at how this program reaches CUDA")->expected(0, 1);
  command->add_flag("--json", *json, "one JSON object on stdout");
  command->add_flag(
      "--gpu", *gpu,
      "also check on each device what the library assumes (docs/driver_assumptions.md); takes less than ten seconds");
  command->add_flag("--assumptions", *register_only,
                    "print all assumptions about drivers as one JSON object, and nothing else");
  command->callback([=] {
    line->action = [=] {
      if (*register_only) return print_register();
      return doctor(line->has_program ? line->program : *program, *json, *gpu);
    };
  });
}

}  // namespace thermocline
