// SPDX-License-Identifier: Apache-2.0
// Files that processes of one user share for accounting (host_ledger.h, offload/sharing/lease_file.h). A process holds
// a record lock (fcntl(2)) on a byte of the file as long as it lives; the kernel releases it when the process ends,
// however it ends.
#pragma once

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace thermocline {

// Opens `name` in `folder`, and creates it if needed; -1: `why` has the reason. In a folder where everybody may write,
// another user may have taken the name for good. Then all processes of this user find the file in `other_folder`, if
// only this user can write there ("": none).
int open_ledger_file(const std::string& folder, const std::string& other_folder, const std::string& name,
                     std::string* why);

// Gives the file `bytes` and, where it is new, `magic` as its first word. Allocates the memory now, so that a full file
// system is noticed here. Two processes may do it at once. False: `why` has the reason.
bool prepare_ledger_file(int file, std::size_t bytes, std::uint64_t magic, std::string* why);

// For fcntl: sets (F_WRLCK) or removes (F_UNLCK) the lock of the byte at `at`.
struct flock byte_lock(short type, off_t at);
// True while another process holds the lock of that byte, or if that cannot be found out.
bool is_byte_locked(int file, off_t at);

}  // namespace thermocline
