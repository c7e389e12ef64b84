// SPDX-License-Identifier: Apache-2.0
#include "offload/engine/report.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "driver/page_size.h"
#include "driver/quantity.h"
#include "offload/engine/report_amounts.h"
#include "offload/page_bytes.h"
#include "offload/residency/host_grant.h"
#include "offload/spill/disk_file.h"

namespace thermocline {
namespace {

constexpr std::size_t kHoldersShown = 6, kOperandsShown = 6, kReasonsShown = 3;
// The cost of whole pages is mentioned if it is at least this share (a tenth).
constexpr Bytes kWorthSaying = 10;
// In larger pages small buffers may take this much more than now, if they fill their pages now.
constexpr Bytes kPartOfSlabs = 8;

[[gnu::format(printf, 2, 3)]] void append(std::string* text, const char* format, ...) {
  std::array<char, 256> line;
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  if (length > 0) text->append(line.data(), std::min(static_cast<std::size_t>(length), line.size() - 1));
}

// The bytes that the engine may hold for buffers.
Bytes limit_of(const RefusalFacts& facts) {
  return facts.now.budget_bytes - std::min(facts.now.external_bytes, facts.now.budget_bytes);
}

// The largest block that fits into the free addresses: a filled block is followed by a guard page.
Bytes most_addresses(const RefusalFacts& facts) {
  const Bytes guard = facts.wanted == facts.wanted_pages ? facts.page_bytes : 0;
  return facts.largest_addresses - std::min(facts.largest_addresses, guard);
}

void advise(std::string* text, const std::string& what) { *text += "  do     " + what + "\n"; }

// A larger budget has larger pages, unless a setting says otherwise. In these each block may take up to a page more,
// and small buffers that share a page now may lie in several.
Bytes in_pages_of_its_own(const RefusalFacts& facts, Bytes needed, std::uint64_t blocks, std::uint64_t may_part) {
  Bytes budget = needed;
  for (Bytes before = 0; before != budget;) {
    before = budget;
    const Bytes page = page_bytes_for(budget, facts.page_setting, facts.page_bytes), more = page - facts.page_bytes;
    budget = std::max(budget, needed + blocks * more + (more > 0 ? may_part * page : 0));
  }
  return budget;
}

// The bytes needed for everything live and `wanted` at once. If nothing must be evicted, small buffers fill pages.
Bytes needed_for_all(const RefusalFacts& facts, Bytes wanted, std::uint64_t wanted_blocks) {
  const Bytes needed = facts.now.block_bytes + wanted + facts.now.external_bytes;
  const std::uint64_t blocks = facts.blocks - facts.slabs + wanted_blocks;
  Bytes budget = in_pages_of_its_own(facts, needed, blocks, 1);
  if (budget != needed) budget = in_pages_of_its_own(facts, needed + facts.now.slab_bytes / kPartOfSlabs, blocks, 1);
  return budget;
}
Bytes needed_for_all(const RefusalFacts& facts) {
  return needed_for_all(facts, facts.wanted_pages, facts.wanted_blocks);
}
// An amount that is already there is no advice.
void advise_needed(std::string* text, const RefusalFacts& facts, Bytes needed) {
  const Bytes most = facts.device_total, budget = facts.now.budget_bytes;
  if (needed <= budget || needed > most) return;
  advise(text,
         "budget = \"" + setting(needed) + "\" (THERMOCLINE_BUDGET, run --budget); the device has " + amount(most));
}
void advise_budget_for_all(std::string* text, const RefusalFacts& facts) {
  advise_needed(text, facts, needed_for_all(facts));
}
// Advises a budget for an operation or an allocation beside everything that stays.
void advise_budget(std::string* text, const RefusalFacts& facts) {
  const Bytes beside = facts.now.external_bytes + facts.stays;
  const std::uint64_t may_part = facts.small_buffers - std::min(facts.small_buffers, facts.shared_blocks);
  const Bytes needed =
      in_pages_of_its_own(facts, facts.wanted_pages + beside, facts.wanted_blocks + facts.staying_blocks, may_part);
  if (needed <= facts.now.budget_bytes) return advise_needed(text, facts, needed_for_all(facts));
  // The memory that an operation uses is live.
  const Bytes live = facts.one_operation ? needed_for_all(facts, 0, 0) : needed;
  advise_needed(text, facts, live <= facts.now.budget_bytes ? needed : std::min(needed, live));
}

// Larger pages were chosen for speed; a program that fits with small ones should not need more budget or host memory.
void advise_page_bytes_for(std::string* text, const RefusalFacts& facts, Bytes in_smallest_pages, Bytes limit) {
  if (facts.page_bytes <= kDefaultPageBytes || in_smallest_pages > limit) return;
  advise(text, "page_bytes = \"" + setting(kDefaultPageBytes) + "\" (THERMOCLINE_PAGE_BYTES): then it takes " +
                   amount(in_smallest_pages) + "; pages are " + amount(facts.page_bytes) + " now, which is faster");
}
void advise_page_bytes(std::string* text, const RefusalFacts& facts) {
  const Bytes others = std::min(facts.now.budget_bytes, facts.now.external_bytes + facts.stays);
  advise_page_bytes_for(text, facts, facts.in_smallest_pages, facts.now.budget_bytes - others);
}
// The part of the host limit that other devices of the process leave, as far as this one may use it.
Bytes host_limit_left(const RefusalFacts& facts) {
  const Bytes left = facts.now.host_limit_bytes - std::min(facts.now.host_limit_bytes, facts.other_devices);
  return facts.own_host_limit == 0 ? left : std::min(left, facts.own_host_limit);
}
// How much may be live beyond what the budget holds: on the host, and in the spill file if there is one.
Bytes granted_elsewhere(const RefusalFacts& facts) {
  const Bytes on_host = granted_under(host_limit_left(facts), facts.has_host_fallback);
  if (!facts.spills) return on_host;
  return std::max(on_host, granted_with_file(host_limit_left(facts), facts.now.spill_limit_bytes, facts.largest_unit));
}
// For everything live, and the wanted bytes.
void advise_page_bytes_for_all(std::string* text, const RefusalFacts& facts) {
  const Bytes wanted = facts.one_operation ? 0 : facts.in_smallest_pages;
  const Bytes host = facts.evicts ? granted_elsewhere(facts) : 0;
  advise_page_bytes_for(text, facts, facts.live_in_smallest_pages + wanted, std::max(limit_of(facts), host));
}
// The smallest limit of a file that would hold what the host cannot.
Bytes needed_file(const RefusalFacts& facts) {
  const Bytes in_file =
      needed_in_file(facts.now.block_bytes + facts.wanted_pages, host_limit_left(facts), facts.largest_unit);
  return file_limit_that_grants(in_file, facts.largest_unit);
}
void advise_spill(std::string* text, const RefusalFacts& facts) {
  // The setting's default leaves a part of the disk to others.
  const Bytes free = (needed_file(facts) * kKeptFreeOnDisk + kKeptFreeOnDisk - 2) / (kKeptFreeOnDisk - 1);
  if (facts.spills || facts.has_full_fallback || free == 0) return;
  // With files, other devices leave what copies need to pass through.
  const Bytes with_files = limit_beside_other_files(facts.now.host_limit_bytes, facts.devices);
  if (with_files < least_host_for_spill(facts.largest_unit)) return;
  advise(text,
         "host_spill = \"FOLDER\" (THERMOCLINE_HOST_SPILL), for what the host does not hold: a folder of a local disk "
         "with " +
             setting(free) + " free; slower than host memory");
}
std::string of_other_devices(const RefusalFacts& facts) {
  return facts.other_devices == 0 ? "" : ", of which other devices of the process hold " + amount(facts.other_devices);
}
// The part of a limit shared by processes that others have: these, and other devices of this process.
Bytes others_share(const RefusalFacts& facts) { return facts.other_processes_shared + facts.other_devices_shared; }
// Beside a file, copies only pass through host memory.
bool lacks_shared_room(const RefusalFacts& facts) {
  const Bytes shared = facts.now.host_shared_limit_bytes;
  return shared != 0 && others_share(facts) + least_host_for_spill(facts.largest_unit) > shared;
}
void advise_shared_limit(std::string* text, const RefusalFacts& facts) {
  const EngineStatistics& now = facts.now;
  const Bytes all = std::max(limit_that_grants(now.block_bytes + facts.wanted_pages, facts.has_host_fallback),
                             now.host_bytes + facts.host_refused);
  const Bytes needed = facts.spills && lacks_shared_room(facts) ? least_host_for_spill(facts.largest_unit) : all;
  const std::string of_devices =
      facts.other_devices_shared == 0 ? "" : ", and other devices of this one " + amount(facts.other_devices_shared);
  advise(text, "host_limit_shared = \"" + setting(needed + others_share(facts)) +
                   "\" (THERMOCLINE_HOST_LIMIT_SHARED); it is " + amount(now.host_shared_limit_bytes) +
                   " for all processes, and others hold " + amount(facts.other_processes_shared) + of_devices);
}
// The smallest host_limit under which copies can pass through to the file.
Bytes limit_with_file(const RefusalFacts& facts) {
  return limit_that_leaves(least_host_for_spill(facts.largest_unit), facts.devices, facts.other_devices);
}
std::string shares_of_devices(const RefusalFacts& facts) {
  if (facts.own_host_limit == 0 || facts.own_host_limit >= least_host_for_spill(facts.largest_unit)) return "";
  return ", of which each of " + quantity(facts.devices, "device") + " may use " + amount(facts.own_host_limit);
}
void advise_spill_limit(std::string* text, const RefusalFacts& facts) {
  const Bytes least = least_host_for_spill(facts.largest_unit);
  if (host_limit_left(facts) < least) {
    advise(text, "host_limit = \"" + setting(limit_with_file(facts)) +
                     "\" (THERMOCLINE_HOST_LIMIT), through which copies pass on their way to the "
                     "spill file; it is " +
                     amount(facts.now.host_limit_bytes) + of_other_devices(facts) + shares_of_devices(facts));
  }
  const Bytes needed = needed_file(facts);
  if (needed > facts.now.spill_limit_bytes) {
    advise(text, "host_spill_limit = \"" + setting(needed) +
                     "\" (THERMOCLINE_HOST_SPILL_LIMIT), or a folder of a larger disk; it is " +
                     amount(facts.now.spill_limit_bytes));
  } else if (lacks_shared_room(facts)) {
    advise_shared_limit(text, facts);
  } else if (host_limit_left(facts) >= least) {
    advise(text, "make room on the disk of host_spill: " + setting(needed) +
                     " in all are needed there, and it says that it is full");
  }
}
void advise_host_limit(std::string* text, const RefusalFacts& facts) {
  const Bytes needed = limit_that_grants(facts.now.block_bytes + facts.wanted_pages, facts.has_host_fallback);
  const Bytes kept = host_limit_left(facts) - granted_under(host_limit_left(facts), facts.has_host_fallback);
  const Bytes for_this = std::max(needed, facts.now.host_live_bytes + facts.host_refused);
  advise(text, "host_limit = \"" + setting(for_this + facts.other_devices) +
                   "\" (THERMOCLINE_HOST_LIMIT) for this one; it is " + amount(facts.now.host_limit_bytes) +
                   of_other_devices(facts) +
                   (kept > 0 ? ", of which " + amount(kept) + " are left for gaps between copies" : "") +
                   ", and live buffers take " + amount(facts.now.block_bytes) + " in whole pages");
  if (kept == 0 || limit_that_grants(facts.now.block_bytes + facts.wanted_pages, false) > host_limit_left(facts))
    return;
  advise(text,
         "or host_fallback = \"off\" (THERMOCLINE_HOST_FALLBACK), which needs no gaps: then a kernel that follows a "
         "pointer that the library does not see to an evicted buffer fails");
}
// With a full fallback, blocks reached only through stored addresses may be used at their host copies, if the blocks
// that the operation names take seven eighths of the budget (Engine::State::leave_out_what_is_mapped).
void advise_full_fallback(std::string* text, const RefusalFacts& facts) {
  if (facts.followed == 0 || !facts.has_host_fallback || facts.has_full_fallback || !facts.evicts) return;
  const Bytes named = facts.wanted_pages - std::min(facts.followed, facts.wanted_pages);
  if (named + facts.now.external_bytes + facts.stays > facts.now.budget_bytes / 8 * 7) return;
  advise(text,
         "or host_fallback = \"full\" (THERMOCLINE_HOST_FALLBACK): what only stored addresses lead to is then used in "
         "host memory where it does not fit, slowly");
}
void advise_policy(std::string* text, const RefusalFacts& facts) {
  advise(text, "policy = \"learned\" (THERMOCLINE_POLICY): of " + amount(facts.now.block_bytes) + " that are live, " +
                   amount(facts.now.block_bytes - std::min(facts.now.block_bytes, facts.now.pinned_bytes)) +
                   " may then leave the device");
}

// Which of the operation's blocks it was not given itself; and for which buffers most of the pages are needed.
std::string of_these(const RefusalFacts& facts) {
  std::string text;
  if (facts.followed_blocks != 0)
    text = "; of these " + amount(facts.followed) + " because of addresses stored in memory that it can reach";
  if (facts.small_bytes >= facts.shared_bytes || facts.shared_bytes < facts.wanted_pages / 2) return text;
  return text + "; " + amount(facts.small_bytes) + " of operands lie in " +
         quantity(facts.shared_blocks, "shared page") + " of " + amount(facts.page_bytes) + " (" +
         amount(facts.shared_bytes) + ")";
}

// "5.20 GiB read + 1.00 GiB written + 512.0 MiB"
std::string sum_of(const std::vector<RefusalFacts::Operand>& operands) {
  std::string text;
  Bytes rest = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (i >= kOperandsShown) {
      rest += operands[i].bytes;
      continue;
    }
    text += (i == 0 ? "" : " + ") + amount(operands[i].bytes);
    if (*operands[i].direction != '\0') text += std::string(" ") + operands[i].direction;
  }
  if (rest > 0) text += " + " + amount(rest) + " in " + std::to_string(operands.size() - kOperandsShown) + " more";
  return text;
}

// The operands, without blocks reached only through stored addresses (append_reason).
void append_operands(std::string* text, const RefusalFacts& facts) {
  std::string line;
  Bytes bytes = 0, in_pages = 0;
  for (const RefusalFacts::Operand& operand : facts.operands) {
    bytes += operand.bytes;
    in_pages += operand.in_pages;
  }
  if (facts.operands.size() == 1) line = "one buffer of " + sum_of(facts.operands);
  if (facts.operands.size() > 1)
    line = std::to_string(facts.operands.size()) + " buffers together: " + sum_of(facts.operands);
  if (in_pages / kWorthSaying > bytes / (kWorthSaying - 1))
    line += " (" + amount(in_pages) + " in whole pages of " + amount(facts.page_bytes) + ")";
  const auto add = [&line](const std::string& more) { line += (line.empty() ? "" : ", and ") + more; };
  if (facts.small_buffers == 1) add("a small buffer of " + amount(facts.small_bytes));
  if (facts.small_buffers > 1)
    add(std::to_string(facts.small_buffers) + " small buffers of " + amount(facts.small_bytes) + " in all");
  if (facts.allocates > 0) add(amount(facts.allocates) + " that it allocates itself");
  if (!line.empty()) *text += "  uses   " + line + "\n";
}

// ": a CUDA graph names it (6.0 MiB), ..."
std::string reasons_of(const std::vector<RefusalFacts::Holder>& pins) {
  std::string text;
  for (std::size_t i = 0; i < std::min(pins.size(), kReasonsShown); ++i)
    text += (i == 0 ? ": " : ", ") + pins[i].name + " (" + amount(pins[i].bytes) + ")";
  return pins.size() > kReasonsShown ? text + ", and other reasons" : text;
}

// The text of causes that need no figures.
const char* plain_reason(Cause cause, const RefusalFacts& facts) {
  const bool has_others = facts.other_devices > 0;
  switch (cause) {
    case Cause::kPolicyNone:
      return "everything is in use, and under policy none nothing may leave the device";
    case Cause::kStopped:
      return "everything is in use, and nothing leaves the device any more, because memory may be used unseen";
    case Cause::kHostLimit:
      return has_others
                 ? "what would have to leave the device has no room on the host beside the process's other devices"
                 : "what would have to leave the device has no room on the host";
    case Cause::kSpillFile:
      if (host_limit_left(facts) < least_host_for_spill(facts.largest_unit))
        return "what would have to leave the device has too little host memory to pass through to the spill file";
      return "what would have to leave the device has no room on the host, and none in the spill file";
    case Cause::kSharedHostLimit:
      return facts.other_devices_shared == 0
                 ? "what would have to leave the device has no room on the host beside other processes"
                 : "what would have to leave the device has no room on the host beside other processes, and other "
                   "devices of this one";
    default:
      return "there was no room, and none could be made";
  }
}

void append_reason(std::string* text, const RefusalFacts& facts, Cause cause) {
  const auto [wanted, budget] = amounts(facts.wanted_pages, facts.now.budget_bytes);
  std::string why;
  switch (cause) {
    case Cause::kLargerThanDevice:
      why = "it needs " + amounts(facts.wanted_pages, facts.device_total).first + " at once, and the device has " +
            amounts(facts.wanted_pages, facts.device_total).second + of_these(facts);
      break;
    case Cause::kLargerThanBudget:
      why = (facts.one_operation && facts.operation.empty() ? "one operation uses " : "it needs ") + wanted +
            " at once, and the budget is " + budget + of_these(facts);
      break;
    case Cause::kOwnMappings:
      why = "the program's own mappings, arrays and graphs hold " + amount(facts.now.external_bytes) +
            " of a budget of " + budget;
      break;
    case Cause::kPinned:
      why = amount(facts.now.pinned_bytes) + " in " + quantity(facts.now.pinned_buffers, "buffer has", "buffers have") +
            " to stay on the device" + reasons_of(facts.pins);
      break;
    case Cause::kSmallStay:
      why = amount(facts.small_stay) + " are in blocks below min_offload_bytes, which stay on the device";
      break;
    case Cause::kAddresses:
      why = "of " + amount(facts.address_bytes) + " of addresses that could be reserved, no more than " +
            amount(facts.largest_addresses) + " are free beside each other";
      break;
    case Cause::kDevice:
      why = "the driver gave no more than " + amount(facts.now.device_bytes) + " of a budget of " + budget +
            ": something else uses the device";
      break;
    case Cause::kFragmentation:
      why = std::to_string(facts.slab_buffers) + " small buffers (" + amount(facts.now.slab_live_bytes) + ") keep " +
            amount(facts.now.slab_bytes) + " of shared pages";
      break;
    case Cause::kWholePages:
      why = amount(facts.now.live_bytes) + " of buffers take " + amount(facts.now.block_bytes) + " in whole pages of " +
            amount(facts.page_bytes) + ", and this one " + amount(facts.wanted_pages) + " more; the budget is " +
            budget;
      break;
    case Cause::kHostRefused:
      why = "the driver refused " + amount(facts.host_refused) + " of pinned host memory, with " +
            amount(facts.now.host_bytes - facts.now.pageable_bytes) + " taken";
      break;
    default:
      why = plain_reason(cause, facts);
  }
  *text += "  why    " + why + "\n";
}

void advise_more_host_memory(std::string* text, const RefusalFacts& facts, Cause cause) {
  advise_page_bytes_for_all(text, facts);
  if (cause == Cause::kHostLimit) {
    advise_host_limit(text, facts);
    advise_spill(text, facts);
  } else {
    advise_shared_limit(text, facts);
  }
  advise_budget_for_all(text, facts);
}

void advise_to_pin_more(std::string* text, const RefusalFacts& facts) {
  advise(text,
         "let the process pin more memory: raise its limit (ulimit -l, memory.max of its control group), or "
         "free some on the machine");
  if (facts.now.host_bytes >= kMiB) {
    advise(text, "host_limit = \"" + std::to_string(facts.now.host_bytes / kMiB) +
                     "MiB\" makes it known in time that there is no more");
  }
  advise_spill(text, facts);
}

void advise_to_hold_less_beside(std::string* text) {
  advise(text,
         "or hold less beside the library: with PyTorch, expandable_segments:False leaves its memory to it; under "
         "shareable = true all of cudaMalloc's memory is the driver's");
}

void advise_device(std::string* text, const RefusalFacts& facts) {
  const Bytes had = facts.now.device_bytes / kMiB;
  const std::string budget =
      had == 0 ? "" : ", or budget = \"" + std::to_string(had) + "MiB\", so that room is made in time";
  advise(text, "end what else uses the device (nvidia-smi lists it)" + budget);
}

void append_advice(std::string* text, const RefusalFacts& facts, Cause cause) {
  switch (cause) {
    case Cause::kLargerThanDevice:
      advise(text, "use less at once: a smaller batch, or the operation in parts");
      break;
    case Cause::kLargerThanBudget:
      advise_page_bytes(text, facts);
      advise_budget(text, facts);
      advise_full_fallback(text, facts);
      advise(text, "or use less at once: a smaller batch, or the operation in parts");
      break;
    case Cause::kOwnMappings:
      advise_budget(text, facts);
      advise_to_hold_less_beside(text);
      break;
    case Cause::kPinned:
      advise(text, facts.pins.empty() ? "pin less" : "release what is pinned, above all: " + facts.pins.front().name);
      advise_budget(text, facts);
      break;
    case Cause::kSmallStay:
      advise(text, "min_offload_bytes = \"" + setting(facts.page_bytes) + "\" (THERMOCLINE_MIN_OFFLOAD_BYTES); it is " +
                       amount(facts.min_offload_bytes));
      advise_budget(text, facts);
      break;
    case Cause::kAddresses:
      advise(text, "let the process have more addresses (ulimit -v unlimited), or reserve fewer in the program");
      break;
    case Cause::kDevice:
      advise_device(text, facts);
      break;
    case Cause::kFragmentation:
      advise_budget_for_all(text, facts);
      advise(text, "or allocate small buffers that live long before those that do not, so that they share pages");
      if (!facts.has_stopped) advise_policy(text, facts);
      break;
    case Cause::kWholePages:
    case Cause::kPolicyNone:
      if (!facts.has_stopped) advise_policy(text, facts);
      advise_page_bytes_for_all(text, facts);
      advise_budget_for_all(text, facts);
      break;
    case Cause::kHostLimit:
    case Cause::kSharedHostLimit:
      advise_more_host_memory(text, facts, cause);
      break;
    case Cause::kSpillFile:
      advise_spill_limit(text, facts);
      advise_budget_for_all(text, facts);
      break;
    case Cause::kHostRefused:
      advise_to_pin_more(text, facts);
      break;
    case Cause::kStopped:
    case Cause::kOther:
      advise_page_bytes_for_all(text, facts);
      advise_budget_for_all(text, facts);
      break;
  }
}

void append_holders(std::string* text, const char* title, const std::vector<RefusalFacts::Holder>& holders) {
  for (std::size_t i = 0; i < std::min(holders.size(), kHoldersShown); ++i) {
    append(text, "  %-10s %12s in %s, %s\n", i == 0 ? title : "", amount(holders[i].bytes).c_str(),
           quantity(holders[i].buffers, "buffer").c_str(), holders[i].name.c_str());
  }
  if (holders.size() > kHoldersShown) append(text, "  %-10s ... and %zu more\n", "", holders.size() - kHoldersShown);
}

// The refused request; with the operation's name if it has one.
void append_first_line(std::string* text, const RefusalFacts& facts) {
  const auto [size, budget] = amounts(facts.wanted, facts.now.budget_bytes);
  *text += "thermocline: out of memory: ";
  if (facts.operation.empty()) {
    *text += std::string(facts.what) + " of " + size;
  } else if (facts.is_its_memory) {
    *text += facts.operation + ": its memory of " + size;
  } else {
    *text += facts.operation + ": " + facts.what + " of " + size;
  }
  append(text, " was refused (%" PRIu64 " bytes; the budget is %s)\n", facts.wanted, budget.c_str());
}

void append_state(std::string* text, const RefusalFacts& facts) {
  const EngineStatistics& now = facts.now;
  append(text, "  budget     %12s; taken %s, of these free %s, held by the program itself %s\n",
         amount(now.budget_bytes).c_str(), amount(now.device_bytes).c_str(), amount(now.free_mapped_bytes).c_str(),
         amount(now.external_bytes).c_str());
  append(text, "  live       %12s in %s, peak %s; not on the device %s\n", amount(now.live_bytes).c_str(),
         quantity(now.live_buffers, "buffer").c_str(), amount(now.peak_live_bytes).c_str(),
         amount(now.nonresident_bytes).c_str());
  append(text, "  host       %12s of pinned memory%s, holding %s; limit %s\n", amount(now.host_bytes).c_str(),
         now.pageable_bytes == 0 ? "" : (", " + amount(now.pageable_bytes) + " of it pageable").c_str(),
         amount(now.host_live_bytes).c_str(),
         now.host_limit_bytes == 0 ? "none" : amount(now.host_limit_bytes).c_str());
  if (facts.spills) {
    append(text, "  file       %12s in the spill file; limit %s; found full %s\n", amount(now.spilled_bytes).c_str(),
           amount(now.spill_limit_bytes).c_str(), quantity(now.spill_full, "time").c_str());
  }
  append(text, "  shared     %12s of pages, small buffers use %s, the largest hole is %s\n",
         amount(now.slab_bytes).c_str(), amount(now.slab_live_bytes).c_str(), amount(facts.largest_hole).c_str());
}

}  // namespace

