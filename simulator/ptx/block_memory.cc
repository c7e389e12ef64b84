// SPDX-License-Identifier: Apache-2.0
// A thread's accesses to memory that generated code did not find allowed at once.
#include <cstdio>
#include <string>

#include "simulator/ptx/block.h"
#include "simulator/ptx/cluster.h"
#include "simulator/ptx/kernel.h"

namespace simulator::ptx {

namespace {

std::string hexadecimal(std::uint64_t address) {
  char number[32];
  std::snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(address));
  return number;
}

}  // namespace

void BlockRun::check(ThreadContext& context, std::uint64_t address, std::uint32_t bytes, bool writes,
                     std::uint32_t site) {
  const bool aligned = (address & (bytes - 1)) == 0;
  if (aligned && address >= context.shared && address + bytes <= context.shared + context.shared_bytes) return;
  context.counts.accessed += bytes;
  access(context, address, bytes | (writes ? kAccessWrites : 0u) | kAccessIsGeneric | kAccessIsCounted, site);
}

void BlockRun::check_global(ThreadContext& context, std::uint64_t address, std::uint32_t bytes, std::uint32_t site) {
  context.counts.accessed += bytes;
  access(context, address, bytes | kAccessIsCounted, site);
}

const Texture& BlockRun::texture(ThreadContext& context, std::uint64_t handle, bool is_surface, std::uint32_t site) {
  const auto count = [&](const Texture& texture) {
    context.counts.accessed += std::uint64_t{texture.bits} / 8 * texture.channels;
  };
  const auto known = grid_.textures.find(handle);
  if (known != grid_.textures.end() && known->second.is_surface == is_surface) {
    count(known->second);
    return known->second;
  }
  Texture found;
  const std::string number = hexadecimal(handle), what = is_surface ? "surface " : "texture ";
  if (grid_.launch.find_texture == nullptr || !grid_.launch.find_texture(handle, &found) ||
      found.is_surface != is_surface)
    fail(context, Fault::kIllegalAddress, handle, "there is no " + what + number, static_cast<int>(site));
  if (!grid_.launch.may_touch(grid_.launch.asked, found.address, found.bytes(), is_surface))
    fail(context, Fault::kIllegalAddress, found.address, "illegal address in the memory of " + what + number,
         static_cast<int>(site));
  grid_.reached.add_texture(found);
  count(found);
  return grid_.textures[handle] = found;
}

void BlockRun::trace_surface(std::uint64_t address, std::uint64_t bytes, bool writes) {
  grid_.reached.trace(address, bytes, writes ? kAccessWrites : 0);
}

bool BlockRun::is_own_memory(const ThreadContext& context, std::uint64_t address, std::uint64_t bytes,
                             std::uint32_t kind) const {
  const auto within = [&](std::uint64_t begin, std::uint64_t end) {
    return address >= begin && address + bytes <= end && address + bytes > address;
  };
  if ((kind & kAccessIsGeneric) != 0) {
    if (within(context.shared, context.shared + context.shared_bytes)) return true;
    if (cluster_ != nullptr && cluster_->find(address) && cluster_->find(address + bytes - 1)) return true;
    if (within(context.stack_low - kStackReserve, context.stack_high)) return true;
    const bool writes = (kind & kAccessWrites) != 0;
    if (!writes && within(context.parameters, context.parameters + grid_.launch.parameter_bytes)) return true;
  }
  const auto workspace = reinterpret_cast<std::uint64_t>(grid_.workspace);
  return grid_.launch.is_cooperative && within(workspace, workspace + sizeof grid_.workspace);
}

void BlockRun::access_span(ThreadContext& context, std::uint64_t base, std::uint32_t first_site, std::uint32_t count) {
  for (std::uint32_t site = first_site; site < first_site + count; ++site) {
    const Site& of = grid_.kernel.emitted.sites[site];
    access(context, base + static_cast<std::uint64_t>(of.offset), of.access, site);
  }
}

void BlockRun::access(ThreadContext& context, std::uint64_t address, std::uint32_t kind, std::uint32_t site) {
  const std::uint64_t bytes = kind & kAccessBytes;
  const bool writes = (kind & kAccessWrites) != 0;
  if ((address & (bytes - 1)) != 0)
    fail(context, Fault::kMisaligned, address,
         "misaligned address " + hexadecimal(address) + " of " + std::to_string(bytes) + " bytes",
         static_cast<int>(site));
  if (grid_.reached.add(address, bytes, kind)) return;
  const std::uint64_t moved = (kind & kAccessIsTwice) != 0 ? 2 * bytes : bytes;
  if ((kind & kAccessIsCounted) != 0) context.counts.accessed -= moved;  // it is no access to the device's memory
  if (is_own_memory(context, address, bytes, kind)) return;
  if (grid_.launch.may_touch(grid_.launch.asked, address, bytes, writes)) {
    context.counts.of_host += moved;
    grid_.reached.trace(address, bytes, kind);
    return;
  }
  fail(context, Fault::kIllegalAddress, address,
       "illegal address " + hexadecimal(address) + (writes ? ", written" : ", read") + " (" + std::to_string(bytes) +
           " bytes)",
       static_cast<int>(site));
}

}  // namespace simulator::ptx
