// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/obstacles.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "driver/quantity.h"

namespace thermocline {
namespace {

std::string mebibytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", bytes / static_cast<double>(kMiB));
  return text;
}
std::string milliseconds(double nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f ms", nanoseconds / 1e6);
  return text;
}

std::string unfit_text(const RecomputeObstacles& of) {
  std::string begin = "no plan fits into the budget";
  if (of.limit == 0) return begin;
  if (of.uses + of.stays <= of.limit)
    return begin + ", though each operation alone would: too much is in use from one to the next";
  return begin + ": operation " + std::to_string(of.operation + 1) + " of an iteration uses " +
         mebibytes(static_cast<double>(of.uses)) + " of buffers at once, and beside these " +
         mebibytes(static_cast<double>(of.stays)) +
         " stay on the device whatever is planned (small buffers, which share pages, those below min_offload_bytes, "
         "and "
         "pinned ones); together they may take " +
         mebibytes(static_cast<double>(of.limit));
}

std::string copies_text(const RecomputeObstacles& of) {
  if (of.plans_tried == 0 && of.copies_ns == 0)
    return "the plan drops nothing: copies alone are faster, or what may be dropped would not make room";
  if (of.contents == 0)
    return "the plan drops nothing: no content that may be made again would make room where memory is short";
  const std::string tried = quantity(of.plans_tried, "plan") + " that drop some of " + quantity(of.contents, "content");
  if (of.plans_tried == 0 || !std::isfinite(of.drops_ns))
    return "the plan drops nothing: of " + tried + " none fits into the budget";
  return "the plan drops nothing: with copies alone a step takes " + milliseconds(of.copies_ns) +
         ", and with the fastest of " + tried + " " + milliseconds(of.drops_ns) + ", as far as is predicted";
}

}  // namespace

void RecomputeObstacles::note(Plan why, const thermocline::Plan& plan, const Profile& profile, Bytes may_take) {
  last_plan.store(why, std::memory_order_relaxed);
  contents = plan.droppable, plans_tried = plan.tried_drops;
  copies_ns = plan.fits ? plan.predicted_ns : 0, drops_ns = plan.fastest_drops_ns;
  limit = may_take, uses = stays = operation = 0;
  if (plan.fits) return;
  for (std::uint32_t q = 0; q < profile.places(); ++q) {
    std::vector<std::uint32_t> names(profile.operands(q).begin(), profile.operands(q).end());
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    Bytes used = 0;
    for (const std::uint32_t name : names) used += name == kNoBuffer ? 0 : profile.buffers[name].bytes;
    if (used + profile.unplanned_bytes[q] <= uses + stays) continue;
    uses = used, stays = profile.unplanned_bytes[q], operation = q;
  }
}

WhyNothing why_the_plan_drops_nothing(const RecomputeObstacles& of, bool evicted) {
  using Kind = RecomputeObstacles::Plan;
  const Kind last = of.last_plan;
  switch (evicted && last == Kind::kMovesNothing ? Kind::kCopies : last) {
    case Kind::kUnfit:
      return {"no_plan_fits", unfit_text(of)};
    case Kind::kMovesNothing:
      return {"fits", "the plan moves and drops nothing: what an iteration uses at a time fits into the budget"};
    case Kind::kInputsGone:
      return {
          "inputs_overwritten",
          "the plan drops nothing: what the contents are made of is overwritten (by an upload, or in place) or freed "
          "before they are needed again"};
    case Kind::kNotRepeatable:
      return {"made_by_others", "the plan drops nothing: what does not fit is not made by kernels that may run again"};
    case Kind::kHostWaits:
      return {"host_waits",
              "the plan drops nothing: an operation in each step may wait for the host (a host function, a value)"};
    case Kind::kUnknownAccesses:
      return {"unknown_accesses", "the plan drops nothing: of an operation in each step not all accesses are known"};
    case Kind::kOtherRoles:
      return {"other_buffers", "the plan drops nothing: steps do not use the same buffers for the same"};
    case Kind::kNone:
    case Kind::kCopies:
      break;
  }
  return {"copies", copies_text(of)};
}

}  // namespace thermocline