Cause cause_of(const RefusalFacts& facts) {
  const Bytes limit = limit_of(facts), wanted = facts.wanted_pages;
  if (wanted > facts.device_total) return Cause::kLargerThanDevice;
  if (wanted > facts.now.budget_bytes) return Cause::kLargerThanBudget;
  if (wanted > limit) return Cause::kOwnMappings;
  const Bytes pinned = facts.stays - std::min(facts.stays, facts.small_stay);
  if (pinned + wanted > limit) return Cause::kPinned;
  if (facts.evicts && facts.stays + wanted > limit) return Cause::kSmallStay;
  if (!facts.one_operation && most_addresses(facts) < wanted) return Cause::kAddresses;
  if (facts.free_pages >= wanted) return Cause::kDevice;
  if (!facts.evicts) {
    const Bytes holes = facts.now.slab_bytes - std::min(facts.now.slab_bytes, facts.now.slab_live_bytes);
    if (facts.now.block_bytes - std::min(facts.now.block_bytes, holes) + wanted <= limit) return Cause::kFragmentation;
    if (facts.now.live_bytes - facts.now.external_bytes + facts.wanted <= limit) return Cause::kWholePages;
    return facts.has_stopped ? Cause::kStopped : Cause::kPolicyNone;
  }
  const Bytes host_limit = host_limit_left(facts);
  const Bytes granted = granted_under(host_limit, facts.has_host_fallback);
  const bool over_limit =
      facts.now.host_limit_bytes != 0 && (facts.now.block_bytes + wanted > std::max(limit, granted) ||
                                          facts.now.host_live_bytes + facts.host_refused > host_limit);
  if (over_limit) return facts.spills ? Cause::kSpillFile : Cause::kHostLimit;
  const Bytes shared = facts.now.host_shared_limit_bytes, live = facts.now.block_bytes + wanted;
  const Bytes in_shared =
      live > limit ? limit_that_grants(live, facts.has_host_fallback) : facts.now.host_bytes + facts.host_refused;
  if (shared != 0 && others_share(facts) + in_shared > shared) return Cause::kSharedHostLimit;
  if (facts.host_refused > 0) return Cause::kHostRefused;
  return Cause::kOther;
}

