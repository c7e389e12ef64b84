// SPDX-License-Identifier: Apache-2.0
// Upload copies: an upload that fills whole eviction units leaves their contents in pinned memory, too, from which the
// device gets them. That memory is each unit's first host copy, so a buffer that is only read is never copied out.
// The source itself is never the host copy: it is the program's, which may change it as soon as the upload is over.
#include <algorithm>

#include "offload/engine/engine_state.h"
#include "offload/residency/host_grant.h"

namespace thermocline {

// All live memory may have a host copy at the same time: then no copy out finds the host full because of these.
bool Engine::State::keeps_uploads(OperationInfo::Source source) const {
  const UploadCopies which = options.upload_copies;
  if (which == UploadCopies::kOff || source == OperationInfo::Source::kElsewhere) return false;
  if (which == UploadCopies::kAuto) {
    const bool is_short = pressed || held_block_bytes + external_bytes > budget_bytes;
    if (source == OperationInfo::Source::kInStream || !is_short) return false;
  }
  if (!options.policy->evicts() || residency.has_stopped() || host_mappings.full() || migration.files() != nullptr)
    return false;
  if (options.digests == DigestUse::kAuto && !residency.takes_digests()) return false;
  const bool has_room = held_block_bytes <= granted_under(host_limit_left(), host_mappings.on());
  return has_room && (options.host_ledger == nullptr || held_block_bytes <= host_claim);
}

// Allocators of frameworks round sizes up: of memory that nothing has accessed yet, a sixteenth may remain undefined.
bool Engine::State::fills(const EvictionUnit& unit, AddressRange range) const {
  const Bytes contents = migration.contents_of(unit);
  const Bytes least = unit.defined ? contents : contents - contents / 16;
  return range.at <= unit.begin() && unit.begin() + least <= range.end();
}

bool Engine::State::wants_upload_copy(AddressRange range, OperationInfo::Source source) {
  note_cache_changes();
  if (!keeps_uploads(source)) return false;
  const Block* const block = heap.block_at(range.at);
  if (block == nullptr || block->is_slab()) return false;
  return std::ranges::any_of(residency.state_of(*block).units(), [&](const EvictionUnit& unit) {
    return fills(unit, range) && residency.wants_upload_copy(unit);
  });
}

// The program's work in other streams that was submitted before may still write the unit, and does not make the copy a
// stale one. The upload waits for everything else that uses the pages.
bool Engine::State::may_be_written_beside(const EvictionUnit& unit) {
  const UseSet& uses = unit.whole->block->uses;
  return !uses.is_of_none_but(stream) && !clock.passed(uses);
}

// The operation has been prepared: every unit that it names has its pages.
void Engine::State::begin_upload_copies() {
  if (given.size() != 1 || given[0].bytes == 0 || !info.overwrites || !keeps_uploads(info.source)) return;
  // A digest in a blocked stream's wake would hold up all later ones.
  if (clock.is_behind_blocked(stream)) return;
  const AddressRange range{given[0].address, given[0].bytes};
  for (BlockState* const state : operands) {
    if (state->whole || state->block->is_slab()) continue;
    for (EvictionUnit& unit : state->units()) {
      if (!fills(unit, range) || !residency.wants_upload_copy(unit) || may_be_written_beside(unit)) continue;
      void* const host_memory = migration.host_for_upload(unit);
      if (host_memory == nullptr) {
        ++counters.failed_upload_copies;
        return;
      }
      const Bytes bytes = std::min(migration.contents_of(unit), range.end() - unit.begin());
      uploads.push_back({host_memory, unit.begin() - range.at, bytes});
      uploaded.push_back(&unit);
    }
  }
}

void Engine::State::keep_upload_copies(Use use) {
  for (std::size_t i = 0; i < uploads.size(); ++i)
    residency.keep_upload(*uploaded[i], uploads[i].host, uploads[i].bytes, use,
                          info.source == OperationInfo::Source::kAtOnce);
  uploads.clear();
  uploaded.clear();
}

void Engine::State::forget_upload_copies() {
  if (uploads.empty()) return;
  const Use use{stream, clock.advance(stream)};
  UseSet uses;
  uses.add(use);
  for (EvictionUnit* const unit : uploaded) unit->uses.add(use);
  for (const UploadCopy& upload : uploads) migration.give_back(upload.host, uses);
  uploads.clear();
  uploaded.clear();
}

}  // namespace thermocline
