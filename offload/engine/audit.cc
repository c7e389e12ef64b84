// SPDX-License-Identifier: Apache-2.0
#include "offload/engine/audit.h"

#include "driver/quantity.h"

namespace thermocline {

bool Audit::open(const Block& block) {
  // The addresses of a block without pages have not been told to any user.
  if (!block.mapped()) return true;
  return driver_.set_access(block.begin(), block.bytes(), device_).ok();
}

void Audit::shut(const Block& block) {
  if (block.mapped() && !driver_.revoke_access(block.begin(), block.bytes(), device_).ok()) ++statistics_.left_open;
}

Status Audit::begin(std::span<BlockState* const> operands) {
  for (const BlockState* state : operands) {
    if (!open(*state->block)) return Status::invalid_value();
  }
  return {};
}

void Audit::end(StreamHandle stream, std::span<BlockState* const> operands, const OperationInfo& info) {
  const Status status = driver_.synchronize_stream(stream);
  ++statistics_.operations;
  if (info.follows) {
    ++statistics_.launches;
    if (!info.is_kernel()) ++statistics_.graphs;
    if (info.name != nullptr) names_.insert(info.name);
    statistics_.kernels = names_.size();
  }
  if (!status.ok()) {
    // The context is lost with the first fault: later errors say nothing.
    if (statistics_.fault == 0) {
      statistics_.fault = statistics_.operations;
      statistics_.error = status.code();
      statistics_.faulty = info.name;
    }
    return;
  }
  for (const BlockState* state : operands) {
    if (state->pins == 0) shut(*state->block);
  }
}

std::string audit_text(const AuditStatistics& audit) {
  std::string looked;
  if (audit.launches > audit.graphs || audit.graphs == 0) {
    looked = quantity(audit.launches - audit.graphs, "launch", "launches") + " of " +
             quantity(audit.kernels, "kernel") + ", ";
  }
  if (audit.graphs != 0) looked += quantity(audit.graphs, "launch of a graph", "launches of graphs") + ", ";
  looked += quantity(audit.operations, "operation") + " in all";
  if (audit.fault != 0) {
    const std::string what = audit.faulty == nullptr ? "an operation" : std::string("'") + audit.faulty + "'";
    return "audit: not safe: " + what + " (operation " + std::to_string(audit.fault) +
           ") accessed memory that it was not seen to access, or that is nobody's (error " +
           std::to_string(audit.error) + "); nothing behind it was looked at, of " + looked;
  }
  if (audit.launches == 0) return "audit: nothing to say: no kernel with memory of the library was launched";
  if (audit.left_open != 0 || audit.unknown != 0) {
    return "audit: nothing was found, and not everything was looked at: access could not be taken away " +
           quantity(audit.left_open, "time") + ", and " + quantity(audit.unknown, "launch counts", "launches count") +
           " as accessing everything; " + looked;
  }
  return "audit: safe, as far as this run went: " + looked + "; nothing was accessed unseen";
}

}  // namespace thermocline
