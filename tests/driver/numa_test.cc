// SPDX-License-Identifier: Apache-2.0
#include "driver/numa.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace thermocline {
namespace {

// -1 if this kernel or sandbox does not support the call.
int policy() {
  int mode = -1;
  unsigned long nodes[16] = {};
  return syscall(SYS_get_mempolicy, &mode, nodes, 1024, nullptr, 0) == 0 ? mode : -1;
}

TEST(Numa, ADevicesNodeIsReadAsTheDriverWritesItsName) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("numa_test_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder / "0000:af:00.0");
  std::filesystem::create_directories(folder / "0000:b0:00.0");
  std::ofstream(folder / "0000:af:00.0" / "numa_node") << "1\n";
  std::ofstream(folder / "0000:b0:00.0" / "numa_node") << "-1\n";
  EXPECT_EQ(node_of_pci_device("0000:AF:00.0", folder), 1);
  EXPECT_EQ(node_of_pci_device("0000:b0:00.0", folder), -1) << "the kernel does not know";
  EXPECT_EQ(node_of_pci_device("0000:ff:00.0", folder), -1);
  EXPECT_EQ(node_of_pci_device("", folder), -1);
  EXPECT_EQ(node_of_pci_device("../" + folder.filename().string() + "/0000:af:00.0", folder), -1);
  std::filesystem::remove_all(folder);
}

TEST(Numa, APreferenceLastsAsLongAsItsScope) {
  if (policy() != MPOL_DEFAULT) GTEST_SKIP() << "no policy can be set here, or one is";
  {
    const PreferNode node(0);
    EXPECT_EQ(policy(), MPOL_PREFERRED);
    // An existing policy is kept, also after the inner scope.
    { const PreferNode other(0); }
    EXPECT_EQ(policy(), MPOL_PREFERRED);
  }
  EXPECT_EQ(policy(), MPOL_DEFAULT);
  for (const int none : {-1, 1 << 20}) {
    const PreferNode node(none);
    EXPECT_EQ(policy(), MPOL_DEFAULT);
  }
}

}  // namespace
}  // namespace thermocline
