// SPDX-License-Identifier: Apache-2.0
// Where in a machine of several nodes host memory should lie: on the device's own, so that copies do not cross to
// another one. Asked of the kernel directly (set_mempolicy(2)); no library is needed for that. -1 is "not known", and
// then nothing is done.
#pragma once

#include <string>

namespace thermocline {

// The node of a PCI device, "0000:65:00.0" as the driver writes it, as sysfs says.
int node_of_pci_device(const std::string& bus_id, const std::string& folder = "/sys/bus/pci/devices");

// While one lives, pages that the calling thread takes come from the node if it has any. A policy that somebody has set
// (numactl, the program itself) stands.
class PreferNode {
 public:
  explicit PreferNode(int node);
  ~PreferNode();
  PreferNode(const PreferNode&) = delete;
  PreferNode& operator=(const PreferNode&) = delete;

 private:
  bool set_ = false;
};

}  // namespace thermocline
