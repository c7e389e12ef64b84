// SPDX-License-Identifier: Apache-2.0
// The table of device profiles. Peak rates are the vendor's; link figures are published measurements where available,
// because a link never reaches its nominal rate.
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
// NVIDIA's own data sheets of the following devices were not accessible; these pages were used instead.
constexpr const char* kT4 = "sysrqmts.com, NVIDIA Tesla T4 (8.141 and 65.13 TFLOP/s, 320 GB/s, 40 SMs)";
constexpr const char* kL4 =
    "fpsbench.com (30.29 TFLOP/s, 300.1 GB/s, 7424 cores: 58 SMs of 128) and grokipedia.com (242 TFLOP/s with "
    "sparsity, "
    "dense half of it) on the NVIDIA L4";
constexpr const char* kL40s =
    "the sheet's table at mullet.se, product 355414, dense rate (it does not say with which accumulation); 142 SMs: "
    "omegaco.ae";
constexpr const char* kA10 =
    "sysrqmts.com, NVIDIA A10 PCIe (31.24 TFLOP/s, 600.2 GB/s, 72 SMs); tensor cores: the data sheet as quoted by "
    "DS436/sanskrit-token (125 dense)";
constexpr const char* kRtx3090 =
    "holynerdvana.blogspot.com, RTX 3090 specifications (35.6 TFLOP/s, 936 GB/s, 82 SMs); tensor cores: RTX Blackwell "
    "paper, table 3, as quoted in a public repository (71.2 dense, fp32 accumulation)";
constexpr const char* kRtx5090 =
    "Linux Format, May 2025 (170 SMs, 21760 cores at 2407 MHz: 104.8 TFLOP/s; 1792 GB/s); tensor cores: RTX Blackwell "
    "paper as quoted by DS436/sanskrit-token (209.5 dense, fp32 accumulation)";
constexpr const char* kB200 =
    "NVIDIA's table of the HGX B200 at zdszero.github.io (75 and 4500 TFLOP/s, the latter with sparsity, dense half of "
    "it; 180 GB, 7.7 TB/s); 148 SMs: pytorch/ao, pull request 4002";
constexpr const char* kGh200 = "datacrunch.io, data movement in the GH200 (96 GB, 4000 GB/s)";
constexpr const char* kAssumedGh200 = "assumed: an H100 SXM5's; no page with the GH200's own figure was found";
constexpr const char* kEccT4 = "16 GB less a sixteenth for ECC: nvidia-smi of many T4 shows 15360 MiB";
constexpr const char* kEccL4 = "24 GB less a sixteenth for ECC: nvidia-smi of many L4 shows 23034 MiB";
constexpr const char* kEccA10 = "24 GB less a sixteenth for ECC: nvidia-smi of many A10 shows 23028 MiB";
constexpr const char* kEccL40s = "48 GB less a sixteenth for ECC: nvidia-smi of many L40S shows 46068 MiB";
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

constexpr const char* kMeasured5090 =
    "measured with nvbandwidth on eight RTX 5090: tinygrad/open-gpu-kernel-modules, issue 29";
constexpr const char* kMeasuredC2c =
    "measured on a GH200 by Schieffer et al. (arXiv 2407.07850), as 4nownews.com reports it, 2024-07-27; nominally 450 "
    "GB/s each way";

constexpr const char* kNoTensor = "no tensor cores: the fp32 rate";
constexpr const char* kCapability = "CUDA C++ Programming Guide, compute capabilities";
constexpr const char* kGranularity = "kvcached bench_vmm and PyTorch CUDA notes: 2 MiB on present devices";
constexpr const char* kAssumedLaunch = "assumed: the yardstick's";

constexpr const char* kVirtualMemory = "measured on an A100: kvcached, benchmarks/bench_vmm";
constexpr const char* kAssumedHost = "assumed: the yardstick's";
constexpr const char* kAssumedNext = "assumed: as for the first, as measured on an H200";
constexpr const char* kMeasuredH200 = "measured on an H200, driver 580.159: bench/results/gpu-nvidia-h200.json";

