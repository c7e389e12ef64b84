// SPDX-License-Identifier: Apache-2.0
// Sampling of textures. Source: CUDA C++ Programming Guide, "Texture Fetching": positions of texels, addressing, and
// interpolation with weights that are fixed-point numbers of 8 fractional bits.
#include "simulator/ptx/texture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "simulator/ptx/block.h"
#include "simulator/ptx/halves.h"
#include "simulator/ptx/helpers.h"

namespace simulator::ptx {
namespace {

// CUaddress_mode.
enum Addressing : std::uint32_t { kWrap, kClamp, kMirror, kBorder };

// A texel: numbers, or integers if it is not read as a number.
struct Texel {
  float numbers[4] = {0, 0, 0, 0};
  std::uint32_t words[4] = {0, 0, 0, 0};
};

float from_srgb(float value) { return value <= 0.04045f ? value / 12.92f : std::pow((value + 0.055f) / 1.055f, 2.4f); }

void read_channel(const Texture& texture, const std::byte* from, unsigned channel, Texel* out) {
  std::uint32_t raw = 0;
  std::memcpy(&raw, from, texture.bits / 8);
  const unsigned unused = 32 - texture.bits;
  float number = 0;
  switch (texture.channel) {
    case Texture::Channel::kFloat:
      number = texture.bits == 16 ? static_cast<float>(decode_half(kF16, static_cast<std::uint16_t>(raw)))
                                  : std::bit_cast<float>(raw);
      raw = std::bit_cast<std::uint32_t>(number);
      break;
    case Texture::Channel::kSigned: {
      const std::int32_t value = static_cast<std::int32_t>(raw << unused) >> unused;
      raw = static_cast<std::uint32_t>(value);
      number = std::max(static_cast<float>(value) / static_cast<float>((1u << (texture.bits - 1)) - 1), -1.0f);
      break;
    }
    case Texture::Channel::kUnsigned:
      number = static_cast<float>(static_cast<double>(raw) / static_cast<double>(~std::uint32_t{0} >> unused));
      if (texture.is_srgb && channel < 3) number = from_srgb(number);
  }
  out->numbers[channel] = number;
  out->words[channel] = raw;
}

Texel border_of(const Texture& texture) {
  Texel texel;
  for (unsigned channel = 0; channel < 4; ++channel) {
    texel.numbers[channel] = texture.border[channel];
    texel.words[channel] = texture.channel == Texture::Channel::kFloat
                               ? std::bit_cast<std::uint32_t>(texture.border[channel])
                               : static_cast<std::uint32_t>(static_cast<std::int64_t>(texture.border[channel]));
  }
  return texel;
}

// The texel's index in one dimension; -1: the border.
std::int64_t addressed(std::int64_t index, std::int64_t count, std::uint32_t addressing, bool normalized) {
  if (index >= 0 && index < count) return index;
  if (addressing == kBorder) return -1;
  if (addressing == kWrap && normalized) return (index % count + count) % count;
  if (addressing == kMirror && normalized) {
    const std::int64_t within = (index % (2 * count) + 2 * count) % (2 * count);
    return within < count ? within : 2 * count - 1 - within;
  }
  return std::clamp<std::int64_t>(index, 0, count - 1);
}

class Sampler {
 public:
  Sampler(const Texture& texture, unsigned dimensions, std::int64_t layer)
      : texture_(texture), dimensions_(dimensions), layer_(layer) {}

  // For a cube, whose faces are two-dimensional: outside of a face its edges are used.
  void stay_on_face() { on_face_ = true; }

  Texel at(const std::int64_t (&index)[3]) const {
    std::int64_t place[3] = {0, 0, layer_};
    for (unsigned i = 0; i < dimensions_; ++i) {
      const std::uint32_t how = on_face_ ? kClamp : texture_.addressing[i];
      place[i] = addressed(index[i], texture_.extent[i], how, texture_.normalized_coordinates);
      if (place[i] < 0) return border_of(texture_);
    }
    return texel(place);
  }

  Texel texel(const std::int64_t (&place)[3]) const {
    const std::uint64_t bytes = texture_.bits / 8;
    const std::uint64_t address = texture_.address + static_cast<std::uint64_t>(place[2]) * texture_.slice_pitch +
                                  static_cast<std::uint64_t>(place[1]) * texture_.row_pitch +
                                  static_cast<std::uint64_t>(place[0]) * bytes * texture_.channels;
    Texel out;
    for (unsigned channel = 0; channel < texture_.channels; ++channel)
      read_channel(texture_, reinterpret_cast<const std::byte*>(address + channel * bytes), channel, &out);
    return out;
  }

  Texel nearest(const double (&x)[3]) const {
    std::int64_t index[3] = {};
    for (unsigned i = 0; i < dimensions_; ++i) index[i] = whole(x[i], i);
    return at(index);
  }

