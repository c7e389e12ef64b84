// SPDX-License-Identifier: Apache-2.0
// A kernel of a text, and the proof about it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "hooks/relaunch/ptx_proof.h"

namespace thermocline {

struct AnalysedKernel {
  std::string text;
  PtxKernel kernel;
  PtxAccesses accesses;
  std::unique_ptr<PtxProof> proof;

  std::string unknown() const { return text_of(accesses.unknown.why); }
  std::string refused() const { return text_of(proof->refused().why); }
};

// Null: the kernel is not understood.
inline std::unique_ptr<AnalysedKernel> analyse_kernel(const std::string& parameters, const std::string& body) {
  auto one = std::make_unique<AnalysedKernel>();
  one->text = ".version 9.0\n.target sm_75\n.address_size 64\n.global .align 4 .u32 counter;\n.visible .entry k(\n" +
              parameters + ")\n{\n" + body + "}\n";
  std::optional<PtxKernel> kernel = parse_ptx_kernel(one->text, PtxIndex(one->text), "k");
  if (!kernel.has_value()) return nullptr;
  one->kernel = std::move(*kernel);
  one->accesses = find_accesses(one->kernel);
  one->proof = std::make_unique<PtxProof>(one->kernel, one->accesses);
  return one;
}

}  // namespace thermocline
