// SPDX-License-Identifier: Apache-2.0
#include "examples/digits/uploader.h"

#include <algorithm>

#include "examples/digits/layout.h"

namespace digits {
namespace {

using examples::require;

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  return event;
}

}  // namespace

Uploader::Staging::Staging(int batch, int pixels)
    : host_images(static_cast<std::size_t>(batch) * static_cast<std::size_t>(pixels), "pinned images"),
      host_labels(static_cast<std::size_t>(batch), "pinned labels"),
      images(static_cast<std::size_t>(batch) * static_cast<std::size_t>(pixels), "images"),
      labels(static_cast<std::size_t>(batch), "labels"),
      uploaded(make_event()),
      free(make_event()) {}

Uploader::Staging::~Staging() {
  require(cudaEventDestroy(uploaded), "cudaEventDestroy");
  require(cudaEventDestroy(free), "cudaEventDestroy");
}

Uploader::Uploader(const Images& source, int batch, unsigned seed)
    : source_(source), batch_(batch), shuffle_(source.count(), seed), places_{{batch, kPixels}, {batch, kPixels}} {
  require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

Uploader::~Uploader() {
  require(cudaStreamSynchronize(stream_), "end of uploads");
  require(cudaStreamDestroy(stream_), "cudaStreamDestroy");
}

void Uploader::prepare() {
  Staging& place = places_[prepared_++ % 2];
  // Both events are "done" as long as they have never been recorded.
  require(cudaEventSynchronize(place.uploaded), "wait for an upload");
  for (int i = 0; i < batch_; ++i) {
    const int row = shuffle_.next();
    const float* pixels = source_.pixels.data() + static_cast<std::ptrdiff_t>(row) * kPixels;
    std::copy(pixels, pixels + kPixels, place.host_images.get() + static_cast<std::ptrdiff_t>(i) * kPixels);
    place.host_labels[static_cast<std::size_t>(i)] = source_.labels[static_cast<std::size_t>(row)];
  }
  require(cudaStreamWaitEvent(stream_, place.free, 0), "wait for a batch to be consumed");
  require(cudaMemcpyAsync(place.images.get(), place.host_images.get(), place.images.bytes(), cudaMemcpyHostToDevice,
                          stream_),
          "upload of images");
  require(cudaMemcpyAsync(place.labels.get(), place.host_labels.get(), place.labels.bytes(), cudaMemcpyHostToDevice,
                          stream_),
          "upload of labels");
  require(cudaEventRecord(place.uploaded, stream_), "cudaEventRecord");
}

Batch Uploader::acquire(cudaStream_t compute) {
  const Staging& place = places_[acquired_ % 2];
  require(cudaStreamWaitEvent(compute, place.uploaded, 0), "wait for a batch");
  return {place.images.get(), place.labels.get(), batch_};
}

void Uploader::consumed(cudaStream_t compute) {
  require(cudaEventRecord(places_[acquired_++ % 2].free, compute), "cudaEventRecord");
}

}  // namespace digits
