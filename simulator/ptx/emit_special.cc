// SPDX-License-Identifier: Apache-2.0
// Special registers. Source: PTX ISA 9.0, chapter 10.
#include <cstddef>

#include "simulator/ptx/context.h"
#include "simulator/ptx/emit.h"

namespace simulator::ptx {
namespace {

struct Special {
  std::string_view name;
  std::size_t offset;
};

constexpr Special kFields[] = {
    {"%tid.x", offsetof(ThreadContext, tid)},
    {"%tid.y", offsetof(ThreadContext, tid) + 4},
    {"%tid.z", offsetof(ThreadContext, tid) + 8},
    {"%ntid.x", offsetof(ThreadContext, ntid)},
    {"%ntid.y", offsetof(ThreadContext, ntid) + 4},
    {"%ntid.z", offsetof(ThreadContext, ntid) + 8},
    {"%ctaid.x", offsetof(ThreadContext, ctaid)},
    {"%ctaid.y", offsetof(ThreadContext, ctaid) + 4},
    {"%ctaid.z", offsetof(ThreadContext, ctaid) + 8},
    {"%nctaid.x", offsetof(ThreadContext, nctaid)},
    {"%nctaid.y", offsetof(ThreadContext, nctaid) + 4},
    {"%nctaid.z", offsetof(ThreadContext, nctaid) + 8},
    {"%cluster_ctaid.x", offsetof(ThreadContext, cluster_ctaid)},
    {"%cluster_ctaid.y", offsetof(ThreadContext, cluster_ctaid) + 4},
    {"%cluster_ctaid.z", offsetof(ThreadContext, cluster_ctaid) + 8},
    {"%cluster_nctaid.x", offsetof(ThreadContext, cluster_nctaid)},
    {"%cluster_nctaid.y", offsetof(ThreadContext, cluster_nctaid) + 4},
    {"%cluster_nctaid.z", offsetof(ThreadContext, cluster_nctaid) + 8},
    {"%clusterid.x", offsetof(ThreadContext, clusterid)},
    {"%clusterid.y", offsetof(ThreadContext, clusterid) + 4},
    {"%clusterid.z", offsetof(ThreadContext, clusterid) + 8},
    {"%nclusterid.x", offsetof(ThreadContext, nclusterid)},
    {"%nclusterid.y", offsetof(ThreadContext, nclusterid) + 4},
    {"%nclusterid.z", offsetof(ThreadContext, nclusterid) + 8},
    {"%cluster_ctarank", offsetof(ThreadContext, cluster_ctarank)},
    {"%cluster_nctarank", offsetof(ThreadContext, cluster_nctarank)},
    {"%is_explicit_cluster", offsetof(ThreadContext, is_explicit_cluster)},
    {"%laneid", offsetof(ThreadContext, lane)},
    {"%warpid", offsetof(ThreadContext, warp)},
};

std::string lane_mask(Emitter& to, std::string_view which) {
  const std::string lane = to.context_field(offsetof(ThreadContext, lane), 32);
  const std::string own = to.let("shl i32 1, " + lane);
  const std::string below = to.let("sub i32 " + own + ", 1");
  if (which == "%lanemask_eq") return own;
  if (which == "%lanemask_lt") return below;
  if (which == "%lanemask_le") return to.let("or i32 " + own + ", " + below);
  if (which == "%lanemask_ge") return to.let("xor i32 " + below + ", -1");
  return to.let("xor i32 " + to.let("or i32 " + own + ", " + below) + ", -1");
}

// There is one multiprocessor.
std::string value_of(Emitter& to, const Operand& operand, unsigned* bits) {
  *bits = 32;
  const std::string_view name = operand.name;
  if (name.starts_with("%cluster") || name.starts_with("%ncluster") || name == "%is_explicit_cluster")
    to.shared().out.uses_clusters = true;
  for (const Special& entry : kFields) {
    if (entry.name == name) return to.context_field(entry.offset, 32);
  }
  if (name.starts_with("%lanemask_")) return lane_mask(to, name);
  if (name == "%clock64" || name == "%globaltimer") {
    *bits = 64;
    to.shared().out.is_ordered = true;
    return to.call("i64", name == "%clock64" ? "ptx_clock" : "ptx_globaltimer",
                   "i8* %ctx, i64 " + to.steps_since_handed_over());
  }
  if (name == "%clock" || name == "%clock_hi" || name == "%globaltimer_lo" || name == "%globaltimer_hi") {
    to.shared().out.is_ordered = true;
    std::string all = to.call("i64", name.starts_with("%clock") ? "ptx_clock" : "ptx_globaltimer",
                              "i8* %ctx, i64 " + to.steps_since_handed_over());
    if (name.ends_with("_hi")) all = to.let("lshr i64 " + all + ", 32");
    return to.let("trunc i64 " + all + " to i32");
  }
  if (name == "%envreg1" || name == "%envreg2") {
    const std::string all = to.context_field(offsetof(ThreadContext, grid_workspace), 64);
    return to.let("trunc i64 " + (name.ends_with('1') ? to.let("lshr i64 " + all + ", 32") : all) + " to i32");
  }
  if (name == "%gridid") {
    *bits = 64;
    return to.context_field(offsetof(ThreadContext, grid_id), 64);
  }
  if (name == "%dynamic_smem_size" || name == "%total_smem_size") {
    const std::size_t offset =
        name[1] == 'd' ? offsetof(ThreadContext, dynamic_bytes) : offsetof(ThreadContext, shared_bytes);
    return to.let("trunc i64 " + to.context_field(offset, 64) + " to i32");
  }
  if (name == "%nwarpid") return "64";
  if (name == "%smid") return "0";
  if (name == "%nsmid") return "1";
  if (name == "%warp_size") return "32";
  to.refuse("special register '" + std::string(name) + "' is not supported");
}

}  // namespace

std::string Emitter::special(const Operand& operand, unsigned bits) {
  unsigned own = 0;
  const std::string value = value_of(*this, operand, &own);
  if (own == bits) return value;
  return let((own < bits ? "zext " : "trunc ") + integer_type(own) + " " + value + " to " + integer_type(bits));
}

}  // namespace simulator::ptx
