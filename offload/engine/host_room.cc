// SPDX-License-Identifier: Apache-2.0
// Whether host memory, and the spill file, can hold the memory that has to be evicted.
#include <algorithm>

#include "offload/engine/engine_state.h"
#include "offload/residency/host_grant.h"

namespace thermocline {

// Whether all live memory may be granted. Claims the part that other processes could take in the meantime, in whole
// steps if possible.
bool Engine::State::host_holds(Bytes live, Bytes limit, const Block& block) {
  note_unit_of(block);
  if (live <= limit) return true;
  if (options.host_limit_bytes == 0 || live <= granted_under(options.host_limit_bytes, host_mappings.on())) {
    if (options.host_ledger == nullptr || live <= host_claim) return true;
    for (const Bytes claim : {round_up(live, kHostStepBytes), live}) {
      if (!host.claim(claim)) continue;
      host_claim = claim;
      return true;
    }
  }
  return file_holds(live);
}

// Claims as much of a limit shared by processes as copies need for passing through.
bool Engine::State::file_holds(Bytes live) {
  FileCopies* const files = migration.files();
  if (files == nullptr) return false;
  const Bytes least = least_host_for_spill(largest_unit);
  Bytes on_host = options.host_limit_bytes == 0 ? ~Bytes{0} : options.host_limit_bytes;
  if (options.host_ledger != nullptr) {
    if (host_claim < least && host.claim(least)) host_claim = least;
    on_host = std::min(on_host, host_claim);
  }
  const Bytes in_file = needed_in_file(live, on_host, largest_unit);
  return on_host >= least && in_file <= granted_in_file(files->limit(), largest_unit) &&
         files->reserve(file_limit_that_grants(in_file, largest_unit));
}

void Engine::State::lower_host_claim() {
  const Bytes needed = held_block_bytes > budget_bytes - external_bytes ? held_block_bytes : 0;
  if (needed < host_claim && host.claim(needed)) host_claim = needed;
}

}  // namespace thermocline
