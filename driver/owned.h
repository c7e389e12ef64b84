// SPDX-License-Identifier: Apache-2.0
// RAII owners of driver objects: each releases its object at the end of its scope. Errors of the release are ignored:
// at that point nobody can act on them (the context may be gone).
#pragma once

#include <utility>

#include "driver/driver.h"
#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

template <class Handle, Status (Driver::*destroy)(Handle) const>
class Owner {
 public:
  Owner() = default;
  Owner(const Driver& driver, Handle handle) : driver_(&driver), handle_(handle) {}
  Owner(Owner&& other) noexcept : driver_(std::exchange(other.driver_, nullptr)), handle_(other.handle_) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owner() {
    if (driver_ != nullptr) static_cast<void>((driver_->*destroy)(handle_));
  }

  Handle get() const { return handle_; }
  explicit operator bool() const { return driver_ != nullptr; }

 private:
  const Driver* driver_ = nullptr;
  Handle handle_{};
};

using StreamOwner = Owner<StreamHandle, &Driver::destroy_stream>;
using EventOwner = Owner<EventHandle, &Driver::destroy_event>;
using ModuleOwner = Owner<ModuleHandle, &Driver::unload_module>;
using HostMemoryOwner = Owner<void*, &Driver::free_host>;

// Owns the addresses of one reservation.
class ReservationOwner {
 public:
  ReservationOwner() = default;
  ReservationOwner(const Driver& driver, DeviceAddress begin, Bytes bytes)
      : driver_(&driver), begin_(begin), bytes_(bytes) {}
  ReservationOwner(ReservationOwner&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)), begin_(other.begin_), bytes_(other.bytes_) {}
  ReservationOwner& operator=(ReservationOwner&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(begin_, other.begin_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ReservationOwner() {
    if (driver_ != nullptr) static_cast<void>(driver_->release(begin_, bytes_));
  }

  DeviceAddress begin() const { return begin_; }
  Bytes bytes() const { return bytes_; }

 private:
  const Driver* driver_ = nullptr;
  DeviceAddress begin_;
  Bytes bytes_ = 0;
};

// While an object of this class lives, the calling thread may create, map and query even though a stream is capturing.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver)
      : driver_(&driver), changed_(driver.exchange_capture_mode(&mode_).ok()) {}
  ~RelaxedCapture() {
    if (changed_) static_cast<void>(driver_->exchange_capture_mode(&mode_));
  }
  bool is_relaxed() const { return changed_; }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver* driver_;
  CaptureMode mode_ = CaptureMode::kRelaxed;
  bool changed_;
};

}  // namespace thermocline
