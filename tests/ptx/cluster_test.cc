// SPDX-License-Identifier: Apache-2.0
// Clusters: blocks that wait for one another and access each other's shared memory.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/ptx/device.h"

namespace ptx_test {
namespace {

using simulator::ptx::Fault;

// A kernel with clusters of this shape. %t is the thread, %rank the block's rank in its cluster, %at where the thread
// may store 16 bytes.
std::string cluster_text(const char* shape, const std::string& body) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 in)\n.explicitcluster\n"
         ".reqnctapercluster " +
         std::string(shape) +
         "\n{\n.shared .align 8 .b8 s[64];\n.reg .b32 %t, %rank, %size, %b, %n, %x<8>;\n.reg .b64 %in, %at, %d<8>;\n"
         ".reg .pred %p<4>;\nld.param.u64 %in, [in];\nmov.u32 %t, %tid.x;\nmov.u32 %rank, %cluster_ctarank;\n"
         "mov.u32 %size, %cluster_nctarank;\nmov.u32 %b, %ctaid.y;\nmov.u32 %n, %nctaid.x;\nmov.u32 %x0, %ctaid.x;\n"
         "mad.lo.u32 %b, %b, %n, %x0;\nmov.u32 %n, %ntid.x;\nmad.lo.u32 %n, %b, %n, %t;\n"
         "mad.wide.u32 %at, %n, 16, %in;\n" +
         body + "ret;\n}\n";
}

const std::uint32_t* words() { return reinterpret_cast<const std::uint32_t*>(device().memory()); }

TEST(PtxCluster, BlocksKnowTheirPlace) {
  const Device::Result result = device().run(
      cluster_text("2, 1, 1",
                   "mov.u32 %x1, %clusterid.x;\nmov.u32 %x2, %nclusterid.x;\nmov.pred %p1, %is_explicit_cluster;\n"
                   "selp.u32 %x3, 16, 0, %p1;\nadd.u32 %x2, %x2, %x3;\n"
                   "st.global.v4.b32 [%at], {%rank, %size, %x1, %x2};\n"),
      6, 1);
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const std::uint32_t expected[] = {i % 2, 2, i / 2, 3 + 16};
    EXPECT_EQ(std::memcmp(words() + 4 * i, expected, sizeof expected), 0) << i;
  }
}

// Each thread reads what the same thread of the next block wrote: by a shared address, by a generic one, by an atomic.
TEST(PtxCluster, BlocksReadAndChangeEachOthersSharedMemory) {
  const std::string text = cluster_text(
      "3, 1, 1",
      "mov.u32 %x0, s;\nmad.lo.u32 %x0, %t, 8, %x0;\nmad.lo.u32 %x1, %rank, 100, %t;\nst.shared.u32 [%x0], %x1;\n"
      "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
      "add.u32 %x2, %rank, 1;\nrem.u32 %x2, %x2, %size;\n"
      "mapa.shared::cluster.u32 %x3, %x0, %x2;\nld.shared::cluster.u32 %x4, [%x3];\n"
      "getctarank.shared::cluster.u32 %x7, %x3;\n"
      "cvt.u64.u32 %d1, %x0;\ncvta.shared.u64 %d1, %d1;\nmapa.u64 %d2, %d1, %x2;\nld.u32 %x5, [%d2];\n"
      "getctarank.u64 %x6, %d2;\nmad.lo.u32 %x6, %x6, 10, %x7;\n"
      "isspacep.shared::cluster %p1, %d2;\nisspacep.shared %p2, %d2;\nnot.pred %p2, %p2;\nand.pred %p1, %p1, %p2;\n"
      "cvta.to.shared::cluster.u64 %d3, %d2;\ncvta.shared::cluster.u64 %d4, %d3;\nsetp.eq.and.u64 %p1, %d4, %d2, %p1;\n"
      "@!%p1 mov.u32 %x6, 99;\n"
      "atom.shared::cluster.add.u32 %x7, [%x3+4], 7;\nred.add.u32 [%d2+4], 1;\n"
      "barrier.cluster.arrive;\nbarrier.cluster.wait;\nld.shared.u32 %x7, [%x0+4];\n"
      "st.global.v4.b32 [%at], {%x4, %x5, %x6, %x7};\n");
  const Device::Result result = device().run(text, 6, 4);
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  for (std::uint32_t i = 0; i < 24; ++i) {
    const std::uint32_t next = (i / 4 + 1) % 3, value = 100 * next + i % 4;
    const std::uint32_t expected[] = {value, value, 11 * next, 8};
    EXPECT_EQ(std::memcmp(words() + 4 * i, expected, sizeof expected), 0)
        << i << ": " << words()[4 * i] << " " << words()[4 * i + 2];
  }
}

