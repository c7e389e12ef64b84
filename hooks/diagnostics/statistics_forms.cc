// SPDX-License-Identifier: Apache-2.0
// The output of `run --stats`. The line and the JSON object have the same fields.
#include <array>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <vector>

#include "config/size.h"
#include "driver/quantity.h"
#include "hooks/runtime/counters.h"
#include "hooks/runtime/runtime.h"
#include "hooks/runtime/statistics.h"

namespace thermocline {
namespace {

struct Field {
  std::string name;
  std::uint64_t value;
};

void add_reasons(const MovementCounts& counts, std::vector<Field>* fields) {
  for (std::size_t i = 0; i < kEvictReasons; ++i) {
    fields->push_back({std::string("evictions_") + kEvictReasonNames[i], counts.evictions[i].units});
    fields->push_back({std::string("evicted_bytes_") + kEvictReasonNames[i], counts.evictions[i].copied_bytes});
  }
  for (std::size_t i = 0; i < kFetchReasons; ++i) {
    fields->push_back({std::string("restores_") + kFetchReasonNames[i], counts.fetches[i].units});
    fields->push_back({std::string("restored_bytes_") + kFetchReasonNames[i], counts.fetches[i].copied_bytes});
  }
}

// Counters of the hooks themselves.
void add_counters(std::vector<Field>* fields) {
  const Field counters[] = {
      {"unknown_launches", counted(Counter::kUnknownLaunches)},
      {"captured_operations", counted(Counter::kCapturedOperations)},
      {"other_contexts", counted(Counter::kOtherContexts)},
      {"unknown_functions", counted(Counter::kUnknownFunctions)},
      {"untracked_uploads", counted(Counter::kUntrackedUploads)},
      {"unread_tables", counted(Counter::kUnreadTables)},
      {"unseen_collectives", counted(Counter::kUnseenCollectives)},
      {"refused_shares", counted(Counter::kRefusedShares)},
      {"bypassing_libraries", counted(Counter::kBypassingLibraries)},
      {"missing_mechanisms", counted(Counter::kMissingMechanisms)},
      {"unmappable_devices", counted(Counter::kUnmappableDevices)},
      {"cut_graphs", counted(Counter::kCutGraphs)},
      {"graph_segments", counted(Counter::kGraphSegments)},
      {"uncut_graphs", counted(Counter::kUncutGraphs)},
  };
  fields->insert(fields->end(), std::begin(counters), std::end(counters));
}

void add_recomputing(const EngineStatistics& statistics, std::vector<Field>* fields) {
  fields->insert(fields->end(), {
                                    {"dropped_buffers", statistics.dropped_buffers},
                                    {"dropped_bytes", statistics.dropped_bytes},
                                    {"recomputed_buffers", statistics.recomputed_buffers},
                                    {"recomputed_bytes", statistics.recomputed_bytes},
                                    {"recomputed_operations", statistics.recomputed_operations},
                                    {"recomputed_ns", statistics.recomputed_ns},
                                    {"rerunnable_launches", statistics.rerunnable_launches},
                                    {"refused_reruns", statistics.refused_reruns},
                                    {"rehearsed_launches", statistics.rehearsed_launches},
                                    {"verified_results", statistics.verified_results},
                                    {"mismatched_results", statistics.mismatched_results},
                                    {"unverified_results", statistics.unverified_results},
                                    {"promoted_kernels", statistics.promoted_kernels},
                                    {"demoted_kernels", statistics.demoted_kernels},
                                });
}

// The first eight fields have a documented order; more may follow.
std::vector<Field> fields_of(const EngineStatistics& statistics) {
  std::vector<Field> fields = {
      {"peak_live_bytes", statistics.peak_live_bytes},
      {"peak_device_bytes", statistics.peak_device_bytes},
      {"budget_bytes", statistics.budget_bytes},
      {"peak_host_bytes", statistics.peak_host_bytes},
      {"evicted_bytes", statistics.evicted_bytes},
      {"restored_bytes", statistics.restored_bytes},
      {"allocations", statistics.allocations},
      {"pinned_buffers", statistics.pinned_buffers},
      {"frees", statistics.frees},
      {"operations", statistics.operations},
      {"evictions", statistics.evictions},
      {"restores", statistics.restores},
      {"digests", statistics.digests},
      {"failed_digests", statistics.failed_digests},
      {"unchanged_units", statistics.unchanged_units},
      {"changed_units", statistics.changed_units},
      {"uncopied_bytes", statistics.uncopied_bytes},
      {"upload_copies", statistics.upload_copies},
      {"upload_copy_bytes", statistics.upload_copy_bytes},
      {"failed_upload_copies", statistics.failed_upload_copies},
      {"useless_upload_copies", statistics.useless_upload_copies},
      {"fallback_evictions", statistics.fallback_evictions},
      {"unmapped_evictions", statistics.unmapped_evictions},
      {"unseen_accesses", statistics.unseen_accesses},
      {"prefetches", statistics.prefetches},
      {"wasted_prefetches", statistics.wasted_prefetches},
      {"write_behinds", statistics.write_behinds},
      {"plans", statistics.plans},
      {"divergences", statistics.divergences},
      {"creates", statistics.creates},
      {"maps", statistics.maps},
      {"unmaps", statistics.unmaps},
      {"host_waits", statistics.host_waits},
      {"peak_live_buffers", statistics.peak_live_buffers},
      {"allocated_bytes", statistics.allocated_bytes},
      {"freed_bytes", statistics.freed_bytes},
      {"followed", statistics.followed},
      {"unfetched_targets", statistics.unfetched_targets},
      {"over_budget_operations", statistics.over_budget_operations},
      {"host_reads", statistics.host_reads},
      {"table_reads", statistics.table_reads},
      {"pointer_probes", statistics.pointer_probes},
      {"pointer_writing_kernels", statistics.pointer_writing_kernels},
      {"peak_pageable_bytes", statistics.peak_pageable_bytes},
      {"spill_written_bytes", statistics.spill_written_bytes},
      {"spill_read_bytes", statistics.spill_read_bytes},
      {"spill_full", statistics.spill_full},
      {"failed_spill_writes", statistics.failed_spill_writes},
      {"failed_spill_reads", statistics.failed_spill_reads},
  };
  add_recomputing(statistics, &fields);
  fields.push_back({"oom_reports", statistics.out_of_memory});
  add_counters(&fields);
  add_reasons(statistics.movements, &fields);
  return fields;
}

[[gnu::format(printf, 2, 3)]] void add_row(std::string* text, const char* format, ...) {
  std::array<char, 160> row;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(row.data(), row.size(), format, arguments);
  va_end(arguments);
  *text += std::string("  ") + row.data() + '\n';
}

// Why nothing was copied. A buffer that was never written leaves the device without a copy.
const char* nothing_moved(const EngineStatistics& s) {
  if (s.peak_live_bytes > s.budget_bytes && s.budget_bytes > 0)
    return "nothing: what left the device was never written";
  return s.out_of_memory > 0 ? "nothing" : "nothing: it fitted";
}

std::string kind_of_host(const EngineStatistics& s) {
  if (s.peak_pageable_bytes == 0) return "pinned";
  if (s.peak_pageable_bytes >= s.peak_host_bytes) return "pageable: the driver refused to pin it, so it is slower";
  return "pinned, except " + human_bytes(s.peak_pageable_bytes) + " that the driver refused to pin: slower";
}

}  // namespace

std::string statistics_line(const EngineStatistics& statistics) {
  std::string line;
  for (const Field& field : fields_of(statistics)) {
    if (!line.empty()) line += ' ';
    line += field.name;
    line += '=';
    line += std::to_string(field.value);
  }
  return line;
}

std::string statistics_json(const EngineStatistics& statistics, int process, std::optional<int> rank,
                            const std::string& more) {
  std::string object = "{\"schema\": \"thermocline-run/1\", \"pid\": " + std::to_string(process);
  object += ", \"rank\": " + (rank ? std::to_string(*rank) : "null");
  for (const Field& field : fields_of(statistics)) {
    object += ", \"";
    object += field.name;
    object += "\": " + std::to_string(field.value);
  }
  return object + (more.empty() ? "" : ", " + more) + "}\n";
}

std::string statistics_table(const EngineStatistics& s, const std::string& of, const std::string& budget_origin) {
  std::string text = "thermocline: " + of + " held " + human_bytes(s.peak_live_bytes) + " at most\n";
  add_row(&text, "on the device  %s at most, budget %s%s", human_bytes(s.peak_device_bytes).c_str(),
          human_bytes(s.budget_bytes).c_str(), budget_origin.empty() ? "" : (" = " + budget_origin).c_str());
  if (s.evicted_bytes == 0 && s.restored_bytes == 0) {
    add_row(&text, "moved          %s", nothing_moved(s));
  } else {
    add_row(&text, "on the host    %s at most, %s", human_bytes(s.peak_host_bytes).c_str(), kind_of_host(s).c_str());
    add_row(&text, "evicted        %s copied in %s%s", human_bytes(s.evicted_bytes).c_str(),
            quantity(s.evictions, "eviction").c_str(),
            s.uncopied_bytes == 0 ? "" : (", and " + human_bytes(s.uncopied_bytes) + " unchanged, not copied").c_str());
    add_row(&text, "fetched        %s in %s, %llu ahead of need", human_bytes(s.restored_bytes).c_str(),
            quantity(s.restores, "copy", "copies").c_str(), static_cast<unsigned long long>(s.prefetches));
    if (s.spill_written_bytes > 0) {
      add_row(&text, "on the disk    %s written, %s read", human_bytes(s.spill_written_bytes).c_str(),
              human_bytes(s.spill_read_bytes).c_str());
    }
    if (s.spill_full + s.failed_spill_writes + s.failed_spill_reads > 0) {
      add_row(&text, "disk failed    %s full, %s, %s", quantity(s.spill_full, "time").c_str(),
              quantity(s.failed_spill_writes, "write").c_str(), quantity(s.failed_spill_reads, "read").c_str());
    }
    add_row(&text, "host waited    %s", quantity(s.host_waits, "time").c_str());
  }
  if (s.dropped_buffers > 0) {
    add_row(&text, "dropped        %s of whole pages in %s, without a copy", human_bytes(s.dropped_bytes).c_str(),
            quantity(s.dropped_buffers, "buffer").c_str());
    add_row(&text, "recomputed     %s of whole pages in %s, by %s", human_bytes(s.recomputed_bytes).c_str(),
            quantity(s.recomputed_buffers, "buffer").c_str(),
            quantity(s.recomputed_operations, "operation that ran again", "operations that ran again").c_str());
  }
  if (s.rehearsed_launches + s.verified_results + s.mismatched_results + s.unverified_results > 0) {
    add_row(&text, "verified       %s equal, %llu different, %llu not compared; %s promoted, %llu demoted",
            quantity(s.verified_results, "result").c_str(), static_cast<unsigned long long>(s.mismatched_results),
            static_cast<unsigned long long>(s.unverified_results), quantity(s.promoted_kernels, "kernel").c_str(),
            static_cast<unsigned long long>(s.demoted_kernels));
  }
  if (s.pinned_buffers > 0) {
    add_row(&text, "pinned         %s in %s, which can not be evicted", human_bytes(s.pinned_bytes).c_str(),
            quantity(s.pinned_buffers, "buffer").c_str());
  }
  if (s.out_of_memory > 0) add_row(&text, "out of memory  %s", quantity(s.out_of_memory, "time").c_str());
  return text;
}

}  // namespace thermocline
