// SPDX-License-Identifier: Apache-2.0
// The out-of-memory report: why, what to change, what would have fitted, and who holds what. Plain text, one page, most
// useful first. It is made when a request is refused, from everything that is live; before that it costs nothing.
#pragma once

#include <string>
#include <vector>

#include "allocator/size_class.h"
#include "driver/units.h"
#include "offload/options.h"
#include "offload/statistics.h"

namespace thermocline {

// In the order in which they are tested: the first that applies is the reason.
enum class Cause : std::uint8_t {
  kLargerThanDevice,  // no budget on this device is enough
  kLargerThanBudget,  // one allocation, or all that one operation uses, is larger than the budget
  kOwnMappings,       // it would fit without memory that the program maps itself
  kPinned,            // it would fit without what has to stay on the device
  kSmallStay,         // ... and without blocks that are too small to leave
  kAddresses,         // no piece of free addresses is large enough
  kDevice,            // the budget has room, the driver has not: others use the device
  kFragmentation,     // nothing may be evicted, and free space lies between live buffers in shared pages
  kWholePages,        // nothing may be evicted, and buffers of odd sizes fill up their pages
  kPolicyNone,        // nothing may be evicted (policy "none")
  kStopped,           // ... any more
  kHostLimit,         // the memory that would have to be evicted has no room under the host limit
  kSpillFile,         // ... nor in the spill file
  kSharedHostLimit,   // ... or under the one that processes share
  kHostRefused,       // the driver refused pinned host memory under the limit
  kOther,
};

// The state when a request is refused, in bytes. Pages: the sizes of blocks, wherever their contents are.
struct RefusalFacts {
  const char* what = "";  // "an allocation", ...
  bool one_operation = false;
  std::string operation;       // its name (operation_name.h); "": not known
  bool is_its_memory = false;  // the refused memory is what the operation accesses itself
  Bytes wanted = 0;            // the requested size; of an operation: its blocks
  Bytes wanted_pages = 0;      // in whole pages
  std::uint64_t wanted_blocks = 1;
  std::uint64_t followed_blocks = 0;  // of these: reached only through addresses stored in memory
  Bytes followed = 0;
  std::uint64_t shared_blocks = 0;  // of these: blocks of small buffers
  Bytes shared_bytes = 0;
  std::uint64_t small_buffers = 0;  // the operation's buffers in them
  Bytes small_bytes = 0;
  Bytes allocates = 0;  // beside its accesses: the memory of a graph's allocation nodes
  // The operation's other buffers, largest first, without the followed ones; none if it may access everything. `bytes`:
  // the sizes that the program asked for, or the eviction units that its ranges lie in. `direction`: "read", "written",
  // or "" if not known.
  struct Operand {
    Bytes bytes = 0, in_pages = 0;
    const char* direction = "";
  };
  std::vector<Operand> operands;
  Bytes page_bytes = 0;
  Bytes page_setting = 0;            // 0: chosen by the budget (page_bytes.h)
  Bytes in_smallest_pages = 0;       // `wanted`, if pages were as small as the device allows
  Bytes live_in_smallest_pages = 0;  // the same of all live blocks
  std::uint64_t blocks = 0;          // live
  Bytes device_total = 0;            // memory of the device
  bool evicts = false;               // the policy evicts, and has not stopped
  bool has_stopped = false;          // memory may be used unseen (EngineOptions::evict_no_more)
  Bytes min_offload_bytes = 0;
  EngineStatistics now;
  Bytes small_stay = 0;              // blocks below min_offload_bytes, pinned ones apart
  Bytes stays = 0;                   // both, less what the refused operation uses itself
  std::uint64_t staying_blocks = 0;  // of both
  Bytes free_pages = 0;              // under the budget, and behind no live block
  bool has_host_fallback = false;    // copies on the host take whole pages (host_grant.h)
  bool has_full_fallback = false;    // and what does not fit may be used there; a spill file is not used beside it
  bool spills = false;               // there is a spill file
  Bytes largest_unit = 0;            // the largest eviction unit, including the wanted memory (host_grant.h)
  Bytes other_devices = 0;           // of the host limit, held by other devices of the process
  Bytes own_host_limit = 0;          // of it, what this device may use; 0: all
  Bytes devices = 1;                 // that may use it
  // Parts of the limit that processes share.
  Bytes other_processes_shared = 0, other_devices_shared = 0;
  Bytes host_refused = 0;  // the last piece of pinned host memory that could not be had; 0: it could
  Bytes largest_hole = 0;  // in pages that small buffers share
  Bytes address_bytes = 0, largest_addresses = 0;  // all addresses of the pool, and the largest free piece
  std::uint64_t slabs = 0, slab_buffers = 0;

  struct Holder {
    std::string name;
    Bytes bytes = 0;
    std::uint64_t buffers = 0;
  };
  std::vector<Holder> pins;     // by reason
  std::vector<Holder> streams;  // by stream
  struct LargeBlock {
    DeviceAddress at;
    Bytes live = 0;
    std::uint32_t buffers = 0;
    bool on_device = false;
  };
  std::vector<LargeBlock> largest;  // a few, in order of size
};

Cause cause_of(const RefusalFacts& facts);
// The largest allocation, in whole pages, that the engine would grant now and one operation could use.
Bytes would_have_fitted(const RefusalFacts& facts);
std::string out_of_memory_report(const RefusalFacts& facts);

// The default handler: stderr, whole, without stdio's buffers.
void write_report(const std::string& report);

}  // namespace thermocline
