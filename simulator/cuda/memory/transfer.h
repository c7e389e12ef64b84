// SPDX-License-Identifier: Apache-2.0
// Copies and sets in the form that the driver API's many functions share: two ends, a shape, a stream, and who waits
// for whom.
#pragma once

#include "simulator/cuda/memory/memory_kinds.h"

namespace simulator::cuda {

// The kind of memory that a function's name says about an end; kUnified: the address decides.
enum class Side { kHost, kDevice, kUnified };

struct End {
  Side side = Side::kUnified;
  Address at = 0;
  Shape shape;
  std::optional<DeviceId> as = std::nullopt;  // the device that the caller names for it
};

// kReadsAtOnce, kReadsAnyTime: the source may be read before its turn in the stream: until the call returns, or at any
// time. If the source is on the device, the simulator reads it early.
enum class Blocking { kNo, kYes, kReadsAtOnce, kReadsAnyTime };
Blocking blocking_of(CUmemcpySrcAccessOrder order);

// Both shapes must have the same width, height and depth. Copies of size 0 do nothing.
//
// With Blocking::kNo the host waits only where CUDA does: for copies to pageable memory. A pageable source is read
// before the call returns. With kYes the host waits as CUDA documents: for the copy; but not between device addresses,
// and from a pageable source to a device only until the stream has reached the copy.
CUresult transfer(Call& call, const End& to, const End& from, CUstream stream, Blocking blocking);

// Makes only the operations, for graphs; a source is read when its node runs.
CUresult make_copy(Machine& machine, const End& to, const End& from, Copy* out);
CUresult make_set(Machine& machine, Address to, const Shape& shape, std::uint64_t value, std::uint32_t element,
                  Set* out);
// The ends as the structure describes them; its sizes must not be 0.
CUresult ends_of(const CUDA_MEMCPY3D& copy, End* to, End* from);

// The device of a context that a call names for an end of a copy; none if it names no context.
CUresult device_of(Call& call, CUcontext context, std::optional<DeviceId>* out);

CUresult fill(Call& call, Address to, const Shape& shape, std::uint64_t value, std::uint32_t element, CUstream stream,
              Blocking blocking);

}  // namespace simulator::cuda
