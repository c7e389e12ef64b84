// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/launches.h"

#include <cstring>
#include <string>
#include <utility>

#include "hooks/capture/captures.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/interpose/symbols.h"
#include "hooks/runtime/refusals.h"
#include "hooks/runtime/stream_context.h"
#include "offload/engine/operation_name.h"

namespace thermocline {

std::vector<std::uint32_t> places_of(const ParameterLayout& layout) {
  constexpr std::size_t kAlignment = 16;
  std::vector<std::uint32_t> places;
  places.reserve(layout.size());
  std::size_t end = 0;
  for (const ParameterSlot& one : layout) {
    const std::size_t at = (end + kAlignment - 1) / kAlignment * kAlignment;
    places.push_back(static_cast<std::uint32_t>(at));
    end = at + one.bytes;
  }
  return places;
}

std::vector<unsigned char> parameters_of(const ParameterLayout& layout, void* const* parameters) {
  const std::vector<std::uint32_t> places = places_of(layout);
  std::vector<unsigned char> all(layout.empty() ? 0 : places.back() + layout.back().bytes);
  for (std::size_t i = 0; i < layout.size(); ++i) std::memcpy(all.data() + places[i], parameters[i], layout[i].bytes);
  return all;
}

std::uint64_t Launches::add(Launch launch) {
  const MutexLock lock(mutex_);
  all_.push_back(std::move(launch));
  // Engines remember fewer, and half as many again while they need them.
  while (all_.size() > 2 * kRemembered) {
    all_.pop_front();
    first_.fetch_add(1, std::memory_order_release);
  }
  const std::uint64_t id = first_.load(std::memory_order_relaxed) + all_.size() - 1;
  newest_.store(id, std::memory_order_relaxed);
  return id;
}

void Launches::forget_functions() {
  const MutexLock lock(mutex_);
  first_.fetch_add(all_.size(), std::memory_order_release);
  all_.clear();
}

Status Launches::relaunch(std::uint64_t id, StreamHandle stream, std::span<const DeviceAddress> addresses) {
  // A launch into the legacy stream would end what other threads are recording.
  if (stream == StreamHandle{} && captures().any_may_have_begun()) return Status::not_ready();
  Launch launch;
  {
    const MutexLock lock(mutex_);
    const std::uint64_t first = first_.load(std::memory_order_relaxed);
    if (id < first || id - first >= all_.size()) return Status::not_supported();
    launch = all_[id - first];
  }
  const LaunchForm& form = *launch.form;
  for (const LaunchForm::Word& word : form.words) {
    const std::uint64_t address = addresses[word.access].value + word.offset;
    std::memcpy(launch.parameters.data() + word.at, &address, sizeof address);
  }
  std::vector<void*> parameters;
  parameters.reserve(form.parameter_at.size());
  for (const std::uint32_t at : form.parameter_at) parameters.push_back(launch.parameters.data() + at);
  const Inside inside;
  return Status(real<Function::cuLaunchKernel>(form.function, form.grid[0], form.grid[1], form.grid[2], form.block[0],
                                               form.block[1], form.block[2], form.shared_bytes, to_cu(stream),
                                               parameters.data(), static_cast<void**>(nullptr)));
}

namespace {

void keep_line_of(const RerunMismatch& mismatch) {
  const std::string kernel = readable_kernel_name(mismatch.kernel->name());
  if (mismatch.maker != nullptr) {
    keep_line(LogLevel::kWarning, kernel + " had run again for what " + readable_kernel_name(mismatch.maker->name()) +
                                      " made otherwise, and may have been the cause: it never runs again either");
  } else if (mismatch.in_use) {
    keep_line(LogLevel::kError, kernel + " made other contents of a buffer of " + std::to_string(mismatch.bytes) +
                                    " bytes when it ran again: THE RESULTS OF THIS RUN MAY BE WRONG. "
                                    "Run again with recompute = \"off\" (THERMOCLINE_RECOMPUTE=off)");
  } else {
    keep_line(LogLevel::kWarning, kernel +
                                      " gave other results when it was run a second time for comparison: it never runs "
                                      "again, and what it makes is copied. The program's results are not affected");
  }
}

}  // namespace

void Launches::came_out_different(const RerunMismatch& mismatch) noexcept {
  try {
    keep_line_of(mismatch);
  } catch (const std::bad_alloc&) {
    log_line(mismatch.in_use ? LogLevel::kError : LogLevel::kWarning, "%s gave other results when it ran again%s",
             mismatch.kernel->name().c_str(), mismatch.in_use ? ": THE RESULTS OF THIS RUN MAY BE WRONG" : "");
  }
}

Launches& launches() { return process_lifetime<Launches>(); }

}  // namespace thermocline