  // Interpolates the 2, 4 or 8 surrounding texels.
  Texel interpolated(const double (&x)[3]) const {
    std::int64_t first[3] = {};
    double weight[3] = {};
    split(x, first, weight);
    Texel sum;
    double numbers[4] = {};
    for (unsigned corner = 0; corner < 1u << dimensions_; ++corner) {
      std::int64_t index[3] = {};
      double share = 1;
      for (unsigned i = 0; i < dimensions_; ++i) {
        const bool upper = (corner >> i & 1) != 0;
        index[i] = first[i] + (upper ? 1 : 0);
        share *= upper ? weight[i] : 1 - weight[i];
      }
      if (share == 0) continue;
      const Texel of = at(index);
      for (unsigned channel = 0; channel < 4; ++channel)
        numbers[channel] += share * static_cast<double>(of.numbers[channel]);
    }
    for (unsigned channel = 0; channel < 4; ++channel) sum.numbers[channel] = static_cast<float>(numbers[channel]);
    return sum;
  }

  // One channel of four texels, counter-clockwise from the lower left.
  Texel gathered(const double (&x)[3], unsigned channel) const {
    std::int64_t first[3] = {};
    double weight[3] = {};
    split(x, first, weight);
    constexpr std::int64_t kSteps[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
    Texel out;
    for (unsigned i = 0; i < 4; ++i) {
      const Texel of = at({first[0] + kSteps[i][0], first[1] + kSteps[i][1], 0});
      out.numbers[i] = of.numbers[channel];
      out.words[i] = of.words[channel];
    }
    return out;
  }

 private:
  // Coordinates outside the range of integers, and NaN, map to an edge.
  std::int64_t whole(double x, unsigned dimension) const {
    const double least = -1e9, most = static_cast<double>(texture_.extent[dimension]) + 1e9;
    return static_cast<std::int64_t>(std::floor(std::isnan(x) ? 0 : std::clamp(x, least, most)));
  }

  void split(const double (&x)[3], std::int64_t (&first)[3], double (&weight)[3]) const {
    for (unsigned i = 0; i < dimensions_; ++i) {
      first[i] = whole(x[i] - 0.5, i);
      const double rest = x[i] - 0.5 - static_cast<double>(first[i]);
      weight[i] = std::isfinite(rest) ? std::clamp(std::nearbyint(rest * 256) / 256, 0.0, 1.0) : 0;
    }
  }

  const Texture& texture_;
  unsigned dimensions_;
  std::int64_t layer_;
  bool on_face_ = false;
};

// Table "Cubemap Fetch" of the CUDA C++ Programming Guide: the axis with the largest magnitude selects the face.
unsigned face_of(const float (&x)[3], double (&out)[3]) {
  const float a = std::fabs(x[0]), b = std::fabs(x[1]), c = std::fabs(x[2]);
  unsigned face = 0;
  float most = 0, s = 0, t = 0;
  if (a >= b && a >= c) {
    const bool negative = std::signbit(x[0]);
    face = negative ? 1 : 0;
    most = a, s = negative ? x[2] : -x[2], t = -x[1];
  } else if (b >= c) {
    const bool negative = std::signbit(x[1]);
    face = negative ? 3 : 2;
    most = b, s = x[0], t = negative ? -x[2] : x[2];
  } else {
    const bool negative = std::signbit(x[2]);
    face = negative ? 5 : 4;
    most = c, s = negative ? -x[0] : x[0], t = -x[1];
  }
  out[0] = (static_cast<double>(s) / static_cast<double>(most) + 1) / 2;
  out[1] = (static_cast<double>(t) / static_cast<double>(most) + 1) / 2;
  return face;
}

struct Shape {
  unsigned dimensions;
  bool is_layered, is_cube;
};

Shape shape_of(std::uint32_t how) {
  switch (static_cast<Geometry>(how & kGeometryMask)) {
    case Geometry::k1d:
      return {1, false, false};
    case Geometry::k2d:
      return {2, false, false};
    case Geometry::k3d:
      return {3, false, false};
    case Geometry::k1dLayered:
      return {1, true, false};
    case Geometry::k2dLayered:
      return {2, true, false};
    case Geometry::kCube:
      return {2, false, true};
    default:
      return {2, true, true};
  }
}

Texel fetched(const Texture& texture, const std::uint32_t (&coordinates)[4], std::uint32_t how) {
  const Shape shape = shape_of(how);
  const std::uint32_t* given = coordinates;
  std::int64_t layer = shape.is_layered ? std::int64_t{*given++} : 0;
  const bool integers = (how & kIntegerCoordinates) != 0;
  float numbers[3] = {};
  double x[3] = {};
  std::int64_t index[3] = {};
  for (unsigned i = 0; i < (shape.is_cube ? 3 : shape.dimensions); ++i) {
    numbers[i] = std::bit_cast<float>(given[i]);
    x[i] = static_cast<double>(numbers[i]);
    index[i] = static_cast<std::int32_t>(given[i]);
  }
  if (shape.is_cube) layer = 6 * layer + face_of(numbers, x);
  layer = std::clamp<std::int64_t>(layer, 0, std::int64_t{texture.extent[2]} - 1);
  Sampler sampler(texture, shape.dimensions, layer);
  if (shape.is_cube) sampler.stay_on_face();
  if (integers) {
    if (texture.is_linear && (index[0] < 0 || index[0] >= texture.extent[0])) return {};
    return sampler.at(index);
  }
  for (unsigned i = 0; i < shape.dimensions; ++i) {
    if (texture.normalized_coordinates || shape.is_cube) x[i] *= texture.extent[i];
  }
  if ((how & kGathers) != 0) return sampler.gathered(x, how / kGatheredChannel);
  return texture.interpolates ? sampler.interpolated(x) : sampler.nearest(x);
}

void texture_fetch(ThreadContext* thread, std::uint32_t site, std::uint64_t handle, std::uint32_t c0, std::uint32_t c1,
                   std::uint32_t c2, std::uint32_t c3, std::uint32_t how, std::uint32_t* out) {
  const Texture& texture = thread->block->texture(*thread, handle, false, site);
  const Texel texel = fetched(texture, {c0, c1, c2, c3}, how);
  const bool as_numbers = texture.channel == Texture::Channel::kFloat || texture.reads_normalized;
  for (unsigned i = 0; i < 4; ++i)
    out[i] = as_numbers ? std::bit_cast<std::uint32_t>(texel.numbers[i]) : texel.words[i];
}

alignas(16) thread_local std::byte outside[2][16];  // for reads, and for writes, outside of a surface

// The address of bytes that may be accessed.
std::uint64_t surface_address(ThreadContext* thread, std::uint32_t site, std::uint64_t handle, std::uint32_t c0,
                              std::uint32_t c1, std::uint32_t c2, std::uint32_t c3, std::uint32_t how) {
  const Texture& texture = thread->block->texture(*thread, handle, true, site);
  const Shape shape = shape_of(how);
  const std::uint32_t bytes = how >> 8 & 31;
  const std::uint32_t given[4] = {c0, c1, c2, c3};
  const std::uint32_t* next = given;
  std::int64_t place[3] = {};
  if (shape.is_layered) place[2] = std::int64_t{*next++};
  for (unsigned i = 0; i < shape.dimensions; ++i) place[i] = static_cast<std::int32_t>(next[i]);
  if (shape.is_cube) place[2] = place[2] * 6 + next[2];
  const std::int64_t extents[3] = {static_cast<std::int64_t>(texture.row_pitch) - bytes + 1, texture.extent[1],
                                   texture.extent[2]};
  bool is_inside = true;
  for (unsigned i = 0; i < 3; ++i) is_inside = is_inside && place[i] >= 0 && place[i] < extents[i];
  if (!is_inside && (how & kClampsOutside) != 0) {
    for (unsigned i = 0; i < 3; ++i) place[i] = std::clamp<std::int64_t>(place[i], 0, extents[i] - 1);
    place[0] -= place[0] % bytes;
  } else if (!is_inside && (how & kZeroOutside) != 0) {
    std::memset(outside[0], 0, sizeof outside[0]);
    return reinterpret_cast<std::uint64_t>(outside[(how & kWritesSurface) != 0 ? 1 : 0]);
  } else if (!is_inside) {
    thread->block->fail(*thread, Fault::kIllegalAddress, texture.address, "outside of a surface",
                        static_cast<int>(site));
  }
  if (place[0] % bytes != 0)
    thread->block->fail(*thread, Fault::kMisaligned, texture.address, "misaligned in a surface",
                        static_cast<int>(site));
  const std::uint64_t address = texture.address + static_cast<std::uint64_t>(place[2]) * texture.slice_pitch +
                                static_cast<std::uint64_t>(place[1]) * texture.row_pitch +
                                static_cast<std::uint64_t>(place[0]);
  thread->block->trace_surface(address, bytes, (how & kWritesSurface) != 0);
  return address;
}

std::uint32_t texture_query(ThreadContext* thread, std::uint32_t site, std::uint64_t handle, std::uint32_t is_surface,
                            std::uint32_t query) {
  const Texture& texture = thread->block->texture(*thread, handle, is_surface != 0, site);
  switch (static_cast<TextureQuery>(query)) {
    case TextureQuery::kWidth:
      return texture.extent[0];
    case TextureQuery::kHeight:
      return texture.extent[1];
    case TextureQuery::kDepth:
      return texture.extent[2];
    default:
      return texture.normalized_coordinates ? 1 : 0;
  }
}

}  // namespace

void add_texture_helpers(std::vector<Helper>* to) {
  to->push_back({"ptx_texture_fetch", reinterpret_cast<const void*>(texture_fetch)});
  to->push_back({"ptx_surface_address", reinterpret_cast<const void*>(surface_address)});
  to->push_back({"ptx_texture_query", reinterpret_cast<const void*>(texture_query)});
}

}  // namespace simulator::ptx
