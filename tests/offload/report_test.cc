// SPDX-License-Identifier: Apache-2.0
// The out-of-memory report: each cause gives its own first advice, and a program that follows it runs.
#include "offload/engine/report.h"
#include "driver/page_size.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "offload/engine/engine.h"
#include "trace/simulated_device.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = kDefaultPageBytes;
constexpr StreamHandle kStream{};

std::string last_report;  // the handler has no context argument

// A program on the simulated device, up to the first refusal.
class Program {
 public:
  explicit Program(const EngineOptions& options) {
    std::string why;
    SimulatedDeviceOptions simulated;
    simulated.library = THERMOCLINE_SIMULATED_CUDA;
    device_ = SimulatedDevice::open(simulated, &why);
    EXPECT_NE(device_, nullptr) << why;
    EXPECT_TRUE(Engine::create(device_->driver(), options, &engine_).ok());
    engine_->set_report_handler([](const std::string& report) { last_report = report; });
    last_report.clear();
  }
  ~Program() {
    EXPECT_TRUE(device_->driver().synchronize_context().ok());
    engine_->validate();
    engine_.reset();
  }

  bool ok() const { return ok_; }
  Engine& engine() { return *engine_; }
  SimulatedDevice& device() { return *device_; }

  DeviceAddress allocate(Bytes bytes) {
    DeviceAddress address;
    if (ok_) note(engine_->allocate(bytes, std::nullopt, &address));
    return address;
  }
  void free(DeviceAddress address) { EXPECT_TRUE(engine_->free(address, std::nullopt).ok()); }
  void use(std::vector<DeviceAddress> buffers) {
    if (!ok_) return;
    std::vector<MemoryAccess> accesses;
    std::vector<SimulatedOperand> operands;
    for (const DeviceAddress buffer : buffers) {
      accesses.push_back({buffer, 0, Access::kUnknown});
      operands.push_back({buffer.value, 512, SIMULATED_OPERAND_READ | SIMULATED_OPERAND_WRITE});
    }
    Operation operation = engine_->begin(kStream, accesses);
    note(operation.status());
    if (!ok_) return;
    EXPECT_EQ(
        device_->control().launch_operator(nullptr, "use", 1e9, 1e6, std::nan(""), operands.data(), operands.size()),
        0);
    operation.commit();
  }
  void use_ranges(const std::vector<AddressRange>& ranges) {
    if (!ok_) return;
    std::vector<MemoryAccess> accesses;
    for (const AddressRange& range : ranges) accesses.push_back({range.at, range.bytes, Access::kRead});
    Operation operation = engine_->begin(kStream, accesses);
    note(operation.status());
  }
  void begin(const std::vector<MemoryAccess>& accesses, const OperationInfo& info) {
    if (!ok_) return;
    Operation operation = engine_->begin(kStream, accesses, info);
    note(operation.status());
  }
  void use_new(Bytes bytes) {
    if (const DeviceAddress buffer = allocate(bytes); ok_) use({buffer});
  }
  void pin(DeviceAddress buffer, const char* reason) {
    if (ok_) note(engine_->pin(buffer, reason));
  }
  void map_its_own(Bytes bytes) {
    if (!ok_) return;
    note(engine_->add_external(bytes));
    external_ += ok_ ? bytes : 0;
  }
  void unmap_its_own() { engine_->remove_external(external_); }

 private:
  void note(Status status) {
    EXPECT_TRUE(status.ok() || status.is_out_of_memory());
    ok_ = status.ok();
  }
  std::unique_ptr<SimulatedDevice> device_;
  std::unique_ptr<Engine> engine_;
  Bytes external_ = 0;
  bool ok_ = true;
};

using Body = std::function<void(Program&)>;

std::string refused(const EngineOptions& options, const Body& body) {
  Program program(options);
  body(program);
  EXPECT_FALSE(program.ok()) << "it fits";
  return last_report;
}

