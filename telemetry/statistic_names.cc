// SPDX-License-Identifier: Apache-2.0
#include "telemetry/statistic_names.h"

#include <array>
#include <cstring>

namespace thermocline {
namespace {

template <std::uint64_t EngineStatistics::*member>
constexpr Statistic row(const char* name, StatisticKind kind, bool is_bytes, const char* help) {
  return {name, kind, is_bytes, help, [](const EngineStatistics& s) { return s.*member; }};
}
template <std::uint64_t EngineStatistics::*member>
constexpr Statistic bytes(const char* name, const char* help) {
  return row<member>(name, StatisticKind::kCurrent, true, help);
}
template <std::uint64_t EngineStatistics::*member>
constexpr Statistic peak(const char* name, const char* help) {
  return row<member>(name, StatisticKind::kPeak, true, help);
}
template <std::uint64_t EngineStatistics::*member>
constexpr Statistic total(const char* name, const char* help) {
  return row<member>(name, StatisticKind::kTotal, true, help);
}
template <std::uint64_t EngineStatistics::*member>
constexpr Statistic calls(const char* name, const char* help) {
  return row<member>(name, StatisticKind::kTotal, false, help);
}
template <unsigned size_class>
constexpr Statistic class_bytes(const char* name, const char* help) {
  return {name, StatisticKind::kCurrent, true, help,
          [](const EngineStatistics& s) { return s.size_classes[size_class].live_bytes; }};
}
template <unsigned size_class>
constexpr Statistic class_buffers(const char* name, const char* help) {
  return {name, StatisticKind::kCurrent, false, help,
          [](const EngineStatistics& s) { return s.size_classes[size_class].buffers; }};
}

template <EvictReason reason>
constexpr Statistic evictions_for(const char* name, const char* help) {
  return {name, StatisticKind::kTotal, false, help,
          [](const EngineStatistics& s) { return s.movements.of(reason).units; }};
}
template <EvictReason reason>
constexpr Statistic evicted_bytes_for(const char* name, const char* help) {
  return {name, StatisticKind::kTotal, true, help,
          [](const EngineStatistics& s) { return s.movements.of(reason).copied_bytes; }};
}
template <FetchReason reason>
constexpr Statistic restores_for(const char* name, const char* help) {
  return {name, StatisticKind::kTotal, false, help,
          [](const EngineStatistics& s) { return s.movements.of(reason).units; }};
}
template <FetchReason reason>
constexpr Statistic restored_bytes_for(const char* name, const char* help) {
  return {name, StatisticKind::kTotal, true, help,
          [](const EngineStatistics& s) { return s.movements.of(reason).copied_bytes; }};
}

using S = EngineStatistics;
using E = EvictReason;
using F = FetchReason;

constexpr std::array kTable = {
    bytes<&S::budget_bytes>("budget_bytes", "Most that may be held on the device."),
    bytes<&S::live_bytes>("live_bytes", "What the program holds, wherever it is."),
    peak<&S::peak_live_bytes>("peak_live_bytes", "The most that the program held."),
    total<&S::allocated_bytes>("allocated_bytes", "Allocated and mapped by the program so far."),
    total<&S::freed_bytes>("freed_bytes", "Given back by the program so far."),
    row<&S::live_buffers>("live_buffers", StatisticKind::kCurrent, false, "Buffers that the program holds."),
    row<&S::peak_live_buffers>("peak_live_buffers", StatisticKind::kPeak, false, "The most buffers that it held."),
    calls<&S::allocations>("allocations", "Allocations so far."),
    calls<&S::frees>("frees", "Frees so far."),
    peak<&S::largest_allocation_bytes>("largest_allocation_bytes", "The largest allocation."),
    bytes<&S::device_bytes>("device_bytes", "Device memory taken for the program, its own mappings included."),
    peak<&S::peak_device_bytes>("peak_device_bytes", "The most device memory taken."),
    total<&S::created_bytes>("created_bytes", "Device memory taken from the driver so far."),
    total<&S::destroyed_bytes>("destroyed_bytes", "Device memory given back to the driver so far."),
    bytes<&S::external_bytes>("external_bytes", "The program's own mappings."),
    bytes<&S::block_bytes>("block_bytes", "Whole pages of live buffers, wherever they are."),
    bytes<&S::nonresident_bytes>("nonresident_bytes", "Of these not on the device: evicted, or not accessed yet."),
    bytes<&S::free_mapped_bytes>("free_mapped_bytes", "Device memory behind free addresses."),
    bytes<&S::slab_bytes>("slab_bytes", "Pages that small buffers share."),
    bytes<&S::slab_live_bytes>("slab_live_bytes", "What of them small buffers asked for."),
    bytes<&S::available_bytes>("available_bytes", "The largest allocation for which nothing has to leave the device."),
    row<&S::pinned_buffers>("pinned_buffers", StatisticKind::kCurrent, false, "Buffers that may not leave the device."),
    bytes<&S::pinned_bytes>("pinned_bytes", "Whole pages of these."),
    bytes<&S::host_limit_bytes>("host_limit_bytes", "Most pinned host memory to take; 0: no limit."),
    bytes<&S::host_bytes>("host_bytes", "Host memory taken for copies: pinned, except for pageable_bytes."),
    peak<&S::peak_host_bytes>("peak_host_bytes", "The most host memory taken for copies."),
    bytes<&S::pageable_bytes>("pageable_bytes", "Of it, what the driver refused to pin: copies there are slower."),
    peak<&S::peak_pageable_bytes>("peak_pageable_bytes", "The most of that."),
    bytes<&S::host_live_bytes>("host_live_bytes", "Of the pinned host memory, what holds copies."),
    total<&S::host_taken_bytes>("host_taken_bytes", "Pinned host memory taken from the driver so far."),
    total<&S::host_given_bytes>("host_given_bytes", "Pinned host memory given back so far."),
    bytes<&S::spill_limit_bytes>("spill_limit_bytes", "Most to have in the spill file; 0: there is none."),
    bytes<&S::spilled_bytes>("spilled_bytes", "Of host copies, what is in the spill file."),
    total<&S::spill_written_bytes>("spill_written_bytes", "Written to the spill file so far."),
    total<&S::spill_read_bytes>("spill_read_bytes", "Read from the spill file so far."),
    calls<&S::spill_full>("spill_full", "Copies that stayed on the host because the spill file or its disk was full."),
    calls<&S::failed_spill_writes>("failed_spill_writes",
                                   "Copies that stayed there because they could not be written."),
    calls<&S::failed_spill_reads>("failed_spill_reads", "Copies that could not be read from the spill file."),
    bytes<&S::host_shared_limit_bytes>("host_shared_limit_bytes", "Most for all processes together; 0: no limit."),
    bytes<&S::host_shared_bytes>("host_shared_bytes", "Of it, what all processes hold or may yet need."),
    bytes<&S::host_claimed_bytes>("host_claimed_bytes", "Of that, what this process holds or may yet need."),
    total<&S::evicted_bytes>("evicted_bytes", "Copied out so far."),
    total<&S::restored_bytes>("restored_bytes", "Copied back in so far."),
    calls<&S::evictions>("evictions", "Eviction units that left the device."),
    calls<&S::restores>("restores", "Eviction units that came back."),
    calls<&S::fallback_evictions>("fallback_evictions",
                                  "Of these, what the host fallback leads to its copy on the host."),
    calls<&S::unmapped_evictions>("unmapped_evictions", "Of these, what led nowhere although the host fallback is on."),
    calls<&S::unseen_accesses>("unseen_accesses",
                               "Eviction units that came back changed: written to by what nobody saw."),
    calls<&S::prefetches>("prefetches", "Eviction units fetched before they were accessed."),
    calls<&S::wasted_prefetches>("wasted_prefetches", "Of these, what left again untouched."),
    calls<&S::write_behinds>("write_behinds", "Copies out that nobody waited for."),
    calls<&S::operations>("operations", "Copies, sets and launches that accessed memory."),
    calls<&S::digests>("digests", "Digests taken, to find out whether buffers have changed."),
    total<&S::digested_bytes>("digested_bytes", "Bytes of these."),
    calls<&S::failed_digests>("failed_digests", "Digests that the driver refused, or that there was no room for."),
    row<&S::digests_unavailable>("digests_unavailable", StatisticKind::kCurrent, false,
                                 "1: the device can not compute digests; what leaves is copied."),
    calls<&S::unchanged_units>("unchanged_units",
                               "Eviction units that were found unchanged since they were copied out."),
    calls<&S::changed_units>("changed_units", "Eviction units that were found changed."),
    total<&S::uncopied_bytes>("uncopied_bytes", "Not copied out, because it was found unchanged."),
    calls<&S::upload_copies>("upload_copies", "Eviction units whose upload left a copy on the host."),
    total<&S::upload_copy_bytes>("upload_copy_bytes", "Bytes of these."),
    calls<&S::failed_upload_copies>("failed_upload_copies", "Uploads for which there was no host memory for a copy."),
    calls<&S::useless_upload_copies>("useless_upload_copies",
                                     "Of these copies, what was overwritten or freed before it had saved a copy out."),
    calls<&S::plans>("plans", "Iterations learned."),
    calls<&S::divergences>("divergences", "Departures from what was learned."),
    calls<&S::creates>("creates", "Pages created."),
    calls<&S::maps>("maps", "Pages mapped."),
    calls<&S::unmaps>("unmaps", "Calls to unmap."),
    calls<&S::host_waits>("host_waits", "Times the host waited for the device."),
    calls<&S::out_of_memory>("out_of_memory", "Allocations and operations that were refused."),
    class_bytes<0>("live_bytes_to_4KiB", "Live buffers of up to 4 KiB."),
    class_bytes<1>("live_bytes_to_64KiB", "Live buffers of up to 64 KiB."),
    class_bytes<2>("live_bytes_to_1MiB", "Live buffers of up to 1 MiB."),
    class_bytes<3>("live_bytes_to_16MiB", "Live buffers of up to 16 MiB."),
    class_bytes<4>("live_bytes_to_256MiB", "Live buffers of up to 256 MiB."),
    class_bytes<5>("live_bytes_above_256MiB", "Larger live buffers."),
    class_buffers<0>("live_buffers_to_4KiB", "Live buffers of up to 4 KiB."),
    class_buffers<1>("live_buffers_to_64KiB", "Live buffers of up to 64 KiB."),
    class_buffers<2>("live_buffers_to_1MiB", "Live buffers of up to 1 MiB."),
    class_buffers<3>("live_buffers_to_16MiB", "Live buffers of up to 16 MiB."),
    class_buffers<4>("live_buffers_to_256MiB", "Live buffers of up to 256 MiB."),
    class_buffers<5>("live_buffers_above_256MiB", "Larger live buffers."),
    row<&S::references>("references", StatisticKind::kCurrent, false,
                        "Places in memory where addresses of buffers stand."),
    calls<&S::followed>("followed", "Accesses of buffers that such addresses point to."),
    calls<&S::unfetched_targets>("unfetched_targets",
                                 "Blocks that stored addresses lead to, used at their host copies for lack of room."),
    calls<&S::over_budget_operations>("over_budget_operations",
                                      "Operations let in beyond the budget (soft_limit), which were too large for it."),
    calls<&S::host_reads>("host_reads", "Copies that read their source from its host copy."),
    calls<&S::table_reads>("table_reads", "Tables of kernels read because what they may lead to did not fit."),
    calls<&S::pointer_probes>("pointer_probes", "Launches behind which small buffers were searched for addresses."),
    calls<&S::pointer_writing_kernels>("pointer_writing_kernels", "Kernels that were found to write addresses."),
    calls<&S::unknown_launches>("unknown_launches", "Launches whose parameters could not be read."),
    calls<&S::captured_operations>("captured_operations", "Operations recorded into graphs."),
    calls<&S::other_contexts>("other_contexts", "Allocations in other contexts, left to the driver."),
    calls<&S::unknown_functions>("unknown_functions", "Driver functions that are not known and went unseen."),
    calls<&S::untracked_uploads>("untracked_uploads", "Copies of graphs that were not searched for addresses."),
    calls<&S::unread_tables>("unread_tables", "Operations with more tables in host memory than are searched."),
    calls<&S::cut_graphs>("cut_graphs", "Executable graphs that were cut, because they do not fit at once."),
    calls<&S::graph_segments>("graph_segments", "Segments of such graphs that were launched."),
    calls<&S::uncut_graphs>("uncut_graphs", "Launches of graphs that do not fit at once and could not be cut."),
    calls<&S::unseen_collectives>("unseen_collectives", "Kernels of NCCL whose call was not seen, or not to its end."),
    calls<&S::refused_shares>("refused_shares", "Requests to share memory with other processes that were refused."),
    evictions_for<E::kPressure>("evictions_pressure", "Evictions because an operation or a pin needed room."),
    evictions_for<E::kWriteBehind>("evictions_write_behind", "Of what was copied out early, because it was idle."),
    evictions_for<E::kPlanned>("evictions_planned", "Evictions by the plan of the iteration."),
    evictions_for<E::kLimitLowered>("evictions_limit_lowered", "Because the library may hold less from then on."),
    evictions_for<E::kRequested>("evictions_requested", "Evictions that the program asked for."),
    evicted_bytes_for<E::kPressure>("evicted_bytes_pressure", "Copied out because an operation or a pin needed room."),
    evicted_bytes_for<E::kWriteBehind>("evicted_bytes_write_behind", "Copied out early, because it was idle."),
    evicted_bytes_for<E::kPlanned>("evicted_bytes_planned", "Copied out by plan."),
    evicted_bytes_for<E::kLimitLowered>("evicted_bytes_limit_lowered", "Copied out because of a lower limit."),
    evicted_bytes_for<E::kRequested>("evicted_bytes_requested", "Copied out because the program asked for it."),
    restores_for<F::kAccessed>("restores_accessed", "Fetches that an operation was waiting for."),
    restores_for<F::kPinned>("restores_pinned", "Fetches of what may not leave any more."),
    restores_for<F::kPredicted>("restores_predicted", "Fetches of what left last, without a plan."),
    restores_for<F::kPlanned>("restores_planned", "Fetches by the plan of the iteration."),
    restores_for<F::kRequested>("restores_requested", "Fetches that the program asked for."),
    restored_bytes_for<F::kAccessed>("restored_bytes_accessed", "Copied in for an operation that was waiting."),
    restored_bytes_for<F::kPinned>("restored_bytes_pinned", "Copied in because it may not leave any more."),
    restored_bytes_for<F::kPredicted>("restored_bytes_predicted", "Copied in as left last, without a plan."),
    restored_bytes_for<F::kPlanned>("restored_bytes_planned", "Copied in by plan."),
    restored_bytes_for<F::kRequested>("restored_bytes_requested", "Copied in because the program asked for it."),
    calls<&S::missing_mechanisms>("missing_mechanisms",
                                  "Mechanisms of the driver that failed their probe at the start and are not used."),
    calls<&S::unmappable_devices>("unmappable_devices",
                                  "Devices without virtual memory management, where nothing is evicted."),
    bytes<&S::asleep_bytes>("asleep_bytes",
                            "Pages that left when the program was put to sleep, and have not come back."),
    evictions_for<E::kSleep>("evictions_sleep", "Evictions because the program was put to sleep."),
    evicted_bytes_for<E::kSleep>("evicted_bytes_sleep", "Copied out because the program was put to sleep."),
    restores_for<F::kWake>("restores_wake", "Fetches because the program was woken."),
    restored_bytes_for<F::kWake>("restored_bytes_wake", "Copied in because the program was woken."),
    calls<&S::dropped_buffers>("dropped_buffers", "Buffers dropped without a copy, because they can be recomputed."),
    total<&S::dropped_bytes>("dropped_bytes", "The whole pages of these."),
    calls<&S::recomputed_buffers>("recomputed_buffers", "Dropped buffers that were recomputed."),
    total<&S::recomputed_bytes>("recomputed_bytes", "The whole pages of these."),
    calls<&S::recomputed_operations>("recomputed_operations", "Operations that ran again to recompute buffers."),
    calls<&S::recomputed_ns>("recomputed_ns", "Nanoseconds that they took, as far as it is known."),
    calls<&S::rerunnable_launches>("rerunnable_launches", "Launches of kernels that may run again."),
    calls<&S::refused_reruns>("refused_reruns", "Launches that may not run again, while recompute is auto."),
    calls<&S::rehearsed_launches>("rehearsed_launches",
                                  "Launches that were run a second time to find out whether that gives the same."),
    calls<&S::verified_results>("verified_results", "What was made twice and had equal digests."),
    calls<&S::mismatched_results>("mismatched_results", "What was made twice and had different digests."),
    calls<&S::unverified_results>("unverified_results",
                                  "What was made again, and could not be compared although it was to be."),
    calls<&S::promoted_kernels>("promoted_kernels", "Kernels whose results were found to be the same again."),
    calls<&S::demoted_kernels>("demoted_kernels", "Kernels whose results were not the same again."),
    evictions_for<E::kPassing>("evictions_passing",
                               "Evictions of what is not among the buffers that stay, without a plan."),
    evicted_bytes_for<E::kPassing>("evicted_bytes_passing", "Copied out as not among the buffers that stay."),
};
static_assert(kEvictReasons == 7 && kFetchReasons == 6, "Each reason has its two rows.");
static_assert(SizeClass::kCount == 6, "Each class has its two rows.");

// PyTorch counts requested and allocated bytes separately. The library counts requested bytes only, so both have
// that value.
constexpr StatisticAlias kPytorch[] = {
    {"allocated_bytes.all.current", "live_bytes"},
    {"allocated_bytes.all.peak", "peak_live_bytes"},
    {"allocated_bytes.all.allocated", "allocated_bytes"},
    {"allocated_bytes.all.freed", "freed_bytes"},
    {"requested_bytes.all.current", "live_bytes"},
    {"requested_bytes.all.peak", "peak_live_bytes"},
    {"requested_bytes.all.allocated", "allocated_bytes"},
    {"requested_bytes.all.freed", "freed_bytes"},
    {"allocation.all.current", "live_buffers"},
    {"allocation.all.peak", "peak_live_buffers"},
    {"allocation.all.allocated", "allocations"},
    {"allocation.all.freed", "frees"},
    {"reserved_bytes.all.current", "device_bytes"},
    {"reserved_bytes.all.peak", "peak_device_bytes"},
    {"reserved_bytes.all.allocated", "created_bytes"},
    {"reserved_bytes.all.freed", "destroyed_bytes"},
    {"active_bytes.all.current", "block_bytes"},
    {"num_device_alloc", "creates"},
    {"num_ooms", "out_of_memory"},
};

constexpr StatisticAlias kTensorflow[] = {
    {"num_allocs", "allocations"},
    {"bytes_in_use", "live_bytes"},
    {"peak_bytes_in_use", "peak_live_bytes"},
    {"largest_alloc_size", "largest_allocation_bytes"},
    {"bytes_limit", "budget_bytes"},
    {"bytes_reserved", "device_bytes"},
    {"peak_bytes_reserved", "peak_device_bytes"},
    {"bytes_reservable_limit", "budget_bytes"},
    {"largest_free_block_bytes", "available_bytes"},
    {"pool_bytes", "device_bytes"},
    {"peak_pool_bytes", "peak_device_bytes"},
};

}  // namespace

std::span<const Statistic> statistics_table() { return kTable; }

const Statistic* find_statistic(const char* name) {
  for (const Statistic& statistic : kTable) {
    if (std::strcmp(statistic.name, name) == 0) return &statistic;
  }
  return nullptr;
}

std::span<const StatisticAlias> pytorch_names() { return kPytorch; }
std::span<const StatisticAlias> tensorflow_names() { return kTensorflow; }

}  // namespace thermocline
