// SPDX-License-Identifier: Apache-2.0
// The table of device profiles. Peak rates are the vendor's; link figures are measured ones where somebody published
// them, because a link never gives its nominal rate.
#include "simulator/profile.h"

namespace simulator {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

constexpr const char* kYardstick = "definition of the yardstick";
constexpr const char* kV100 = "NVIDIA V100 data sheet and Volta architecture paper (SXM2, 16 GB)";
constexpr const char* kA100 = "NVIDIA A100 data sheet";
constexpr const char* kH100 = "NVIDIA H100 data sheet (SXM5), dense rate";
constexpr const char* kH200 = "NVIDIA H200 data sheet (SXM), dense rate";
constexpr const char* kRtx4090 = "NVIDIA Ada architecture paper";
constexpr const char* kTitanX = "NVIDIA TITAN X (Pascal) specification";
constexpr const char* kM40 = "NVIDIA Tesla M40 data sheet";
constexpr const char* kP100 = "NVIDIA Tesla P100 data sheet and Pascal architecture paper (SXM2)";

constexpr const char* kMeasuredGen3 =
    "measured on a TITAN X, 90 MB pinned: yaroslavvb/stuff, gpu-memory-transfer notebook";
constexpr const char* kAssumedGen3 = "assumed: as measured on a TITAN X, the same PCIe 3.0 x16";
constexpr const char* kMeasuredGen4 =
    "measured with nvbandwidth on an A100-SXM4-80GB: NVIDIA developer forum, thread 352186";
constexpr const char* kAssumedGen4 = "assumed: as measured on an A100-SXM4-80GB, the same PCIe 4.0 x16";
constexpr const char* kAssumedGen5 =
    "assumed: nvbandwidth on PCIe 5.0 x16 as printed in tutorials (55.6 GB/s); no measurement of this device was found";

constexpr const char* kNoTensor = "no tensor cores: the fp32 rate";
constexpr const char* kCapability = "CUDA C++ Programming Guide, compute capabilities";
constexpr const char* kGranularity = "kvcached bench_vmm and PyTorch CUDA notes: 2 MiB on present devices";
constexpr const char* kAssumedLaunch = "assumed: the yardstick's";

constexpr const char* kVirtualMemory = "measured on an A100: kvcached, benchmarks/bench_vmm";
constexpr const char* kAssumedHost = "assumed: the yardstick's";

// The costs of driver calls have been published for an A100 only; all devices take them.
constexpr HostCosts kHostCosts = {
    .launch = {2500, kAssumedHost},
    .create_page = {193'000, kVirtualMemory},
    .create_pages_limit = {64, kAssumedHost},
    .create_many = {12'000'000, kAssumedHost},
    .map = {1500, kVirtualMemory},
    .set_access = {36'000, kVirtualMemory},
    .unmap = {26'000, kVirtualMemory},
    .stream_call = {700, kAssumedHost},
    .copy = {4000, kAssumedHost},
};

constexpr HostCosts kYardstickCosts = {
    .launch = {2500, kYardstick},
    .create_page = {193'000, kYardstick},
    .create_pages_limit = {64, kYardstick},
    .create_many = {12'000'000, kYardstick},
    .map = {1500, kYardstick},
    .set_access = {36'000, kYardstick},
    .unmap = {26'000, kYardstick},
    .stream_call = {700, kYardstick},
    .copy = {4000, kYardstick},
};

struct Rates {
  double fp32_tera, tensor_tera, memory_giga, link_giga;
};

constexpr Profile device(const char* name, const char* title, std::uint64_t memory_gib, Rates rates, int capability,
                         int multiprocessors, const char* source, const char* link_source) {
  const bool has_tensor = rates.tensor_tera > 0;
  return {.name = name,
          .title = title,
          .memory_bytes = {memory_gib * kGiB, source},
          .fp32_flops = {rates.fp32_tera * kTera, source},
          .tensor_flops = {(has_tensor ? rates.tensor_tera : rates.fp32_tera) * kTera, has_tensor ? source : kNoTensor},
          .memory_bandwidth = {rates.memory_giga * kGiga, source},
          .link_to_device = {rates.link_giga * kGiga, link_source},
          .link_to_host = {rates.link_giga * kGiga, link_source},
          .launch = {4000, kAssumedLaunch},
          .compute_capability = {capability, kCapability},
          .multiprocessors = {multiprocessors, source},
          .page_bytes = {std::uint64_t{2} << 20, kGranularity},
          .host = kHostCosts};
}

constexpr Profile reference() {
  const char* const assumed = "assumed: an A100's; nothing is computed from it";
  Profile profile = device("reference", "Yardstick device", 64, {40, 0, 3500, 50}, 80, 108, kYardstick, kYardstick);
  profile.tensor_flops.source = "assumed: the fp32 rate";
  profile.launch.source = kYardstick;
  profile.compute_capability.source = assumed;
  profile.multiprocessors.source = assumed;
  profile.host = kYardstickCosts;
  return profile;
}

// Memory is the nominal size; a real device keeps some of it for itself.
constexpr Profile kProfiles[] = {
    reference(),
    device("v100-16g", "NVIDIA V100 SXM2 16 GB", 16, {15.7, 125, 900, 12.2}, 70, 80, kV100, kAssumedGen3),
    device("a100-40g", "NVIDIA A100 SXM4 40 GB", 40, {19.5, 312, 1555, 24.8}, 80, 108, kA100, kAssumedGen4),
    device("a100-80g", "NVIDIA A100 SXM4 80 GB", 80, {19.5, 312, 2039, 24.8}, 80, 108, kA100, kMeasuredGen4),
    device("h100-80g", "NVIDIA H100 SXM5 80 GB", 80, {67, 989.5, 3350, 55.6}, 90, 132, kH100, kAssumedGen5),
    device("h200", "NVIDIA H200 SXM 141 GB", 140, {67, 989.5, 4800, 55.6}, 90, 132, kH200, kAssumedGen5),
    device("rtx-4090", "NVIDIA GeForce RTX 4090 24 GB", 24, {82.6, 165.2, 1008, 24.8}, 89, 128, kRtx4090, kAssumedGen4),
    device("titan-x-12g", "NVIDIA TITAN X (Pascal) 12 GB", 12, {10.97, 0, 480, 12.2}, 61, 28, kTitanX, kMeasuredGen3),
    device("m40-12g", "NVIDIA Tesla M40 12 GB", 12, {6.8, 0, 288, 12.2}, 52, 24, kM40, kAssumedGen3),
    device("p100-16g", "NVIDIA Tesla P100 SXM2 16 GB", 16, {10.6, 0, 732, 12.2}, 60, 56, kP100, kAssumedGen3),
};

}  // namespace

std::span<const Profile> profiles() { return kProfiles; }

const Profile* find_profile(std::string_view name) {
  for (const Profile& profile : kProfiles) {
    if (name == profile.name) return &profile;
  }
  std::string why;
  return is_profile_file(name) ? read_profile(std::string(name), &why) : nullptr;
}

}  // namespace simulator
