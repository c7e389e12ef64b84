// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/kernel_codes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "config/trusted_file.h"
#include "hooks/interpose/process_lifetime.h"

namespace thermocline {
namespace {

bool is_wrapper(const void* image) {
  constexpr std::uint32_t kWrapperMagic = 0x466243b1;
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  return magic == kWrapperMagic;
}

bool is_said_to_be_proven(const std::string& name) {
  const char* const said = variable_of_process("THERMOCLINE_TEST_PROVEN");
  return said != nullptr && *said != '\0' && name.find(said) != std::string::npos;
}

std::unique_ptr<KernelKnowledge> know(std::shared_ptr<const DeviceCode> code, const std::string& name) {
  auto known = std::make_unique<KernelKnowledge>();
  static_cast<AnalysedCode&>(*known) = analyse_code(code.get(), name);
  known->code = std::move(code);
  known->is_taken_as_proven = !known->unknown && is_said_to_be_proven(name);
  if (known->is_taken_as_proven) known->refused = {};
  known->trial = std::make_unique<KernelTrial>(name);
  return known;
}

}  // namespace

void KernelKnowledge::note_other_shape(const OtherShape& shape) const {
  Noted expected = Noted::kNothing;
  if (!noted_.compare_exchange_strong(expected, Noted::kBeingWritten)) return;
  other_shape_ = shape;
  noted_.store(Noted::kThere, std::memory_order_release);
}

std::optional<OtherShape> KernelKnowledge::other_shape() const {
  return noted_.load(std::memory_order_acquire) == Noted::kThere ? std::optional(other_shape_) : std::nullopt;
}

bool KernelKnowledge::has_layout(const ParameterLayout& layout) const {
  return std::ranges::all_of(kernels, [&](const std::unique_ptr<KernelCode>& one) {
    return std::ranges::equal(one->kernel().parameters, layout, {}, &PtxKernel::Parameter::bytes,
                              &ParameterSlot::bytes);
  });
}

void KernelCodes::loaded(const void* handle, const void* image, bool is_wanted) {
  if (image == nullptr) return unloaded(handle);
  auto made = std::make_shared<Image>();
  if (is_wrapper(image)) {
    made->wrapper = image;
  } else if (is_wanted) {
    made->code = std::make_shared<DeviceCode>(read_device_code(image));
  }
  const bool is_copied = made->wrapper == nullptr && made->code == nullptr;
  const MutexLock lock(mutex_);
  // A handle comes again where the context of its code has ended.
  if (const auto before = images_.find(handle); before != images_.end()) drop_copy(before->second.get());
  if (is_copied) made->copy = copy_of_device_code(image, kMostCopied - copied_);
  copied_ += made->copy.size();
  images_[handle] = std::move(made);
}

void KernelCodes::forget_images() {
  const MutexLock lock(mutex_);
  change();
  functions_.clear();
  images_.clear();
  copied_ = 0;
}

void KernelCodes::read(Image* image) {
  if (image->code != nullptr) return;
  if (image->wrapper != nullptr) image->code = std::make_shared<DeviceCode>(read_device_code(image->wrapper));
  if (image->copy.empty()) return;
  image->code = std::make_shared<DeviceCode>(read_device_code(image->copy.data()));
  drop_copy(image);
}

void KernelCodes::drop_copy(Image* image) { copied_ -= std::exchange(image->copy, {}).size(); }

void KernelCodes::is_of(const void* handle, const void* of) {
  const MutexLock lock(mutex_);
  if (const auto image = images_.find(of); image != images_.end()) images_[handle] = image->second;
}

void KernelCodes::found(const void* function, const void* handle, const char* name) {
  if (name == nullptr) return;
  const MutexLock lock(mutex_);
  const auto image = images_.find(handle);
  if (image == images_.end()) {
    if (functions_.erase(function) != 0) change();
    return;
  }
  Function& one = functions_[function];
  if (one.image == image->second && one.name == name) return;
  one = {image->second, name};
  change();
}

void KernelCodes::same_function(const void* function, const void* as) {
  const MutexLock lock(mutex_);
  const auto other = functions_.find(as);
  if (other == functions_.end()) {
    if (functions_.erase(function) != 0) change();
    return;
  }
  const Function copy = other->second;
  Function& one = functions_[function];
  if (one.image != copy.image || one.name != copy.name) change();
  one = copy;
}

void KernelCodes::unloaded(const void* handle) {
  const MutexLock lock(mutex_);
  change();
  const auto image = images_.find(handle);
  if (image == images_.end()) return;
  // A function of the image may be known by other handles of it, too.
  const std::shared_ptr<Image> gone = image->second;
  drop_copy(gone.get());
  std::erase_if(functions_, [&](const auto& one) { return one.second.image == gone; });
  std::erase_if(images_, [&](const auto& one) { return one.second == gone; });
}

void KernelCodes::forget_functions() {
  const MutexLock lock(mutex_);
  change();
  functions_.clear();
}

const KernelKnowledge& KernelCodes::knowledge_of(const void* function, const char* name) {
  const MutexLock lock(mutex_);
  const auto found = functions_.find(function);
  if (found == functions_.end()) {
    std::unique_ptr<KernelKnowledge>& unknown = all_[{nullptr, name == nullptr ? "a kernel without a name" : name}];
    if (unknown == nullptr) unknown = know(nullptr, {});
    return *unknown;
  }
  Function& one = found->second;
  if (one.known != nullptr) return *one.known;
  read(one.image.get());
  std::unique_ptr<KernelKnowledge>& known = all_[{one.image->code.get(), one.name}];
  if (known == nullptr) known = know(one.image->code, one.name);
  one.known = known.get();
  return *one.known;
}

std::vector<KernelVerdict> KernelCodes::verdicts(LaunchCounts KernelKnowledge::*counts) const {
  std::vector<KernelVerdict> all;
  std::vector<const DeviceCode*> codes;  // the code of each entry of `all`
  const auto row_of = [&](const DeviceCode* code, const std::string& name) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].name != name || codes[i] == nullptr || code == nullptr) continue;
      if (*codes[i] == *code) return &all[i];
    }
    return static_cast<KernelVerdict*>(nullptr);
  };
  const MutexLock lock(mutex_);
  for (const auto& [of, known] : all_) {
    KernelVerdict one{.name = of.second, .refused = known->refused, .launches = {}};
    one.reruns = known->trial->reruns();
    one.rehearsed = known->trial->rehearsed();
    one.verified = known->trial->verified();
    one.mismatched = known->trial->mismatched();
    one.state = known->trial->state();
    std::ranges::transform((*known).*counts, one.launches.begin(), [](const auto& count) { return count.load(); });
    if (one.all_launches() == 0) continue;
    one.unknown = known->unknown;
    one.arguments = arguments_of(*known, of.second);
    one.other_shape = known->other_shape();
    if (KernelVerdict* const same = row_of(of.first, of.second)) {
      same->add(one);
    } else {
      all.push_back(std::move(one));
      codes.push_back(of.first);
    }
  }
  return all;
}

KernelCodes& kernel_codes() { return process_lifetime<KernelCodes>(); }

}  // namespace thermocline
