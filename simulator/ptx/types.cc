// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/module.h"

namespace simulator::ptx {
namespace {

struct Named {
  std::string_view name;
  Type type;
};

constexpr Named kTypes[] = {
    {"b8", {Kind::kBits, 8}},
    {"b16", {Kind::kBits, 16}},
    {"b32", {Kind::kBits, 32}},
    {"b64", {Kind::kBits, 64}},
    {"b128", {Kind::kBits, 128}},
    {"u8", {Kind::kUnsigned, 8}},
    {"u16", {Kind::kUnsigned, 16}},
    {"u32", {Kind::kUnsigned, 32}},
    {"u64", {Kind::kUnsigned, 64}},
    {"s8", {Kind::kSigned, 8}},
    {"s16", {Kind::kSigned, 16}},
    {"s32", {Kind::kSigned, 32}},
    {"s64", {Kind::kSigned, 64}},
    {"f16", {Kind::kFloat, 16}},
    {"f32", {Kind::kFloat, 32}},
    {"f64", {Kind::kFloat, 64}},
    {"bf16", {Kind::kBfloat, 16}},
    {"pred", {Kind::kPredicate, 1}},
    {"f16x2", {Kind::kFloat, 32, true}},
    {"bf16x2", {Kind::kBfloat, 32, true}},
    {"f32x2", {Kind::kFloat, 64, true}},
};

}  // namespace

Type type_of(std::string_view name) {
  for (const Named& entry : kTypes) {
    if (entry.name == name) return entry.type;
  }
  return {};
}

}  // namespace simulator::ptx
