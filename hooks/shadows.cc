// SPDX-License-Identifier: Apache-2.0
#include "hooks/shadows.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "driver/locks.h"
#include "hooks/real_table.h"

namespace thermocline {
namespace {

CUresult result_of(Status status) { return static_cast<CUresult>(status.code()); }
Driver driver() { return Driver(*real_table()); }

}  // namespace

// Taken alone: whoever holds it asks no engine for anything.
class Shadows {
 public:
  using Key = std::tuple<const ActiveEngine*, CUcontext, StreamHandle>;
  Mutex mutex{"shadows"};
  std::map<Key, std::unique_ptr<Shadow>> all;

  static Shadows& get() {
    static auto* const only = new Shadows;
    return *only;
  }

  template <class Wanted>
  std::vector<std::pair<Key, std::unique_ptr<Shadow>>> take(Wanted wanted) {
    std::vector<std::pair<Key, std::unique_ptr<Shadow>>> taken;
    const std::lock_guard lock(mutex);
    for (auto at = all.begin(); at != all.end();) {
      if (!wanted(at->first)) {
        ++at;
        continue;
      }
      taken.emplace_back(at->first, std::move(at->second));
      at = all.erase(at);
    }
    return taken;
  }

  static void forget_done(Shadow* shadow) { shadow->done_ = {}; }
  static void give_back(Shadow* shadow) { shadow->give_back(); }
};

Shadow* Shadow::make(bool lasting) {
  std::unique_ptr<Shadow> made(new Shadow);
  made->lasting_ = lasting;
  if (!driver().create_stream(&made->stream_).ok()) return nullptr;
  if (!driver().create_event(false, &made->ready_).ok()) {
    made->give_back();
    return nullptr;
  }
  return made.release();
}

Shadow* Shadow::of(const ActiveEngine& active, StreamHandle stream, CUcontext home) {
  if (to_cu(stream) == CU_STREAM_PER_THREAD) return make(false);
  Shadows& shadows = Shadows::get();
  const std::lock_guard lock(shadows.mutex);
  const Shadows::Key key{&active, home, stream};
  if (const auto found = shadows.all.find(key); found != shadows.all.end()) return found->second.get();
  std::unique_ptr<Shadow> made(make(true));
  return made == nullptr ? nullptr : (shadows.all[key] = std::move(made)).get();
}

CUresult Shadow::ready() { return result_of(driver().record(ready_, stream_)); }

CUresult Shadow::await_ready(StreamHandle stream) const { return result_of(driver().wait(stream, ready_)); }

CUresult Shadow::done(StreamHandle stream) {
  if (done_ == EventHandle{}) {
    if (Status status = driver().create_event(false, &done_); !status.ok()) return result_of(status);
  }
  return result_of(driver().record(done_, stream));
}

CUresult Shadow::await_done() const { return result_of(driver().wait(stream_, done_)); }

void Shadow::give_back() {
  if (done_ != EventHandle{}) static_cast<void>(driver().destroy_event(done_));
  if (ready_ != EventHandle{}) static_cast<void>(driver().destroy_event(ready_));
  static_cast<void>(driver().destroy_stream(stream_));
}

void Shadow::end(const ActiveEngine& active) {
  active.engine->synchronized(stream_);
  active.engine->retire(stream_);
  give_back();
  delete this;
}

void end_shadows_of(StreamHandle stream) {
  const auto ending =
      Shadows::get().take([&](const Shadows::Key& key) { return std::get<StreamHandle>(key) == stream; });
  for (const auto& [key, shadow] : ending) {
    const ActiveEngine& active = *std::get<const ActiveEngine*>(key);
    const CurrentContext context(active);
    active.engine->retire(shadow->handle());
    Shadows::give_back(shadow.get());
  }
}

void end_shadows_in(CUcontext context, bool is_gone) {
  const auto ending = Shadows::get().take([&](const Shadows::Key& key) {
    return std::get<CUcontext>(key) == context || std::get<const ActiveEngine*>(key)->context == context;
  });
  for (const auto& [key, shadow] : ending) {
    const ActiveEngine& active = *std::get<const ActiveEngine*>(key);
    const bool is_its_engines = active.context == context;
    if (is_gone && is_its_engines) continue;
    if (is_gone) Shadows::forget_done(shadow.get());
    const CurrentContext current(active);
    if (!is_its_engines) active.engine->retire(shadow->handle());
    Shadows::give_back(shadow.get());
  }
}

}  // namespace thermocline