// key = "valueMiB" from the advice with that number, counted from 0.
bool follow(const std::string& report, std::size_t number, EngineOptions* options) {
  static const std::regex advice("\n  do     ([a-z_]+ = \"[a-z0-9]+(MiB)?\")?");
  auto found = std::sregex_iterator(report.begin(), report.end(), advice);
  for (; number > 0 && found != std::sregex_iterator(); --number) ++found;
  if (found == std::sregex_iterator()) return false;
  const std::string text = (*found)[1];
  const std::string key = text.substr(0, text.find(' ')),
                    value = text.substr(std::min(text.size(), text.find('"') + 1));
  if (key == "policy") {
    options->policy = kLearnedPolicy;
    return value.starts_with("learned");
  }
  Bytes* const field = key == "budget"              ? &options->budget_bytes
                       : key == "host_limit"        ? &options->host_limit_bytes
                       : key == "min_offload_bytes" ? &options->min_offload_bytes
                       : key == "page_bytes"        ? &options->page_bytes
                                                    : nullptr;
  if (field != nullptr) *field = std::stoull(value) * kMiB;
  return field != nullptr;
}

// The reason is given, and the program runs when the advice is followed.
void expect_good_advice(EngineOptions options, const std::string& reason, std::size_t advice, const Body& body) {
  const std::string report = refused(options, body);
  EXPECT_NE(report.find("\n  why    "), std::string::npos) << report;
  EXPECT_NE(report.find(reason), std::string::npos) << report;
  ASSERT_TRUE(follow(report, advice, &options)) << report;
  Program again(options);
  body(again);
  EXPECT_TRUE(again.ok()) << report << "\nthen\n" << last_report;
}

TEST(Report, OneOperationLargerThanTheBudgetNeedsALargerBudget) {
  expect_good_advice({.budget_bytes = 8 * kPage, .policy = kReactivePolicy}, "one operation uses 24.0 MiB at once", 0,
                     [](Program& program) {
                       const DeviceAddress a = program.allocate(6 * kPage), b = program.allocate(6 * kPage);
                       program.use({a, b});
                     });
}

// Under 1.5 GiB pages have 4 MiB, of which buffers of 33 MiB waste three each.
TEST(Report, WhatFitsInSmallerPagesNeedsThese) {
  expect_good_advice({.budget_bytes = 1536 * kMiB}, "one operation uses 1.58 GiB at once", 0, [](Program& program) {
    std::vector<DeviceAddress> buffers(45);
    for (DeviceAddress& buffer : buffers) buffer = program.allocate(33 * kMiB);
    program.use(buffers);
  });
}

// 1023 MiB have pages of 2 MiB; from 1 GiB on they have 4 MiB.
TEST(Report, ALargerBudgetIsCountedInItsOwnPages) {
  expect_good_advice({.budget_bytes = 1023 * kMiB}, "one operation uses 1.01 GiB at once", 0, [](Program& program) {
    std::vector<DeviceAddress> buffers(4);
    for (DeviceAddress& buffer : buffers) buffer = program.allocate(257 * kMiB);
    program.use(buffers);
  });
}

TEST(Report, WhatTheHostHoldsInSmallerPagesNeedsThese) {
  const EngineOptions options{.budget_bytes = 160 * kMiB,
                              .policy = kReactivePolicy,
                              .host_is_readable = false,
                              .host_limit_bytes = 320 * kMiB,
                              .page_bytes = 16 * kMiB};
  const Body body = [](Program& program) {
    for (int i = 0; i < 30; ++i) program.use_new(9 * kMiB);
  };
  const std::string report = refused(options, body);
  EXPECT_NE(report.find("on the host\n  do     page_bytes = \"2MiB\""), std::string::npos) << report;
  expect_good_advice(options, "has no room on the host", 0, body);
}

TEST(Report, AllocationLargerThanTheBudgetNeedsALargerBudget) {
  expect_good_advice({.budget_bytes = 8 * kPage}, "it needs 18.0 MiB at once, and the budget is 16.0 MiB", 0,
                     [](Program& program) { program.use_new(8 * kPage + 1); });
}

