// SPDX-License-Identifier: Apache-2.0
// Launches with attributes: clusters, cooperation, programmatic serialization.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUlaunchAttribute attributes[3] = {{0}};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim.x = 2;
  attributes[0].value.clusterDim.y = 1;
  attributes[0].value.clusterDim.z = 1;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
  attributes[1].value.clusterSchedulingPolicyPreference = CU_CLUSTER_SCHEDULING_POLICY_SPREAD;
  attributes[2].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attributes[2].value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {0};
  config.gridDimX = 64;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 128;
  config.attrs = attributes;
  for (int i = 0; i < BUFFERS; ++i) {
    CUdeviceptr from = buffers[(i + 3) % BUFFERS];
    void* parameters[] = {&buffers[i], &from};
    config.numAttrs = (unsigned)(i % 4);
    CHECK(cuLaunchKernelEx(&config, mix, parameters, NULL));
  }
  return finish();
}