Bytes would_have_fitted(const RefusalFacts& facts) {
  const Bytes limit = limit_of(facts);
  if (!facts.evicts) return std::min(facts.free_pages, most_addresses(facts));
  const Bytes device = std::min(limit - std::min(limit, facts.stays), most_addresses(facts));
  const Bytes shared = facts.now.host_shared_limit_bytes;
  const bool is_limited = facts.now.host_limit_bytes != 0;
  Bytes host_limit = granted_elsewhere(facts);
  if (shared != 0) {
    const Bytes left = granted_under(shared - std::min(shared, others_share(facts)), facts.has_host_fallback);
    host_limit = is_limited ? std::min(host_limit, left) : left;
  }
  if (!is_limited && shared == 0) return round_down(device, facts.page_bytes);
  const Bytes both = std::max(limit, host_limit);
  return round_down(std::min(device, both - std::min(both, facts.now.block_bytes)), facts.page_bytes);
}

std::string out_of_memory_report(const RefusalFacts& facts) {
  std::string text;
  append_first_line(&text, facts);
  const Cause cause = cause_of(facts);
  append_reason(&text, facts, cause);
  append_operands(&text, facts);
  append_advice(&text, facts, cause);
  append(&text, "  fits   at most %s at once, as it stands\n",
         amount(std::max(would_have_fitted(facts), facts.largest_hole)).c_str());
  append_state(&text, facts);
  append_holders(&text, "pinned", facts.pins);
  append_holders(&text, "by stream", facts.streams);
  std::vector<RefusalFacts::Holder> sizes;
  for (unsigned i = SizeClass::kCount; i-- > 0;) {
    const SizeClass& size_class = facts.now.size_classes[i];
    if (size_class.buffers == 0) continue;
    const bool last = i + 1 == SizeClass::kCount;
    sizes.push_back({last ? "above " + amount(SizeClass::largest(i - 1)) : "up to " + amount(SizeClass::largest(i)),
                     size_class.live_bytes, size_class.buffers});
  }
  append_holders(&text, "by size", sizes);
  for (const RefusalFacts::LargeBlock& block : facts.largest) {
    append(&text, "  %-10s %12s at 0x%" PRIx64 ", %s%s\n", &block == facts.largest.data() ? "largest" : "",
           amount(block.live).c_str(), block.at.value, block.on_device ? "on the device" : "not on the device",
           block.buffers == 1 ? "" : ", shared");
  }
  return text;
}

void write_report(const std::string& report) {
  for (std::size_t done = 0; done < report.size();) {
    const ssize_t n = ::write(STDERR_FILENO, report.data() + done, report.size() - done);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace thermocline