// Small buffers of 180 KiB, of which an operation uses one in each page.
Body using_one_in_each_page(int pages, bool are_pinned) {
  return [=](Program& program) {
    constexpr int kInOnePage = 11;
    std::vector<DeviceAddress> used;
    for (int i = 0; i < pages * kInOnePage; ++i) {
      const DeviceAddress buffer = program.allocate(180 * kKiB);
      if (i % kInOnePage == 0) used.push_back(buffer);
    }
    if (!are_pinned) return program.use(used);
    for (const DeviceAddress buffer : used) program.pin(buffer, "test");
    program.use_new(24 * kMiB);
  };
}

TEST(Report, PagesThatSmallBuffersShareAreTold) {
  expect_good_advice(
      {.budget_bytes = 24 * kMiB, .policy = kReactivePolicy},
      "one operation uses 34.0 MiB at once, and the budget is 24.0 MiB; 3.0 MiB of operands lie in 17 shared "
      "pages of 2.0 MiB (34.0 MiB)\n",
      0, using_one_in_each_page(17, false));
}

// In the larger pages of a larger budget they may lie in as many.
TEST(Report, SmallBuffersThatShareLargerPagesFit) {
  const EngineOptions options{.budget_bytes = 1023 * kMiB, .policy = kReactivePolicy};
  expect_good_advice(options, "one operation uses 1.17 GiB at once", 0, using_one_in_each_page(600, false));
  expect_good_advice(options, "in 500 buffers have to stay on the device", 1, using_one_in_each_page(500, true));
}

// Figures that differ are printed differently, in the first line too.
TEST(Report, ABudgetThatIsALittleTooSmallIsNotShownAsWhatIsNeeded) {
  const EngineOptions options{.budget_bytes = 8 * kPage - 16 * kKiB, .policy = kReactivePolicy};
  const Body body = [](Program& program) {
    const DeviceAddress a = program.allocate(4 * kPage), b = program.allocate(4 * kPage);
    program.use({a, b});
  };
  expect_good_advice(options, "one operation uses 16384.0 KiB at once, and the budget is 16368.0 KiB", 0, body);
  EXPECT_NE(refused(options, body).find(" of 16384.0 KiB was refused (16777216 bytes; the budget is 16368.0 KiB)\n"),
            std::string::npos)
      << last_report;
}

// If the operation names a range of a pinned buffer, the rest of the buffer takes up room too.
TEST(Report, TheRestOfAPinnedBufferCounts) {
  expect_good_advice({.budget_bytes = 40 * kPage, .policy = kReactivePolicy}, "in 1 buffer has to stay on the device",
                     1, [](Program& program) {
                       const DeviceAddress a = program.allocate(32 * kPage), b = program.allocate(20 * kPage);
                       program.use({a});
                       program.pin(a, "test");
                       program.use_ranges({{a, 4096}, {b, 20 * kPage}});
                     });
}

TEST(Report, WhatNoDeviceHoldsIsNotAskedOfTheBudget) {
  const std::string report = refused({}, [](Program& program) { program.allocate(80 * kGiB); });
  EXPECT_NE(report.find("it needs 80.00 GiB at once, and the device has 64.00 GiB\n  do     use less at once"),
            std::string::npos)
      << report;
}

TEST(Report, PinnedMemoryIsNamedWithItsReasons) {
  const EngineOptions options{.budget_bytes = 8 * kPage, .policy = kReactivePolicy};
  const auto body = [](Program& program) {
    program.pin(program.allocate(3 * kPage), "stream capture");
    program.pin(program.allocate(kPage), "the program asked for it");
    program.use_new(5 * kPage);
  };
  const std::string report = refused(options, body);
  EXPECT_NE(report.find("8.0 MiB in 2 buffers have to stay on the device: stream capture (6.0 MiB), the program asked "
                        "for it (2.0 MiB)\n"
                        "  do     release what is pinned, above all: stream capture\n"),
            std::string::npos)
      << report;
  EXPECT_TRUE(std::regex_search(report, std::regex("pinned +6.0 MiB in 1 buffer, stream capture\n"))) << report;
  EXPECT_TRUE(std::regex_search(report, std::regex("\n +2.0 MiB in 1 buffer, the program asked for it\n"))) << report;
  expect_good_advice(options, "above all: stream capture", 1, body);
}

