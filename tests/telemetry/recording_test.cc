// SPDX-License-Identifier: Apache-2.0
#include "telemetry/recording.h"

#include <gtest/gtest.h>

#include <string>

namespace thermocline {
namespace {

constexpr MemoryAccess kAccesses[] = {{DeviceAddress{0x7e0000000000}, 0, Access::kUnknown},
                                      {DeviceAddress{0x7e0000200000}, 4096, Access::kRead},
                                      {DeviceAddress{~std::uint64_t{0}}, ~std::uint64_t{0}, Access::kWrite}};

void write_all_kinds(RecordingWriter* writer) {
  writer->name(7, "gemm \"x\"\n");
  writer->allocate(0x7e0000000000, 123'456'789, 0);
  writer->operate(7, 2, ~std::uint64_t{0}, kAccesses);
  writer->duration(~std::uint64_t{0}, 1500);
  writer->step();
  writer->free(0x7e0000000000, 2);
}

int count_of(std::string_view file, bool* cut) {
  RecordingReader reader(file);
  int count = 0;
  for (RecordedEvent event; reader.next(&event);) ++count;
  *cut = reader.is_cut();
  return count;
}

TEST(Recording, IsReadAsItWasWritten) {
  RecordingWriter writer;
  write_all_kinds(&writer);
  const std::string file = writer.take_block();
  EXPECT_EQ(writer.bytes(), 0u);
  RecordingReader reader(file);
  RecordedEvent event;
  ASSERT_TRUE(reader.next(&event));
  EXPECT_EQ(event.kind, RecordedKind::kName);
  EXPECT_EQ(event.name, 7u);
  EXPECT_EQ(event.text, "gemm \"x\"\n");
  ASSERT_TRUE(reader.next(&event));
  EXPECT_EQ(event.kind, RecordedKind::kAllocate);
  EXPECT_EQ(event.address, 0x7e0000000000u);
  EXPECT_EQ(event.bytes, 123'456'789u);
  ASSERT_TRUE(reader.next(&event));
  EXPECT_EQ(event.kind, RecordedKind::kOperate);
  EXPECT_EQ(event.name, 7u);
  EXPECT_EQ(event.stream, 2u);
  EXPECT_EQ(event.token, ~std::uint64_t{0});
  ASSERT_EQ(event.accesses.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(event.accesses[i].address, kAccesses[i].address);
    EXPECT_EQ(event.accesses[i].bytes, kAccesses[i].bytes);
    EXPECT_EQ(event.accesses[i].access, kAccesses[i].access);
  }
  ASSERT_TRUE(reader.next(&event));
  EXPECT_EQ(event.kind, RecordedKind::kDuration);
  EXPECT_EQ(event.nanoseconds, 1500u);
  ASSERT_TRUE(reader.next(&event));
  EXPECT_EQ(event.kind, RecordedKind::kStep);
  ASSERT_TRUE(reader.next(&event));
  EXPECT_EQ(event.kind, RecordedKind::kFree);
  EXPECT_FALSE(reader.next(&event));
  EXPECT_FALSE(reader.is_cut());
}

// As after a kill, or on a full disk.
TEST(Recording, OfAFileThatEndsEarlyTheWholeBlocksAreRead) {
  RecordingWriter writer;
  write_all_kinds(&writer);
  const std::string first = writer.take_block();
  write_all_kinds(&writer);
  const std::string file = first + writer.take_block();
  for (std::size_t bytes = 0; bytes <= file.size(); ++bytes) {
    bool cut = false;
    const int count = count_of(std::string_view(file).substr(0, bytes), &cut);
    EXPECT_EQ(count, bytes < first.size() ? 0 : bytes < file.size() ? 6 : 12) << bytes;
    EXPECT_EQ(cut, bytes != 0 && bytes != first.size() && bytes != file.size()) << bytes;
  }
}

TEST(Recording, ADamagedByteIsNoticed) {
  RecordingWriter writer;
  write_all_kinds(&writer);
  const std::string file = writer.take_block();
  for (std::size_t at = 0; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    bool cut = false;
    EXPECT_EQ(count_of(damaged, &cut), 0) << at;
    EXPECT_TRUE(cut) << at;
  }
}

}  // namespace
}  // namespace thermocline
