// SPDX-License-Identifier: Apache-2.0
// The file of a lease ledger (lease_ledger.h): the layout of its records, and which of them count. It is only read and
// written with system calls, because if somebody truncates a mapped file, its readers crash.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/sharing/lease_ledger.h"

namespace thermocline {

// The layout in the file, in the machine's byte order. A record that does not match its checksum was read while it was
// being written, or is not a record.
struct StoredLease {
  std::uint64_t lease, claim, minimum, reserve, demand, in_use, active_until_ns, device_bytes;
  std::uint32_t weight;
  std::int32_t pid;
  std::array<char, 48> command;
  std::uint64_t looked_ns, marked_until_ns, slice_begun_ns, slice_until_ns, measured_ns;
  std::uint32_t computed_permille, copied_permille;
  std::uint64_t check;
};
static_assert(sizeof(StoredLease) == 176);

struct LivingLease {
  std::size_t at = 0;
  LeaseRecord record;
  Bytes claim = 0;
};

std::string lease_file_name(const std::string& device);
// Writes the header of a new file. False: the file is of another version, or cannot be written, or the disk is full.
bool prepare_lease_file(int file, std::string* why);

// Reserves a record for as long as this process lives.
std::optional<std::size_t> take_lease_record(int file);
// A lock for entering the ledger, held by one process at a time. Waits only briefly, because its holder may be stopped.
bool lock_entry(int file);
void unlock_entry(int file);

bool write_lease(int file, std::size_t at, const LeaseRecord& record, Bytes claim);
bool erase_lease(int file, std::size_t at);
// The records of living processes; the record `self` counts whatever its lock says. Empty: the file cannot be read, or
// some record cannot be read whole.
std::optional<std::vector<LivingLease>> living_leases(int file, std::size_t self);

}  // namespace thermocline