// Buffers that the operation itself uses may stay.
TEST(Report, PinnedMemoryThatTheOperationUsesIsNotInItsWay) {
  expect_good_advice({.budget_bytes = 8 * kPage, .policy = kReactivePolicy}, "one operation uses 18.0 MiB", 0,
                     [](Program& program) {
                       const DeviceAddress a = program.allocate(4 * kPage), b = program.allocate(5 * kPage);
                       program.use({a});
                       program.pin(a, "stream capture");
                       program.use({a, b});
                     });
}

void use_what_a_table_leads_to(Program& program) {
  const DeviceAddress table = program.allocate(4096), a = program.allocate(8 * kPage), b = program.allocate(8 * kPage);
  program.use({a});
  program.use({b});
  const HeldWord words[] = {{table, a.value}, {table + 8, b.value}};
  program.engine().hold(words);
  program.begin({{table}}, {.kind = 7, .follows = true});
}

const EngineOptions kSmallBudget{.budget_bytes = 8 * kPage, .policy = kReactivePolicy};

// A kernel's parameters do not say what it does with its buffers.
TEST(Report, KernelsAreNamedWithTheSizesOfTheirBuffers) {
  const std::string report = refused(kSmallBudget, [](Program& program) {
    const DeviceAddress a = program.allocate(2 * kPage), b = program.allocate(5 * kPage), c = program.allocate(4096),
                        d = program.allocate(3 * kPage);
    program.begin({{a}, {b}, {c}, {d}}, {.kind = 7, .name = "_Z5scaleIfEvPT_PKS0_i", .follows = true});
  });
  EXPECT_TRUE(
      report.starts_with("thermocline: out of memory: kernel scale<float>: its memory of 22.0 MiB was refused "
                         "(23068672 bytes; the budget is 16.0 MiB)\n"
                         "  why    it needs 22.0 MiB at once, and the budget is 16.0 MiB\n"
                         "  uses   3 buffers together: 10.0 MiB + 6.0 MiB + 4.0 MiB, and a small buffer of 4.0 KiB\n"))
      << report;
}

// Copies name their ranges, of which the eviction units have to be there.
TEST(Report, CopiesAreNamedWithWhatTheyReadAndWrite) {
  const std::string report = refused(kSmallBudget, [](Program& program) {
    const DeviceAddress from = program.allocate(6 * kPage), to = program.allocate(5 * kPage);
    program.begin({{to, 5 * kPage, Access::kWrite}, {from, 5 * kPage, Access::kRead}},
                  {.kind = 1, .name = "cuMemcpyDtoDAsync", .overwrites = true});
  });
  EXPECT_TRUE(report.starts_with("thermocline: out of memory: cuMemcpyDtoDAsync: its memory of 22.0 MiB was refused "))
      << report;
  EXPECT_NE(report.find("\n  uses   2 buffers together: 12.0 MiB read + 10.0 MiB written\n"), std::string::npos)
      << report;
}

TEST(Report, OneBufferAndManyAreSummed) {
  const OperationInfo info{.kind = 7, .name = "fill", .follows = true};
  EXPECT_NE(refused(kSmallBudget,
                    [&](Program& program) {
                      std::vector<MemoryAccess> all;
                      for (int i = 0; i < 9; ++i) all.push_back({program.allocate(5 * kMiB)});
                      program.begin(all, info);
                    })
                .find("\n  uses   9 buffers together: 5.0 MiB + 5.0 MiB + 5.0 MiB + 5.0 MiB + 5.0 MiB + 5.0 MiB + 15.0 "
                      "MiB in 3 "
                      "more (54.0 MiB in whole pages of 2.0 MiB)\n"),
            std::string::npos)
      << last_report;
  EXPECT_NE(refused(kSmallBudget,
                    [&](Program& program) {
                      const DeviceAddress a = program.allocate(8 * kPage);
                      program.pin(program.allocate(kPage), "test");
                      program.begin({{a}}, info);
                    })
                .find("\n  uses   one buffer of 16.0 MiB\n"),
            std::string::npos)
      << last_report;
}

