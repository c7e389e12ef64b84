// SPDX-License-Identifier: Apache-2.0
// The state of the machine besides its lock: the devices, and what is kept over reset().
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simulator/core/machine/device.h"
#include "simulator/core/machine/machine.h"
#include "simulator/core/streams/progress.h"

namespace simulator {

struct Machine::State {
  explicit State(std::mutex& lock);

  Settings settings;
  std::vector<std::pair<std::string, std::string>> configured;  // has priority over the environment
  std::optional<Settings> early;                                // for queries before there is a device
  std::string complaint;                                        // the last result of configure()
  std::unique_ptr<Device> device;                               // while initialized
  Progress progress;
  std::function<void()> on_reset;
  StreamResolver resolver = nullptr;
  std::string (*leftovers)(const Machine&) = nullptr;
  bool forked = false;  // this is a child of an initialized parent
};

}  // namespace simulator