// Threads that have ended are not waited for; threads may work between arriving and waiting.
TEST(PtxCluster, TheBarrierOpensForThoseWhoAreLeft) {
  const Device::Result result = device().run(
      cluster_text("2, 1, 1",
                   "setp.eq.u32 %p1, %rank, 0;\nsetp.lt.and.u32 %p2, %t, 3, %p1;\n@%p2 exit;\nmov.u32 %x1, 0;\n"
                   "L:\nbarrier.cluster.arrive.relaxed;\nadd.u32 %x1, %x1, 1;\nbarrier.sync 0;\n"
                   "barrier.cluster.wait;\nsetp.lt.u32 %p3, %x1, 10;\n@%p3 bra L;\nst.global.u32 [%at], %x1;\n"),
      2, 5);
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  for (std::uint32_t i = 3; i < 10; ++i) EXPECT_EQ(words()[4 * i], 10u) << i;
}

// An mbarrier of one block at which another one arrives, with a bulk copy into its shared memory.
TEST(PtxCluster, CopiesAndArrivalsReachOtherBlocks) {
  auto* const memory = reinterpret_cast<std::uint32_t*>(device().memory());
  for (std::uint32_t i = 0; i < 4; ++i) memory[1024 + i] = 70 + i;
  const std::string text = cluster_text(
      "2, 1, 1",
      "setp.eq.u32 %p1, %rank, 0;\nmov.u32 %x0, s;\n@%p1 mbarrier.init.shared.b64 [%x0], 1;\n"
      "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%x0], 16;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n"
      "@%p1 bra WAIT;\nmov.u32 %x2, 0;\nmapa.shared::cluster.u32 %x1, %x0, %x2;\nadd.u32 %x3, %x1, 16;\n"
      "add.u64 %d1, %in, 4096;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%x3], [%d1], 16, [%x1];\n"
      "bra DONE;\nWAIT:\nmbarrier.try_wait.parity.shared.b64 %p2, [%x0], 0;\n@!%p2 bra WAIT;\n"
      "ld.shared.v4.b32 {%x1, %x2, %x3, %x4}, [%x0+16];\nst.global.v4.b32 [%at], {%x1, %x2, %x3, %x4};\nDONE:\n"
      "barrier.cluster.arrive;\nbarrier.cluster.wait;\n");
  const Device::Result result = device().run(text, 2, 1);
  ASSERT_TRUE(result.ran()) << result.refused << result.outcome.message;
  const std::uint32_t expected[] = {70, 71, 72, 73};
  EXPECT_EQ(std::memcmp(words(), expected, sizeof expected), 0) << words()[0];
}

TEST(PtxCluster, WhatADeviceDoesNotDoIsAFault) {
  const auto fault = [](const std::string& body) {
    const Device::Result result = device().run(cluster_text("2, 1, 1", body), 2, 2);
    return std::to_string(static_cast<int>(result.outcome.fault)) + " " + result.refused + result.outcome.message;
  };
  const auto expect = [&](const std::string& body, Fault kind, const char* part) {
    const std::string found = fault(body);
    EXPECT_EQ(found.substr(0, 2), std::to_string(static_cast<int>(kind)) + " ") << body << found;
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect(
      "mov.u32 %x0, s;\nmov.u32 %x2, 2;\nmapa.shared::cluster.u32 %x1, %x0, %x2;\nst.shared::cluster.u32 [%x1], 1;\n",
      Fault::kIllegalAddress, "block 2 of the cluster, which is not running");
  expect("mov.u32 %x2, 1;\nmapa.shared::cluster.u32 %x1, s, %x2;\nld.shared::cluster.u32 %x3, [%x1+8192];\n",
         Fault::kIllegalAddress, "offset 8192 of");
  expect("mov.u32 %x2, 1;\nmapa.shared::cluster.u32 %x1, s, %x2;\nld.shared::cluster.u32 %x3, [%x1+2];\n",
         Fault::kMisaligned, "misaligned");
  expect("mov.u32 %x2, 1;\nmapa.u64 %d1, %in, %x2;\n", Fault::kIllegalAddress, "not in the cluster's shared memory");
  expect(
      "setp.eq.u32 %p1, %rank, 0;\n@%p1 bra L;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\nL:\n"
      "@%p1 barrier.sync 1, 64;\n",
      Fault::kTimeout, "threads wait for one another");
}

// A block that has ended has no shared memory any more.
TEST(PtxCluster, TheSharedMemoryOfABlockEndsWithIt) {
  const Device::Result result =
      device().run(cluster_text("2, 1, 1",
                                "setp.eq.u32 %p1, %rank, 0;\n@%p1 exit;\nnanosleep.u32 100;\nmov.u32 %x2, 0;\n"
                                "mapa.shared::cluster.u32 %x1, s, %x2;\nld.shared::cluster.u32 %x3, [%x1];\n"),
                   2, 1);
  EXPECT_EQ(result.outcome.fault, Fault::kIllegalAddress);
  EXPECT_NE(std::string(result.outcome.message).find("not running"), std::string::npos) << result.outcome.message;
}

TEST(PtxCluster, GridsThatCountClustersAreRefused) {
  std::string text = cluster_text("2, 1, 1", "");
  text.replace(text.find(".explicitcluster"), 16, ".blocksareclusters");
  EXPECT_NE(device().run(text, 2, 1).refused.find(".blocksareclusters is not supported"), std::string::npos);
}

}  // namespace
}  // namespace ptx_test