// The driver keeps what a graph allocates.
TEST(Report, GraphsAreNamedWithWhatTheyAllocate) {
  Program program(kSmallBudget);
  const DeviceAddress a = program.allocate(5 * kPage);
  const MemoryAccess access{a};
  EXPECT_TRUE(program.engine().fits_beside({&access, 1}, 4 * kPage).is_out_of_memory());
  EXPECT_TRUE(last_report.starts_with("thermocline: out of memory: a CUDA graph: its memory of 18.0 MiB was refused "))
      << last_report;
  EXPECT_NE(last_report.find("\n  uses   one buffer of 10.0 MiB, and 8.0 MiB that it allocates itself\n"),
            std::string::npos)
      << last_report;
}

// Otherwise nobody finds out why an operation on one small buffer needs so much.
TEST(Report, WhatAddressesInMemoryLeadToIsToldApart) {
  EXPECT_NE(refused({.budget_bytes = 12 * kPage, .policy = kReactivePolicy}, use_what_a_table_leads_to)
                .find("of these 32.0 MiB because of addresses stored in memory that it can reach\n"),
            std::string::npos)
      << last_report;
}

TEST(Report, WhatAddressesInMemoryLeadToIsNotListed) {
  EXPECT_NE(refused({.budget_bytes = 12 * kPage, .policy = kReactivePolicy}, use_what_a_table_leads_to)
                .find("\n  uses   a small buffer of 4.0 KiB\n"),
            std::string::npos)
      << last_report;
}

TEST(Report, WhatAddressesLeadToMayBeUsedOnTheHost) {
  EngineOptions options{.budget_bytes = 12 * kPage, .policy = kReactivePolicy, .host_is_readable = false};
  const std::string advice = "host_fallback = \"full\"";
  EXPECT_EQ(refused(options, use_what_a_table_leads_to).find(advice), std::string::npos) << "the device may not";
  options.host_fallback = HostFallback::kAuto;
  EXPECT_NE(refused(options, use_what_a_table_leads_to).find(advice), std::string::npos) << last_report;
  options.host_fallback = HostFallback::kFull;
  Program again(options);
  use_what_a_table_leads_to(again);
  EXPECT_TRUE(again.ok()) << last_report;
}

TEST(Report, AHostLimitThatIsReachedNeedsALargerOne) {
  expect_good_advice({.budget_bytes = 4 * kPage, .policy = kReactivePolicy, .host_limit_bytes = 6 * kPage},
                     "no room on the host", 0, [](Program& program) {
                       for (int i = 0; i < 7; ++i) program.use_new(kPage);
                     });
}

// Only 12 of 44 MiB are granted; or all of them, without host fallback.
TEST(Report, UnderANetALargerHostLimitLeavesRoomBetweenCopies) {
  EngineOptions options{.budget_bytes = 4 * kPage,
                        .policy = kReactivePolicy,
                        .host_fallback = HostFallback::kAuto,
                        .host_is_readable = false,
                        .host_limit_bytes = 22 * kPage};
  const Body body = [](Program& program) {
    for (int i = 0; i < 7; ++i) program.use_new(kPage);
  };
  expect_good_advice(options, "no room on the host", 0, body);
  const std::string report = refused(options, body);
  EXPECT_NE(report.find("host_fallback = \"off\""), std::string::npos) << report;
  EXPECT_EQ(report.find("with 0MiB"), std::string::npos) << "a file of nothing: " << report;
  options.host_fallback = HostFallback::kOff;
  Program again(options);
  body(again);
  EXPECT_TRUE(again.ok()) << last_report;
}

