// SPDX-License-Identifier: Apache-2.0
// On a machine with several NUMA nodes, host memory for copies should be on the device's own node, so that copies do
// not cross between nodes. Uses the kernel interface directly (set_mempolicy(2)), without a library. A node of -1 means
// unknown; then nothing is done.
#pragma once

#include <string>

namespace thermocline {

// The NUMA node of a PCI device according to sysfs; `bus_id` as the driver writes it, "0000:65:00.0".
int node_of_pci_device(const std::string& bus_id, const std::string& folder = "/sys/bus/pci/devices");

// While an object of this class lives, pages that the calling thread allocates come from the node if it has free ones.
// An existing memory policy (from numactl, or set by the program) is left in force.
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
