// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/movement_log.h"

#include "hooks/interpose/log.h"
#include "hooks/interpose/process_lifetime.h"

namespace thermocline {
namespace {

class MovementLog : public MovementObserver {
 public:
  void copying_out(const MovedUnit& unit, EvictReason reason) override { say("copying out", unit, name_of(reason)); }
  void evicted(const MovedUnit& unit, EvictReason reason) override { say("evicted", unit, name_of(reason)); }
  void fetching(const MovedUnit& unit, FetchReason reason) override { say("fetching", unit, name_of(reason)); }
  void spilling(const MovedUnit& unit) override { say("writing to the spill file", unit, "the host fills up"); }
  void reading_spilled(const MovedUnit& unit) override { say("reading from the spill file", unit, "wanted"); }
  void dropped(const MovedUnit& unit) override { say("dropped", unit, "it can be recomputed"); }
  void recomputed(const MovedUnit& unit, RecomputeReason reason) override { say("recomputed", unit, name_of(reason)); }

 private:
  static void say(const char* what, const MovedUnit& unit, const char* reason) {
    log_line(LogLevel::kDebug, "%s %llu bytes at 0x%llx of %s 0x%llx (%llu bytes): %s", what,
             static_cast<unsigned long long>(unit.bytes), static_cast<unsigned long long>(unit.address.value),
             unit.is_slab ? "the small buffers at" : "buffer", static_cast<unsigned long long>(unit.block.value),
             static_cast<unsigned long long>(unit.block_bytes), reason);
  }
};

}  // namespace

MovementObserver* movement_log() { return is_logged(LogLevel::kDebug) ? &process_lifetime<MovementLog>() : nullptr; }

}  // namespace thermocline
