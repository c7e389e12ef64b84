// SPDX-License-Identifier: Apache-2.0
// Shared by the programs of devices/: two devices with a context, kernels and buffers each. They are run with a
// simulator that has two (THERMOCLINE_SIMULATE_DEVICES).
#pragma once

#include "tests/preload/programs/small.h"

// NOLINTBEGIN(modernize-deprecated-headers,modernize-use-nullptr,modernize-redundant-void-arg): C reads it.
#define DEVICES 2

struct place {
  CUcontext context;
  CUmodule image;
  CUfunction mix;
  CUstream stream;
  CUdeviceptr buffers[BUFFERS];
};

static struct place places[DEVICES];

static inline void on(int device) { CHECK(cuCtxSetCurrent(places[device].context)); }

static inline void open_device(int device) {
  struct place* place = &places[device];
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&place->context, device));
  on(device);
  CHECK(cuModuleLoadData(&place->image, kKernels));
  CHECK(cuModuleGetFunction(&place->mix, place->image, "mix"));
  CHECK(cuStreamCreate(&place->stream, CU_STREAM_NON_BLOCKING));
}

static inline void make_buffers_on(int device) {
  on(device);
  for (uint32_t i = 0; i < BUFFERS; ++i) {
    CHECK(cuMemAlloc(&places[device].buffers[i], BYTES));
    fill(places[device].buffers[i], BYTES, (uint32_t)device * 100 + i);
  }
  CHECK(cuCtxSynchronize());
}

static inline void mix_there(int device, CUdeviceptr out, CUdeviceptr in) {
  void* parameters[] = {&out, &in};
  CHECK(cuLaunchKernel(places[device].mix, 64, 1, 1, 128, 1, 1, 0, places[device].stream, parameters, NULL));
}

// Each buffer once as target, so that all of them are evicted and fetched.
static inline void step_on(int device) {
  CUdeviceptr* buffers_there = places[device].buffers;
  on(device);
  for (int i = 0; i < BUFFERS; ++i) mix_there(device, buffers_there[i], buffers_there[(i + 3) % BUFFERS]);
}

static inline void show_device(int device) {
  on(device);
  CHECK(cuCtxSynchronize());
  for (int i = 0; i < BUFFERS; ++i) show(device == 0 ? "first" : "second", places[device].buffers[i], BYTES);
}

static inline void close_device(int device) {
  on(device);
  CHECK(cuCtxSynchronize());
  CHECK(cuStreamDestroy(places[device].stream));
  CHECK(cuModuleUnload(places[device].image));
  CHECK(cuDevicePrimaryCtxRelease(device));
}
// NOLINTEND(modernize-deprecated-headers,modernize-use-nullptr,modernize-redundant-void-arg)
