// SPDX-License-Identifier: Apache-2.0
// Uploads batches to the device: two buffers, so that one is filled and copied on a separate stream while the network
// uses the other. Events order the work on the device: a copy waits until the batch that was in its buffer is consumed,
// the network waits until the copy is done. The host waits only before it overwrites pinned memory.
#pragma once

#include <cuda_runtime.h>

#include "examples/common/device_buffer.h"
#include "examples/digits/data.h"
#include "examples/digits/network.h"

namespace digits {

class Uploader {
 public:
  Uploader(const Images& source, int batch, unsigned seed);
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  // Begins the upload of the next batch; at most two batches may be prepared and not consumed.
  void prepare();
  // The oldest prepared batch, for work on `compute`; consumed() must be called when all such work is submitted.
  Batch acquire(cudaStream_t compute);
  void consumed(cudaStream_t compute);

 private:
  struct Staging {
    Staging(int batch, int pixels);
    ~Staging();

    examples::PinnedBuffer<float> host_images;
    examples::PinnedBuffer<int> host_labels;
    examples::DeviceBuffer<float> images;
    examples::DeviceBuffer<int> labels;
    cudaEvent_t uploaded;
    cudaEvent_t free;
  };

  const Images& source_;
  int batch_;
  Shuffle shuffle_;
  cudaStream_t stream_;
  Staging places_[2];
  int prepared_ = 0;
  int acquired_ = 0;
};

}  // namespace digits
