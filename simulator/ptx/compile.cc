// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/compile.h"

#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <cstdlib>
#include <mutex>

#include "simulator/ptx/helpers.h"
#include "simulator/ptx/module.h"

namespace simulator::ptx {
namespace {

// Few passes, because kernels are compiled while the program waits, and nvcc has already optimized the PTX. `indvars`
// moves the counts of arithmetic and bytes out of loops whose rounds are known when they begin.
constexpr const char* kPasses =
    "always-inline,globaldce,function(sroa,early-cse,simplifycfg,instcombine,simplifycfg,loop-mssa(licm),loop(indvars),"
    "early-cse<"
    "memssa>,simplifycfg)";

[[noreturn]] void fail(const std::string& what, LLVMErrorRef error) {
  char* const message = LLVMGetErrorMessage(error);
  const std::string text = what + ": " + message;
  LLVMDisposeErrorMessage(message);
  throw Error(text);
}

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
  });
}

LLVMTargetMachineRef make_machine() {
  char* const triple = LLVMGetDefaultTargetTriple();
  char* const cpu = LLVMGetHostCPUName();
  char* const features = LLVMGetHostCPUFeatures();
  // LLVM 14 swaps the operands of a masked comparison of halves (vcmpph) when it folds a load into it, and keeps `le`.
  const std::string used = std::string(features) + ",-avx512fp16";
  LLVMTargetRef target = nullptr;
  char* message = nullptr;
  LLVMTargetMachineRef machine = nullptr;
  if (LLVMGetTargetFromTriple(triple, &target, &message) == 0) {
    machine = LLVMCreateTargetMachine(target, triple, cpu, used.c_str(), LLVMCodeGenLevelLess, LLVMRelocPIC,
                                      LLVMCodeModelJITDefault);
  }
  for (char* const text : {triple, cpu, features, message}) {
    if (text != nullptr) LLVMDisposeMessage(text);
  }
  if (machine == nullptr) throw Error("LLVM has no target for this machine");
  return machine;
}

class Jit final : public Code {
 public:
  explicit Jit(const std::string& ir) {
    initialize();
    LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
        builder, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(make_machine()));
    if (LLVMErrorRef error = LLVMOrcCreateLLJIT(&jit_, builder)) fail("LLVM does not start", error);
    define_helpers();
    add(ir);
    LLVMOrcExecutorAddress address = 0;
    if (LLVMErrorRef error = LLVMOrcLLJITLookup(jit_, &address, "kernel")) fail("LLVM does not link the kernel", error);
    entry_ = reinterpret_cast<KernelEntry>(address);
  }
  ~Jit() override {
    if (jit_ != nullptr) LLVMConsumeError(LLVMOrcDisposeLLJIT(jit_));
  }
  Jit(const Jit&) = delete;
  Jit& operator=(const Jit&) = delete;

  KernelEntry entry() const override { return entry_; }

 private:
  // Generated code can call only these functions of the process.
  void define_helpers() {
    std::vector<LLVMJITCSymbolMapPair> pairs;
    for (const Helper& helper : helpers()) {
      LLVMJITSymbolFlags flags{};
      flags.GenericFlags = LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable;
      pairs.push_back({LLVMOrcLLJITMangleAndIntern(jit_, helper.name),
                       {reinterpret_cast<LLVMOrcJITTargetAddress>(helper.address), flags}});
    }
    LLVMOrcMaterializationUnitRef unit = LLVMOrcAbsoluteSymbols(pairs.data(), pairs.size());
    if (LLVMErrorRef error = LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(jit_), unit))
      fail("LLVM does not take the helpers", error);
  }

  void add(const std::string& ir) {
    LLVMOrcThreadSafeContextRef context = LLVMOrcCreateNewThreadSafeContext();
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(ir.data(), ir.size(), "kernel");
    LLVMModuleRef module = nullptr;
    char* message = nullptr;
    if (LLVMParseIRInContext(LLVMOrcThreadSafeContextGetContext(context), buffer, &module, &message) != 0) {
      const std::string text = std::string("LLVM does not read what was emitted: ") + message;
      LLVMDisposeMessage(message);
      LLVMOrcDisposeThreadSafeContext(context);
      throw Error(text);
    }
    LLVMSetDataLayout(module, LLVMOrcLLJITGetDataLayoutStr(jit_));
    LLVMSetTarget(module, LLVMOrcLLJITGetTripleString(jit_));
    LLVMTargetMachineRef machine = make_machine();
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module, kPasses, machine, options);
    LLVMDisposePassBuilderOptions(options);
    LLVMDisposeTargetMachine(machine);
    if (error != nullptr) fail("LLVM's passes", error);
    if (std::getenv("THERMOCLINE_PTX_DUMP") != nullptr) LLVMDumpModule(module);
    LLVMOrcThreadSafeModuleRef safe = LLVMOrcCreateNewThreadSafeModule(module, context);
    LLVMOrcDisposeThreadSafeContext(context);
    error = LLVMOrcLLJITAddLLVMIRModule(jit_, LLVMOrcLLJITGetMainJITDylib(jit_), safe);
    if (error != nullptr) fail("LLVM does not take the kernel", error);
  }

  LLVMOrcLLJITRef jit_ = nullptr;
  KernelEntry entry_ = nullptr;
};

}  // namespace

std::unique_ptr<Code> compile(const std::string& ir) { return std::make_unique<Jit>(ir); }

}  // namespace simulator::ptx
