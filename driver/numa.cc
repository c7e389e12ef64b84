// SPDX-License-Identifier: Apache-2.0
// https://www.kernel.org/doc/html/latest/admin-guide/mm/numa_memory_policy.html
#include "driver/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <fstream>

namespace thermocline {
namespace {

constexpr unsigned long kMostNodes = 1024;  // the kernel's own limit (CONFIG_NODES_SHIFT 10)
constexpr unsigned long kBits = 8 * sizeof(unsigned long);
using Nodes = std::array<unsigned long, kMostNodes / kBits>;

}  // namespace

int node_of_pci_device(const std::string& bus_id, const std::string& folder) {
  std::string name = bus_id;
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name.empty() || name.find('/') != std::string::npos) return -1;
  std::ifstream file(folder + "/" + name + "/numa_node");
  int node = -1;
  return file >> node && node >= 0 ? node : -1;
}

PreferNode::PreferNode(int node) {
  if (node < 0 || static_cast<unsigned long>(node) >= kMostNodes) return;
  const int saved = errno;
  int mode = -1;
  Nodes before{};
  if (syscall(SYS_get_mempolicy, &mode, before.data(), kMostNodes, nullptr, 0) == 0 && mode == MPOL_DEFAULT) {
    Nodes wanted{};
    const auto bit = static_cast<unsigned long>(node);
    wanted[bit / kBits] = 1UL << bit % kBits;
    set_ = syscall(SYS_set_mempolicy, MPOL_PREFERRED, wanted.data(), kMostNodes) == 0;
  }
  errno = saved;
}

PreferNode::~PreferNode() {
  if (!set_) return;
  const int saved = errno;
  syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0);
  errno = saved;
}

}  // namespace thermocline
