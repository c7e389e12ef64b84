// SPDX-License-Identifier: Apache-2.0
// The engine's statistics, collected from its parts.
#include <algorithm>

#include "allocator/host_ledger.h"
#include "offload/engine/engine_state.h"

namespace thermocline {

EngineStatistics Engine::State::collect() const {
  EngineStatistics all = counters;
  const HeapStatistics h = heap.statistics();
  all.budget_bytes = budget_bytes;
  all.size_classes = h.classes;
  const CacheTotals cached = caches.totals([&all](const Buffer& buffer) {
    SizeClass& size_class = all.size_classes[SizeClass::of(buffer.requested())];
    size_class.live_bytes -= buffer.requested();
    --size_class.buffers;
  });
  for (const Buffer* one : detained) {
    SizeClass& size_class = all.size_classes[SizeClass::of(one->requested())];
    size_class.live_bytes -= one->requested();
    --size_class.buffers;
  }
  const Bytes live = h.live_bytes - cached.cached_bytes - detained_bytes;
  all.live_bytes = live + external_bytes;
  all.live_buffers = h.buffers - cached.cached_buffers - detained.size();
  all.allocations += cached.takes;
  all.frees += cached.puts;
  all.allocated_bytes += cached.taken_bytes;
  all.freed_bytes = all.allocated_bytes - all.live_bytes;
  all.block_bytes = held_block_bytes - cached.cached_block_bytes - detained_block_bytes;
  all.pinned_bytes = pinned_block_bytes;
  all.references = references.runs();
  all.pointer_probes = looks.looks();
  all.pointer_writing_kernels = looks.kernels();
  // Cached buffers are on the device, or evicted: evicted ones count for nobody.
  const Bytes on_device = std::min(residency.resident_bytes(), held_block_bytes);
  all.nonresident_bytes = std::min(held_block_bytes - on_device, all.block_bytes);
  all.asleep_bytes = residency.asleep_bytes();
  all.free_mapped_bytes = h.free_mapped_bytes;
  all.slab_bytes = h.slab_bytes;
  all.slab_live_bytes = h.slab_live_bytes;
  all.available_bytes = heap.free_bytes() + cached.cached_block_bytes;
  all.created_bytes = h.creates * heap.page_bytes();
  all.destroyed_bytes = h.destroys * heap.page_bytes();
  all.device_bytes = h.created_bytes + external_bytes;
  all.peak_device_bytes = std::max({counters.peak_device_bytes, h.peak_created_bytes, all.device_bytes});
  collect_host(&all);
  all.external_bytes = external_bytes;
  collect_movements(&all);
  all.creates = h.creates;
  all.maps = h.maps;
  all.unmaps = h.unmaps;
  all.host_waits = clock.host_waits();
  return all;
}

void Engine::State::collect_host(EngineStatistics* all) const {
  // The setting's; a device with a spill file may use less of it.
  all->host_limit_bytes = options.host_account != nullptr ? options.host_account->limit() : options.host_limit_bytes;
  all->host_bytes = host.taken_bytes();
  all->peak_host_bytes = host.peak_taken_bytes();
  all->pageable_bytes = host.pageable_bytes();
  all->peak_pageable_bytes = host.peak_pageable_bytes();
  all->host_live_bytes = host.live_bytes();
  all->host_taken_bytes = host.ever_taken_bytes();
  all->host_given_bytes = all->host_taken_bytes - all->host_bytes;
  if (const FileCopies* const files = migration.files(); files != nullptr) {
    all->spill_limit_bytes = files->limit();
    all->spilled_bytes = files->taken_bytes();
    all->spill_written_bytes = files->statistics().written_bytes;
    all->spill_read_bytes = files->statistics().read_bytes;
    all->spill_full = files->statistics().full;
    all->failed_spill_writes = files->statistics().failed_writes;
    all->failed_spill_reads = files->statistics().failed_reads;
  }
  if (const HostLedger* ledger = options.host_ledger) {
    all->host_shared_limit_bytes = ledger->limit();
    all->host_shared_bytes = ledger->held_by_all();
    all->host_claimed_bytes = ledger->held();
  }
}

void Engine::State::collect_movements(EngineStatistics* all) const {
  all->evicted_bytes = migration.statistics().evicted_bytes;
  all->restored_bytes = migration.statistics().restored_bytes;
  all->evictions = residency.statistics().evictions;
  all->restores = residency.statistics().restores;
  all->movements = residency.statistics().by_reason;
  all->digests = digests.statistics().taken;
  all->digested_bytes = digests.statistics().bytes;
  all->failed_digests = digests.statistics().failed;
  all->digests_unavailable = digests.why_off().empty() ? 0 : 1;
  if (verification != nullptr) {
    verification->poll();
    const VerificationStatistics& verified = verification->statistics();
    all->rehearsed_launches = verified.rehearsals;
    all->verified_results = verified.verified;
    all->mismatched_results = verified.mismatched;
    all->unverified_results = verified.unverified;
    all->promoted_kernels = verified.promoted;
    all->demoted_kernels = verified.demoted;
  }
  all->unchanged_units = residency.statistics().unchanged;
  all->changed_units = residency.statistics().changed;
  all->uncopied_bytes = residency.statistics().uncopied_bytes;
  all->upload_copies = residency.statistics().upload_copies;
  all->upload_copy_bytes = residency.statistics().upload_copy_bytes;
  all->useless_upload_copies = residency.statistics().useless_upload_copies;
  all->prefetches = residency.statistics().prefetches;
  all->wasted_prefetches = residency.statistics().wasted_prefetches;
  all->fallback_evictions = host_mappings.statistics().mapped;
  all->unmapped_evictions = host_mappings.statistics().unmapped;
  all->unseen_accesses = host_mappings.statistics().unseen;
  const PolicyStatistics decided = policy->statistics();
  all->write_behinds = decided.write_behinds;
  all->plans = decided.plans;
  all->divergences = decided.divergences;
  all->predicted_step_ns = decided.predicted_step_ns;
}

}  // namespace thermocline
