// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/proxy_streams.h"

#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/interpose/real_table.h"

namespace thermocline {
namespace {

CUresult result_of(Status status) { return static_cast<CUresult>(status.code()); }
Driver driver() { return Driver(*real_table()); }

}  // namespace

// Its lock is a leaf: no engine is called while it is held.
class ProxyStreams {
 public:
  using Key = std::tuple<const ActiveEngine*, CUcontext, StreamHandle>;
  Mutex mutex{"proxy streams", lock_level::kLeaf};
  std::map<Key, std::unique_ptr<ProxyStream>> all THERMOCLINE_GUARDED_BY(mutex);

  static ProxyStreams& get() { return process_lifetime<ProxyStreams>(); }

  template <class Wanted>
  std::vector<std::pair<Key, std::unique_ptr<ProxyStream>>> take(Wanted wanted) {
    std::vector<std::pair<Key, std::unique_ptr<ProxyStream>>> taken;
    const MutexLock lock(mutex);
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

  static void forget_done(ProxyStream* proxy) { proxy->done_ = {}; }
  static void give_back(ProxyStream* proxy) { proxy->give_back(); }
};

ProxyStream* ProxyStream::make(bool lasting) {
  std::unique_ptr<ProxyStream> made(new ProxyStream);
  made->lasting_ = lasting;
  if (!driver().create_stream(&made->stream_).ok()) return nullptr;
  if (!driver().create_event(false, &made->ready_).ok()) {
    made->give_back();
    return nullptr;
  }
  return made.release();
}

ProxyStream* ProxyStream::of(const ActiveEngine& active, StreamHandle stream, CUcontext home) {
  if (to_cu(stream) == CU_STREAM_PER_THREAD) return make(false);
  ProxyStreams& all_streams = ProxyStreams::get();
  const MutexLock lock(all_streams.mutex);
  const ProxyStreams::Key key{&active, home, stream};
  if (const auto found = all_streams.all.find(key); found != all_streams.all.end()) return found->second.get();
  std::unique_ptr<ProxyStream> made(make(true));
  return made == nullptr ? nullptr : (all_streams.all[key] = std::move(made)).get();
}

CUresult ProxyStream::ready() { return result_of(driver().record(ready_, stream_)); }

CUresult ProxyStream::await_ready(StreamHandle stream) const { return result_of(driver().wait(stream, ready_)); }

CUresult ProxyStream::done(StreamHandle stream) {
  if (done_ == EventHandle{}) {
    if (Status status = driver().create_event(false, &done_); !status.ok()) return result_of(status);
  }
  return result_of(driver().record(done_, stream));
}

CUresult ProxyStream::await_done() const { return result_of(driver().wait(stream_, done_)); }

void ProxyStream::give_back() {
  if (done_ != EventHandle{}) static_cast<void>(driver().destroy_event(done_));
  if (ready_ != EventHandle{}) static_cast<void>(driver().destroy_event(ready_));
  static_cast<void>(driver().destroy_stream(stream_));
}

void ProxyStream::end(const ActiveEngine& active) {
  active.engine->synchronized(stream_);
  active.engine->retire(stream_);
  give_back();
  delete this;
}

void end_proxy_streams_of(StreamHandle stream) {
  const auto ending =
      ProxyStreams::get().take([&](const ProxyStreams::Key& key) { return std::get<StreamHandle>(key) == stream; });
  for (const auto& [key, proxy] : ending) {
    const ActiveEngine& active = *std::get<const ActiveEngine*>(key);
    const CurrentContext context(active);
    active.engine->retire(proxy->handle());
    ProxyStreams::give_back(proxy.get());
  }
}

void end_proxy_streams_in(CUcontext context, bool is_gone) {
  const auto ending = ProxyStreams::get().take([&](const ProxyStreams::Key& key) {
    return std::get<CUcontext>(key) == context || std::get<const ActiveEngine*>(key)->context == context;
  });
  for (const auto& [key, proxy] : ending) {
    const ActiveEngine& active = *std::get<const ActiveEngine*>(key);
    const bool is_its_engines = active.context == context;
    if (is_gone && is_its_engines) continue;
    if (is_gone) ProxyStreams::forget_done(proxy.get());
    const CurrentContext current(active);
    if (!is_its_engines) active.engine->retire(proxy->handle());
    ProxyStreams::give_back(proxy.get());
  }
}

}  // namespace thermocline
