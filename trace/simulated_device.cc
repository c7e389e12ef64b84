// SPDX-License-Identifier: Apache-2.0
#include "trace/simulated_device.h"

#include "driver/library.h"
#include "simulator/profile.h"

namespace thermocline {
namespace {

using ControlFunction = const SimulatedDeviceControl* (*)();

struct Setting {
  const char* key;
  std::string value;
};

}  // namespace

struct SimulatedDevice::Loaded {
  std::unique_ptr<DriverLibrary> library;
};

SimulatedDevice::SimulatedDevice() : loaded_(std::make_unique<Loaded>()) {}

SimulatedDevice::~SimulatedDevice() {
  if (control_ != nullptr) control_->reset();
}

const Driver& SimulatedDevice::driver() const { return loaded_->library->driver(); }

std::unique_ptr<SimulatedDevice> SimulatedDevice::open(const SimulatedDeviceOptions& options, std::string* reason) {
  const simulator::Profile* profile = simulator::find_profile(options.profile);
  if (profile == nullptr) {
    *reason = "unknown device '" + options.profile + "'";
    return nullptr;
  }
  std::unique_ptr<SimulatedDevice> device(new SimulatedDevice());
  std::unique_ptr<DriverLibrary>& library = device->loaded_->library;
  library = DriverLibrary::open(options.library.c_str(), reason);
  if (library == nullptr) return nullptr;
  const auto control = reinterpret_cast<ControlFunction>(library->symbol("simulated_device_control"));
  if (control == nullptr) {
    *reason = options.library + " is no simulated device";
    return nullptr;
  }
  const SimulatedDeviceControl* table = control();
  if (table->version != SIMULATED_DEVICE_CONTROL_VERSION || table->size < sizeof(SimulatedDeviceControl)) {
    *reason = options.library + " is a simulated device of another version";
    return nullptr;
  }
  device->control_ = table;
  const Bytes memory = options.memory_bytes != 0 ? options.memory_bytes : profile->memory_bytes.value;
  for (const auto& [key, value] :
       {Setting{"device", options.profile}, Setting{"memory", options.tagged ? "tagged" : "real"},
        Setting{"progress", "off"}, Setting{"seed", options.seed ? std::to_string(*options.seed) : "time"},
        Setting{"memory-bytes", std::to_string(memory)}, Setting{"check", options.check ? "1" : "0"},
        Setting{"timeline", options.timeline}}) {
    if (const char* wrong = table->configure(key, value.c_str())) {
      *reason = std::string("the simulated device refuses ") + key + " = " + value + ": " + wrong;
      return nullptr;
    }
  }
  Status status = library->initialise();
  if (status.ok()) status = library->make_current(0);
  if (status.ok()) return device;
  *reason = "the simulated device does not start: " + library->error_name(status);
  return nullptr;
}

}  // namespace thermocline
