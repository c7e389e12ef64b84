// SPDX-License-Identifier: Apache-2.0
#include "hooks/interpose/own_memory.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace thermocline {
namespace {

// EFAULT and EIO: nothing is mapped there. A short read: nothing is mapped after it.
Reading reading_of(ssize_t got, Bytes wanted) {
  if (got >= 0) return static_cast<Bytes>(got) == wanted ? Reading::kRead : Reading::kGone;
  return errno == EFAULT || errno == EIO ? Reading::kGone : Reading::kRefused;
}

}  // namespace

Reading read_through_file(std::uint64_t from, void* to, Bytes bytes) {
  const int file = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (file < 0) return Reading::kRefused;
  const Reading reading = reading_of(pread(file, to, bytes, static_cast<off_t>(from)), bytes);
  close(file);
  return reading;
}

Reading read_own_memory(std::uint64_t from, void* to, Bytes bytes) {
  const iovec local{to, bytes};
  const iovec remote{reinterpret_cast<void*>(from), bytes};
  const Reading reading = reading_of(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), bytes);
  return reading == Reading::kRefused ? read_through_file(from, to, bytes) : reading;
}

}  // namespace thermocline