// No budget, and no limit, of nothing is advised.
TEST(Report, WhereTheDriverRefusesTheFirstPieceNoLimitOfNothingIsAdvised) {
  RefusalFacts facts;
  facts.what = "an allocation";
  facts.wanted = facts.wanted_pages = facts.page_bytes = kPage;
  facts.device_total = kGiB;
  facts.evicts = true;
  facts.now.budget_bytes = facts.free_pages = 64 * kMiB;
  facts.address_bytes = facts.largest_addresses = kGiB;
  ASSERT_EQ(cause_of(facts), Cause::kDevice);
  const std::string report = out_of_memory_report(facts);
  EXPECT_NE(report.find("nvidia-smi"), std::string::npos) << report;
  EXPECT_EQ(report.find("\"0MiB\""), std::string::npos) << report;
  facts.now.device_bytes = 32 * kMiB;
  EXPECT_NE(out_of_memory_report(facts).find("budget = \"32MiB\""), std::string::npos);

  facts.free_pages = 0;
  facts.host_refused = kMiB;
  ASSERT_EQ(cause_of(facts), Cause::kHostRefused);
  const std::string other = out_of_memory_report(facts);
  EXPECT_NE(other.find("ulimit -l"), std::string::npos) << other;
  EXPECT_EQ(other.find("\"0MiB\""), std::string::npos) << other;
}

TEST(Report, PolicyNoneNeedsAnother) {
  expect_good_advice({.budget_bytes = 4 * kPage, .policy = kNoPolicy}, "under policy none nothing may leave", 0,
                     [](Program& program) {
                       program.use_new(3 * kPage);
                       program.use_new(2 * kPage);
                     });
}

TEST(Report, WhereNothingLeavesAnyMoreTheBudgetHasToBeLarger) {
  static const std::atomic<bool> unseen{true};
  expect_good_advice({.budget_bytes = 4 * kPage, .policy = kReactivePolicy, .evict_no_more = &unseen},
                     "nothing leaves the device any more, because memory may be used unseen", 0, [](Program& program) {
                       program.use_new(3 * kPage);
                       program.use_new(2 * kPage);
                     });
}

TEST(Report, FragmentedPagesAreNamedAndNeedALargerBudget) {
  expect_good_advice({.budget_bytes = 16 * kPage, .policy = kNoPolicy}, " small buffers (", 0, [](Program& program) {
    std::vector<DeviceAddress> buffers;
    for (int i = 0; i < 6000; ++i) buffers.push_back(program.allocate(4096));
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (i % 500 != 0) program.free(buffers[i]);
    }
    program.use_new(10 * kPage);
  });
}

TEST(Report, BuffersThatTakeMoreInWholePagesAreNotBlamedOnSmallOnes) {
  const auto body = [](Program& program) {
    program.allocate(4096);
    for (int i = 0; i < 4; ++i) program.use_new(kPage + kPage / 2);
    program.use_new(kPage);
  };
  const EngineOptions options{.budget_bytes = 9 * kPage, .policy = kNoPolicy};
  expect_good_advice(
      options, "take 18.0 MiB in whole pages of 2.0 MiB, and this one 2.0 MiB more; the budget is 18.0 MiB", 0, body);
  const std::string report = refused(options, body);
  EXPECT_EQ(report.find("small buffers ("), std::string::npos) << report;
  EXPECT_NE(report.find("do     budget = \"20MiB\""), std::string::npos) << report;
}

TEST(Report, OwnMappingsAreNamed) {
  expect_good_advice({.budget_bytes = 8 * kPage, .policy = kReactivePolicy},
                     "own mappings, arrays and graphs hold 12.0 MiB", 0, [](Program& program) {
                       program.map_its_own(6 * kPage);
                       program.use_new(3 * kPage);
                       program.unmap_its_own();
                     });
}

