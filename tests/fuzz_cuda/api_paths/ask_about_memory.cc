// SPDX-License-Identifier: Apache-2.0
// The driver's answers about memory agree with the requests.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

void ask_about_pointer(World& world) {
  if (world.buffers().empty()) return;
  const Buffer& buffer = world.any();
  const CUdeviceptr inside = buffer.address + world.random.below(buffer.bytes());
  CUmemorytype type{};
  CUcontext context = nullptr;
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  int ordinal = -1;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* answers[] = {&type, &context, &ordinal};
  CHECK_CUDA(cuPointerGetAttributes(3, wanted, answers, inside));
  if (ordinal != world.device.device) world.fail("ordinal", static_cast<std::uint64_t>(ordinal), 0);
  const std::string_view memory = buffer.memory->name;
  const CUmemorytype expected = memory == "of_the_host" ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  if (memory != "managed" && type != expected) world.fail("kind of memory", type, expected);
  CHECK_CUDA(cuPointerGetAttribute(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside));
  CHECK_CUDA(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside));
  if (begin != buffer.address) world.fail("beginning of the range", begin, buffer.address);
  if (bytes < buffer.bytes()) world.fail("size of the range", bytes, buffer.bytes());
}

void ask_about_range(World& world) {
  if (world.buffers().empty()) return;
  const Buffer& buffer = world.any();
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  CHECK_CUDA(cuMemGetAddressRange(&begin, &bytes, buffer.address + world.random.below(buffer.bytes())));
  if (begin != buffer.address) world.fail("beginning of the range", begin, buffer.address);
  if (bytes < buffer.bytes()) world.fail("size of the range", bytes, buffer.bytes());
}

void ask_how_much(World& world) {
  std::size_t free = 0, total = 0, of_device = 0;
  CHECK_CUDA(cuMemGetInfo(&free, &total));
  CHECK_CUDA(cuDeviceTotalMem(&of_device, world.device.device));
  if (free > total) world.fail("free memory", free, total);
  if (total > of_device) world.fail("memory", total, of_device);
}

const Registered<Step> one({{"ask_about_pointer", 2}, ask_about_pointer});
const Registered<Step> two({{"ask_about_range", 1}, ask_about_range});
const Registered<Step> three({{"ask_how_much", 1}, ask_how_much});
}  // namespace
