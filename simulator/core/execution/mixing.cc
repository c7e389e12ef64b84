// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/execution/mixing.h"

#include <algorithm>
#include <cstring>

#include "simulator/core/hash.h"
#include "simulator/core/memory/tensor_map.h"
#include "simulator/core/streams/name_of.h"

namespace simulator {
namespace {

constexpr std::uint32_t kWord = sizeof(Address);
constexpr std::uint32_t kTensorMapAlignment = 64;
constexpr Address kLowestAddress = 0x10000;  // no mapping is below; so small integers need no look-up

class Scanner {
 public:
  Scanner(Kernel& kernel, const Buffers& buffers, const AddressSpace& addresses, const HostMemory& host,
          const Textures& textures)
      : kernel_(kernel), buffers_(buffers), addresses_(addresses), host_(host), textures_(textures) {}

  void scan(Parameter parameter) {
    hash_ = combine(hash_, parameter.size);
    const std::byte* const data = kernel_.block_of_parameters.data() + parameter.offset;
    for (std::uint32_t at = 0; at < parameter.size;) {
      const std::uint32_t place = parameter.offset + at;
      if (counted(place) == CountedByte::kNo) {
        ++at;
        continue;
      }
      if (at + kWord <= parameter.size && whole_word(place) && take_address(data + at, parameter.size == kWord)) {
        at += kWord;
        continue;
      }
      if (at % kTensorMapAlignment == 0 && at + kTensorMapBytes <= parameter.size && take_tensor_map(data + at)) {
        at += kTensorMapBytes;
        continue;
      }
      // A parameter of one word that is no address counts as a whole; larger parameters are searched at every byte.
      std::uint64_t plain = 0;
      const std::uint32_t bytes = parameter.size == kWord && at == 0 && whole_word(place) ? kWord : 1;
      std::memcpy(&plain, data + at, bytes);
      if (counted(place) == CountedByte::kYes) hash_ = combine(hash_, plain);
      at += bytes;
    }
  }

  std::uint64_t hash() const { return hash_; }

 private:
  CountedByte counted(std::uint32_t place) const {
    return kernel_.counted == nullptr ? CountedByte::kYes : (*kernel_.counted)[place];
  }

  // An address of which some byte is not loaded does not count.
  bool whole_word(std::uint32_t place) const {
    for (std::uint32_t i = 0; i < kWord; ++i) {
      if (counted(place + i) == CountedByte::kNo) return false;
    }
    return true;
  }

  bool take_address(const std::byte* from, bool alone) {
    Address address = 0;
    std::memcpy(&address, from, kWord);
    return take_texture(address) || take(address, alone);
  }

  // A texture counts by its shape, because its handle is different each time.
  bool take_texture(std::uint64_t handle) {
    const Textures::Texture* const found = textures_.find(handle);
    if (found == nullptr) return false;
    const Fetch& fetch = found->fetch;
    hash_ = combine(hash_, found->writes ? 6 : 5);
    if (found->writes) return take(fetch.address, true);
    hash_ = combine(combine(hash_, fetch.shape.width), fetch.shape.height);
    kernel_.fetched.push_back(fetch);
    return true;
  }

  // A tensor map counts by its contents, and names the buffer that contains its tensor.
  bool take_tensor_map(const std::byte* from) {
    TensorMap map;
    if (!decode(from, &map)) return false;
    hash_ = combine(hash_, 3);
    if (!take(map.address, false)) hash_ = combine(hash_, 4);
    for (const std::uint64_t value :
         {std::uint64_t{map.rank}, std::uint64_t{map.element_bytes}, std::uint64_t{map.rest}})
      hash_ = combine(hash_, value);
    for (std::uint32_t i = 0; i < kMostTensorDimensions; ++i)
      hash_ = combine(combine(combine(hash_, map.extents[i]), map.strides[i]), map.box[i]);
    return true;
  }

  bool take(Address address, bool alone) {
    if (address < kLowestAddress) return false;
    auto buffer = buffers_.find(address);
    const bool directly = buffer.has_value() && alone;
    if (!buffer) {
      buffer = buffers_.find(address - 1);  // one past the end
    }
    if (buffer) {
      hash_ = combine(combine(combine(hash_, 1), buffer->number), address - buffer->address);
      const auto same = [&](const Buffer& other) { return other.number == buffer->number; };
      const auto known = std::find_if(kernel_.named.begin(), kernel_.named.end(), same);
      const auto place = static_cast<std::size_t>(known - kernel_.named.begin());
      if (known == kernel_.named.end()) {
        kernel_.named.push_back(*buffer);
        kernel_.named_directly.push_back(false);
      }
      if (directly) kernel_.named_directly[place] = true;
      return true;
    }
    if (!addresses_.is_reserved(address) && !host_.find(address)) return false;
    hash_ = combine(hash_, 2);
    return true;
  }

  Kernel& kernel_;
  const Buffers& buffers_;
  const AddressSpace& addresses_;
  const HostMemory& host_;
  const Textures& textures_;
  std::uint64_t hash_ = 0;
};

}  // namespace

void name_buffers(Kernel& kernel, const Buffers& buffers, const AddressSpace& addresses, const HostMemory& host,
                  const Textures& textures) {
  kernel.fetched.clear();
  kernel.named.clear();
  kernel.named_directly.clear();
  Scanner scanner(kernel, buffers, addresses, host, textures);
  if (kernel.declared) {
    kernel.fetched.push_back(kernel.declared->read);
  } else {
    for (const Parameter& parameter : kernel.parameters) scanner.scan(parameter);
  }
  std::uint64_t identity = combine(hash_text(kernel.name), scanner.hash());
  for (const unsigned extent :
       {kernel.grid.x, kernel.grid.y, kernel.grid.z, kernel.block.x, kernel.block.y, kernel.block.z}) {
    identity = combine(identity, extent);
  }
  kernel.identity = identity;
}

std::uint64_t mix_buffers(const Kernel& kernel, Contents& contents) {
  std::uint64_t hash = kernel.identity;
  for (const Buffer& buffer : kernel.named) hash = combine(hash, contents.digest(buffer.address, buffer.bytes));
  for (const Fetch& fetch : kernel.fetched) {
    for_rows(fetch.shape,
             [&](Bytes offset, Bytes bytes) { hash = combine(hash, contents.digest(fetch.address + offset, bytes)); });
  }
  for (const Buffer& buffer : kernel.named) contents.derive(buffer.address, buffer.bytes, combine(hash, buffer.number));
  return hash;
}

}  // namespace simulator
