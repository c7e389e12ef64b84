/* SPDX-License-Identifier: Apache-2.0
 * As much of a plugin of TensorFlow's PluggableDevice interface as allocates: a platform, a device, an executor.
 */
#include "tensorflow/c/experimental/stream_executor/stream_executor.h"

#include "integrations/tensorflow/thermocline_tensorflow.h"

static void get_device_count(const SP_Platform* platform, int* count, TF_Status* status) {
  (void)platform, (void)status;
  *count = 1;
}
static void create_device(const SP_Platform* platform, SE_CreateDeviceParams* params, TF_Status* status) {
  (void)platform, (void)status;
  params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
  params->device->ordinal = params->ordinal;
}
static void create_stream_executor(const SP_Platform* platform, SE_CreateStreamExecutorParams* params,
                                   TF_Status* status) {
  (void)platform, (void)status;
  params->stream_executor->struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;
  thermocline_tensorflow_fill_executor(params->stream_executor);
}

__attribute__((visibility("default"))) void SE_InitPlugin(SE_PlatformRegistrationParams* params, TF_Status* status) {
  (void)status;
  params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  params->platform->name = "THERMOCLINE_TEST";
  params->platform->type = "GPU";
  thermocline_tensorflow_fill_platform(params->platform);
  params->platform_fns->struct_size = SP_PLATFORM_FNS_STRUCT_SIZE;
  params->platform_fns->get_device_count = &get_device_count;
  params->platform_fns->create_device = &create_device;
  params->platform_fns->create_stream_executor = &create_stream_executor;
}