// Costs of driver calls were published for an A100, and measured on an H200 (bench/results/gpu-nvidia-h200.json). Other
// devices have the former. That each mapping costs as much as the first was measured on the H200 only.
constexpr HostCosts kHostCosts = {
    .launch = {2500, kAssumedHost},
    .create_page = {193'000, kVirtualMemory},
    .create_pages_limit = {64, kAssumedHost},
    .create_many = {12'000'000, kAssumedHost},
    .map = {1500, kVirtualMemory},
    .set_access = {36'000, kVirtualMemory},
    .set_access_next = {36'000, kAssumedNext},
    .unmap = {26'000, kVirtualMemory},
    .unmap_next = {26'000, kAssumedNext},
    .stream_call = {700, kAssumedHost},
    .copy = {4000, kAssumedHost},
};

constexpr HostCosts kH200Costs = {
    .launch = {2500, kAssumedHost},
    .create_page = {10'000, kMeasuredH200},
    .create_pages_limit = {64, kAssumedHost},
    .create_many = {1'600'000, kMeasuredH200},
    .map = {600, kMeasuredH200},
    .set_access = {29'000, kMeasuredH200},
    .set_access_next = {30'000, kMeasuredH200},
    .unmap = {20'000, kMeasuredH200},
    .unmap_next = {20'000, kMeasuredH200},
    .stream_call = {950, kMeasuredH200},
    .copy = {1500, kMeasuredH200},
};

constexpr HostCosts kYardstickCosts = {
    .launch = {2500, kYardstick},
    .create_page = {193'000, kYardstick},
    .create_pages_limit = {64, kYardstick},
    .create_many = {12'000'000, kYardstick},
    .map = {1500, kYardstick},
    .set_access = {36'000, kYardstick},
    .set_access_next = {0, kYardstick},
    .unmap = {26'000, kYardstick},
    .unmap_next = {0, kYardstick},
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
  const char* const assumed = "assumed: an A100's";
  Profile profile = device("reference", "Yardstick device", 64, {40, 0, 3500, 50}, 80, 108, kYardstick, kYardstick);
  profile.tensor_flops.source = "assumed: the fp32 rate";
  profile.launch.source = kYardstick;
  profile.compute_capability.source = assumed;
  profile.multiprocessors.source = assumed;
  profile.host = kYardstickCosts;
  return profile;
}

// GDDR6 stores the ECC bits in the memory itself: 6.25 % according to the CUDA C++ Best Practices Guide, as quoted in
// NVIDIA's developer forum, thread 173099. Clouds offer these cards with ECC on.
constexpr Profile less_ecc(Profile profile, const char* source) {
  profile.memory_bytes = {profile.memory_bytes.value / 16 * 15, source};
  return profile;
}

constexpr Profile rtx_5090() {
  Profile profile = device("rtx-5090", "NVIDIA GeForce RTX 5090 32 GB", 32, {104.8, 209.5, 1792, 56.3}, 120, 170,
                           kRtx5090, kMeasured5090);
  profile.link_to_host.value = 57.3 * kGiga;
  return profile;
}

constexpr Profile h200() {
  Profile profile =
      device("h200", "NVIDIA H200 SXM 141 GB", 140, {67, 989.5, 4800, 55.3}, 90, 132, kH200, kMeasuredH200);
  profile.host = kH200Costs;
  return profile;
}

constexpr Profile grace_hopper() {
  Profile profile = device("gh200", "NVIDIA GH200 96 GB", 96, {67, 989.5, 4000, 375}, 90, 132, kGh200, kMeasuredC2c);
  profile.link_to_host.value = 297 * kGiga;
  profile.fp32_flops.source = kAssumedGh200;
  profile.tensor_flops.source = kAssumedGh200;
  profile.multiprocessors.source = kAssumedGh200;
  return profile;
}

// The memory is the nominal size minus what ECC takes; a real device reserves some more for itself.
constexpr Profile kProfiles[] = {
    reference(),
    less_ecc(device("t4", "NVIDIA T4 16 GB", 16, {8.1, 65, 320, 12.2}, 75, 40, kT4, kAssumedGen3), kEccT4),
    less_ecc(device("a10", "NVIDIA A10 24 GB", 24, {31.2, 125, 600, 24.8}, 86, 72, kA10, kAssumedGen4), kEccA10),
    less_ecc(device("l4", "NVIDIA L4 24 GB", 24, {30.3, 121, 300, 24.8}, 89, 58, kL4, kAssumedGen4), kEccL4),
    less_ecc(device("l40s", "NVIDIA L40S 48 GB", 48, {91.6, 362.05, 864, 24.8}, 89, 142, kL40s, kAssumedGen4),
             kEccL40s),
    device("v100-16g", "NVIDIA V100 SXM2 16 GB", 16, {15.7, 125, 900, 12.2}, 70, 80, kV100, kAssumedGen3),
    device("a100-40g", "NVIDIA A100 SXM4 40 GB", 40, {19.5, 312, 1555, 24.8}, 80, 108, kA100, kAssumedGen4),
    device("a100-80g", "NVIDIA A100 SXM4 80 GB", 80, {19.5, 312, 2039, 24.8}, 80, 108, kA100, kMeasuredGen4),
    device("h100-80g", "NVIDIA H100 SXM5 80 GB", 80, {67, 989.5, 3350, 55.6}, 90, 132, kH100, kAssumedGen5),
    h200(),
    device("b200", "NVIDIA B200 SXM 180 GB", 180, {75, 2250, 7700, 55.6}, 100, 148, kB200, kAssumedGen5),
    grace_hopper(),
    device("rtx-3090", "NVIDIA GeForce RTX 3090 24 GB", 24, {35.6, 71.2, 936, 24.8}, 86, 82, kRtx3090, kAssumedGen4),
    device("rtx-4090", "NVIDIA GeForce RTX 4090 24 GB", 24, {82.6, 165.2, 1008, 24.8}, 89, 128, kRtx4090, kAssumedGen4),
    rtx_5090(),
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
