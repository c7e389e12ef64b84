// SPDX-License-Identifier: Apache-2.0
// The file of a lease ledger (lease_ledger.h): how records lie in it, and which of them count. It is only ever read and
// written with system calls, because a mapping of a file that somebody truncates ends its reader.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/sharing/lease_ledger.h"

namespace thermocline {

// The layout in the file, in the machine's own byte order. A record that does not match its checksum was read while it was
// written, or is none.
struct StoredLease {
  std::uint64_t lease, claim, minimum, reserve, demand, in_use, active_until_ns, device_bytes;
  std::uint32_t weight;
  std::int32_t pid;
  std::array<char, 48> command;
  std::uint64_t check;
};
static_assert(sizeof(StoredLease) == 128);

struct LivingLease {
  std::size_t at = 0;
  LeaseRecord record;
  Bytes claim = 0;
};

std::string lease_file_name(const std::string& device);
// Writes the head of a new file. False: it is another version's, or the file system is full or can not be written.
bool prepare_lease_file(int file, std::string* why);

// Takes a record for as long as this process lives.
std::optional<std::size_t> take_lease_record(int file);
// Held by at most one process while it enters; not waited for longer than a moment, as its holder may be stopped.
bool lock_entry(int file);
void unlock_entry(int file);

bool write_lease(int file, std::size_t at, const LeaseRecord& record, Bytes claim);
bool erase_lease(int file, std::size_t at);
// Records of living processes; `self` is one whatever its lock says. Nothing: the file can not be read, or some record can not
// be read whole.
std::optional<std::vector<LivingLease>> living_leases(int file, std::size_t self);

}  // namespace thermocline