TEST(Report, BlocksThatAreTooSmallToLeaveAreNamed) {
  expect_good_advice({.budget_bytes = 8 * kPage, .policy = kReactivePolicy, .min_offload_bytes = 8 * kMiB},
                     "in blocks below min_offload_bytes", 0, [](Program& program) {
                       for (int i = 0; i < 9; ++i) program.use_new(kPage);
                     });
}

TEST(Report, ADeviceThatOthersUseIsNotBlamedOnTheBudget) {
  const std::string report = refused({.policy = kNoPolicy}, [](Program& program) {
    PageHandle others{};
    ASSERT_TRUE(program.device().driver().create_page(62 * kGiB, 0, &others).ok());
    program.use_new(4 * kGiB);
    ASSERT_TRUE(program.device().driver().destroy_page(others).ok());
  });
  EXPECT_NE(report.find("something else uses the device\n  do     end what else uses the device"), std::string::npos)
      << report;
}

// A gigabyte of addresses: what is live leaves no piece that is large enough, though the budget has room.
TEST(Report, AddressesThatRunOutAreNamed) {
  ASSERT_EQ(setenv("THERMOCLINE_SIMULATE_FAULTS", "address-bits 30", 1), 0);
  const std::string report = refused({.budget_bytes = 600 * kMiB, .policy = kReactivePolicy}, [](Program& program) {
    for (int i = 0; i < 3; ++i) program.use_new(480 * kMiB);
  });
  unsetenv("THERMOCLINE_SIMULATE_FAULTS");
  EXPECT_NE(report.find("of 1.00 GiB of addresses that could be reserved, no more than "), std::string::npos) << report;
  EXPECT_NE(report.find("do     let the process have more addresses"), std::string::npos) << report;
}

// The number in the report is granted, and a page more is not.
TEST(Report, WhatWouldHaveFittedFits) {
  struct Case {
    EngineOptions options;
    Bytes pinned;
  };
  const Case cases[] = {
      {{.budget_bytes = 16 * kPage, .policy = kReactivePolicy}, 5 * kPage},
      {{.budget_bytes = 16 * kPage, .policy = kNoPolicy}, 5 * kPage},
      {{.budget_bytes = 16 * kPage, .policy = kReactivePolicy, .host_limit_bytes = 20 * kPage}, kPage}};
  for (const Case& one : cases) {
    const auto try_to_use = [&one](Bytes bytes) {
      Program program(one.options);
      program.pin(program.allocate(one.pinned), "test");
      for (int i = 0; i < 3; ++i) program.use_new(2 * kPage);
      program.use_new(bytes);
      return program.ok();
    };
    ASSERT_FALSE(try_to_use(16 * kPage));
    std::smatch found;
    ASSERT_TRUE(std::regex_search(last_report, found, std::regex("fits   at most ([0-9]+).0 MiB")));
    const Bytes most = std::stoull(found[1]) * kMiB;
    EXPECT_TRUE(try_to_use(most)) << last_report;
    EXPECT_FALSE(try_to_use(most + kPage));
  }
}

TEST(Report, IsOnePageAndNamesStreamsSizesAndTheLargest) {
  const std::string report = refused({.budget_bytes = 16 * kPage, .policy = kNoPolicy}, [](Program& program) {
    for (int i = 0; i < 40; ++i) program.allocate(Bytes{5000} << (i % 9));
    program.use_new(3 * kPage);
    program.use_new(12 * kPage);
  });
  EXPECT_LE(std::ranges::count(report, '\n'), 40) << report;
  EXPECT_NE(report.find("the default stream, or no stream named"), std::string::npos) << report;
  EXPECT_NE(report.find("up to 16.0 MiB"), std::string::npos) << report;
  EXPECT_TRUE(std::regex_search(report, std::regex("largest +6.0 MiB at 0x[0-9a-f]+, on the device"))) << report;
}

}  // namespace
}  // namespace thermocline
