// SPDX-License-Identifier: Apache-2.0
// Random programs against a simple model of what is alive. The heap validates itself after every operation. The fake
// driver checks that no page is mapped twice, unmapped or destroyed while in use, and that work of a new owner of some
// bytes never runs before that of former owners, in whatever order the streams run.
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/heap.h"
#include "tests/allocator/fake_driver.h"
#include "tests/support/seeds.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = FakeDriver::kPage;

class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed), fake_(seed + 1) {
    HeapOptions options;
    options.page_bytes = kPage;
    options.limit = (8 + pick(60)) * kPage;
    options.reserve_bytes = (200 + pick(2000)) * kPage;
    fake_.allow_aliases = true;
    if (pick(4) == 0) fake_.device_bytes = (4 + pick(40)) * kPage;
    EXPECT_TRUE(Heap::create(driver_, clock_, options, &heap_).ok());
    for (std::uint64_t i = 0; i <= pick(3); ++i) streams_.push_back(fake_.create_stream());
  }

  ~Program() {
    fake_.run_all();
    heap_.reset();
    EXPECT_EQ(fake_.pages(), 0u);
    EXPECT_EQ(fake_.mappings(), 0u);
    report();
  }

  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFailure(); ++i) {
      one();
      heap_->validate();
      clock_.validate();
      check();
      report();
    }
  }

 private:
  struct Live {
    Buffer* buffer;
    DeviceAddress address;
    Bytes bytes;
    std::uint64_t number;
  };

  struct Vacant {
    Block* block;
    Bytes bytes;
  };

  std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  void one() {
    switch (pick(21)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return allocate();
      case 4:
      case 5:
      case 6:
        return free();
      case 7:
      case 8:
      case 9:
      case 10:
        return access();
      case 11:
        return unmap();
      case 12:
        return advance();
      case 13:
        return pick(4) == 0 ? change_limit() : trim();
      case 14:
        return pick(3) == 0 ? change_stream() : fail();
      case 15:
        return give_up();
      case 16:
        return vacate();
      case 17:
        return pick(6) == 0 ? dissolve() : occupy();
      case 18:
        return settle();
      case 19:
        return scatter();
      default:
        return synchronize();
    }
  }

  Bytes some_size() {
    switch (pick(4)) {
      case 0:
        return 1 + pick(4096);
      case 1:
        return 1 + pick(kPage);
      case 2:
        return (1 + pick(6)) * kPage;
      default:
        return 1 + pick(12 * kPage);
    }
  }

  void allocate() {
    const Bytes bytes = some_size();
    Buffer* buffer = nullptr;
    const Status status = heap_->allocate(bytes, stream(), &buffer);
    if (!status.ok()) {
      EXPECT_TRUE(status.is_out_of_memory());
      return;
    }
    EXPECT_EQ(buffer->address().value % 512, 0u);
    live_.push_back({buffer, buffer->address(), bytes, buffer->number()});
    if (pick(3) != 0) access(live_.back());
  }

  // Allocates many small buffers, or frees some in between: enough for several slabs, and to fill them again.
  void scatter() {
    if (pick(2) == 0) {
      for (std::uint64_t i = pick(100); i > 0; --i) {
        Buffer* buffer = nullptr;
        const Bytes bytes = 8 * kKiB + pick(28 * kKiB);
        if (!heap_->allocate(bytes, stream(), &buffer).ok()) return;
        live_.push_back({buffer, buffer->address(), bytes, buffer->number()});
      }
    } else {
      for (std::uint64_t i = pick(live_.size() + 1) / 2; i > 0; --i) free();
    }
  }

  void free() {
    if (live_.empty()) return;
    const std::size_t which = pick(live_.size());
    Buffer* const buffer = live_[which].buffer;
    const bool last = buffer->block().live_buffers() == 1;
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
    EXPECT_EQ(heap_->free(buffer), last);
  }

  void access() {
    if (!live_.empty()) access(live_[pick(live_.size())]);
  }

  void access(const Live& live) {
    Block& block = live.buffer->block();
    constexpr Wait kWaits[] = {Wait::kYes, Wait::kNo, Wait::kBehind, Wait::kBehindNewest};
    const Wait wait = kWaits[pick(4)];
    heap_->expect_user(stream());
    Status status = map(block, wait);
    // Evicts until it fits; contents are not saved here.
    for (std::size_t i = 0; status.is_out_of_memory() && i < live_.size(); ++i) {
      Block& victim = live_[i].buffer->block();
      if (&victim == &block || victim.mapped_pages() == 0 || !clock_.passed(victim.uses)) continue;
      static_cast<void>(heap_->unmap(victim));
      status = map(block, wait);
    }
    if (!status.ok()) return;
    EXPECT_TRUE(block.mapped());
    const StreamIndex on = stream();
    // Pages reused in stream order may still have uses by former owners.
    if (!clock_.wait_all(on, live.buffer->former).ok() || !clock_.wait_all(on, block.uses).ok()) return;
    fake_.submit(clock_.handle_of(on), live.number, live.address, live.bytes);
    block.uses.add({on, clock_.advance(on)});
  }

  // Maps the whole block, or a part of it first.
  Status map(Block& block, Wait wait) {
    if (pick(3) == 0) {
      const std::uint64_t first = pick(block.pages());
      const PageRange range{first, 1 + pick(block.pages() - first)};
      if (const Status status = heap_->map(block, range, wait, &block.uses); !status.ok()) return status;
    }
    return heap_->map(block, wait);
  }

  void unmap() {
    if (live_.empty()) return;
    Block& block = live_[pick(live_.size())].buffer->block();
    if (!clock_.passed(block.uses)) return;
    if (pick(8) == 0 && block.mapped_pages() != 0) fake_.fail("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
    static_cast<void>(heap_->unmap(block));
  }

  // A part of a block loses its pages while work may still use them.
  void give_up() {
    if (live_.empty()) return;
    Block& block = live_[pick(live_.size())].buffer->block();
    const std::uint64_t first = pick(block.pages());
    const PageRange range{first, 1 + pick(block.pages() - first)};
    const auto pages = block.page_handles().subspan(range.first, range.count);
    if (std::find(pages.begin(), pages.end(), PageHandle{}) != pages.end()) return;
    heap_->give_up(block, range, block.uses);
    EXPECT_FALSE(block.mapped());
  }

  void vacate() {
    if (live_.empty()) return;
    const std::size_t which = pick(live_.size());
    const Live live = live_[which];
    if (live.buffer->block().live_buffers() > 1) return;
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
    vacant_.push_back({&heap_->vacate(live.buffer), live.bytes});
    EXPECT_EQ(heap_->block_at(live.address), nullptr);
  }

  void occupy() {
    if (vacant_.empty()) return;
    const std::size_t which = pick(vacant_.size());
    const Vacant vacant = vacant_[which];
    vacant_.erase(vacant_.begin() + static_cast<std::ptrdiff_t>(which));
    Buffer* buffer = nullptr;
    const Bytes bytes = pick(8) == 0 ? some_size() : vacant.bytes;
    if (!heap_->allocate(bytes, stream(), &buffer, vacant.block).ok()) buffer = nullptr;
    if (buffer == nullptr || &buffer->block() != vacant.block) {
      vacant_.push_back(vacant);
    } else {
      EXPECT_EQ(buffer->address(), vacant.block->begin());
    }
    if (buffer == nullptr) return;
    live_.push_back({buffer, buffer->address(), bytes, buffer->number()});
    if (pick(4) != 0) access(live_.back());
  }

  void dissolve() {
    if (vacant_.empty()) return;
    heap_->dissolve(*vacant_.back().block);
    vacant_.pop_back();
  }

  // Assigned pages are only advice, so any page will do: one mapped at some address, or one that no longer exists.
  void settle() {
    if (live_.empty()) return;
    const Block& block = live_[pick(live_.size())].buffer->block();
    const Block& other = live_[pick(live_.size())].buffer->block();
    for (std::uint64_t page = 0; page < std::min(block.pages(), other.pages()); ++page) {
      const PageHandle physical = other.page_handles()[page];
      if (physical != PageHandle{})
        heap_->assigned_pages().add(heap_->page_of(block.begin()) + page, pick(100), pick(100), physical);
    }
    heap_->assigned_pages().set_period(100);
    heap_->assigned_pages().now(pick(100));
    if (pick(20) == 0) heap_->assigned_pages().clear();
    if (pick(10) == 0) heap_->defer_unmaps_of_free_space();
  }

  void advance() {
    for (std::uint64_t i = 0, steps = pick(20); i < steps; ++i) fake_.step();
  }

  void trim() { static_cast<void>(heap_->trim(pick(40) * kPage, pick(2) == 0 ? Wait::kYes : Wait::kNo)); }

  void change_limit() {
    const Bytes limit = (4 + pick(60)) * kPage;
    const Bytes before = heap_->limit();
    const Status status = heap_->set_limit(limit, pick(2) == 0 ? Wait::kYes : Wait::kNo);
    EXPECT_EQ(heap_->limit(), status.ok() ? limit : before);
  }

  void change_stream() {
    if (pick(2) == 0 || streams_.size() == 1) {
      streams_.push_back(fake_.create_stream());
    } else {
      clock_.retire(streams_.back());
      streams_.pop_back();
    }
  }

  void fail() {
    static const char* const kFunctions[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess"};
    const CUresult result = pick(2) == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
    fake_.fail(kFunctions[pick(3)], 1 + pick(10), result);
  }

  void synchronize() {
    if (live_.empty()) return;
    const UseSet uses = live_[pick(live_.size())].buffer->block().uses;
    EXPECT_TRUE(clock_.synchronize(uses).ok());
    EXPECT_TRUE(clock_.passed(uses));
  }

  StreamIndex stream() { return clock_.index_of(streams_[pick(streams_.size())]); }

  void check() {
    EXPECT_LE(heap_->created_bytes(), heap_->limit());
    EXPECT_EQ(heap_->created_bytes(), fake_.pages() * kPage);
    Bytes live = 0;
    for (const Live& l : live_) {
      live += l.bytes;
      EXPECT_EQ(l.buffer->address(), l.address) << "addresses are stable";
      const Block& block = l.buffer->block();
      EXPECT_GE(l.address, block.begin());
      EXPECT_LE(l.address + l.bytes, block.end());
      EXPECT_EQ(heap_->block_at(l.address + l.bytes), &block) << "no other block begins where it ends";
      if (block.mapped()) {
        EXPECT_TRUE(fake_.accessible(l.address));
        EXPECT_TRUE(fake_.accessible(l.address + (l.bytes - 1)));
      }
    }
    EXPECT_EQ(live, heap_->live_bytes());
    for (int i = 0; i < 4 && !live_.empty(); ++i) probe();
  }

  // Checks that find agrees with a search through all live buffers.
  void probe() {
    const Live& near = live_[pick(live_.size())];
    DeviceAddress address = near.address;
    switch (pick(4)) {
      case 0:
        break;
      case 1:
        address = near.address + near.bytes;
        break;
      case 2:
        address = near.address + pick(near.bytes);
        break;
      default:
        address = near.address + near.bytes + pick(2 * kPage);
        break;
    }
    const Live* expected = nullptr;
    for (const Live& l : live_) {
      if (l.address <= address && address < l.address + l.bytes) expected = &l;
      if (expected == nullptr && l.address + l.bytes == address) expected = &l;
    }
    // A buffer that contains the address has priority over one that ends there.
    for (const Live& l : live_) {
      if (l.address <= address && address < l.address + l.bytes) expected = &l;
    }
    EXPECT_EQ(heap_->find(address), expected != nullptr ? expected->buffer : nullptr);
    for (const Live& l : live_) {
      const bool apart = &l == &near || l.address + l.bytes <= near.address || near.address + near.bytes <= l.address;
      EXPECT_TRUE(apart) << "live buffers do not overlap";
    }
  }

  void report() {
    for (const std::string& error : fake_.errors()) ADD_FAILURE() << error;
  }

  std::mt19937_64 random_;
  FakeDriver fake_;
  Driver driver_{fake_.table()};
  StreamClock clock_{driver_};
  std::unique_ptr<Heap> heap_;
  std::vector<StreamHandle> streams_;
  std::vector<Live> live_;
  std::vector<Vacant> vacant_;
};

TEST(HeapModel, RandomProgramsKeepEveryPromise) {
  for (const std::uint64_t seed : test_seeds(2000)) {
    SCOPED_TRACE("THERMOCLINE_TEST_SEED=" + std::to_string(seed));
    Program(seed).run(150);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace thermocline
