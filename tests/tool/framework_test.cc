// SPDX-License-Identifier: Apache-2.0
// The variables that `run` sets for frameworks, its message about them, and how to disable it.
#include <nlohmann/json.hpp>

#include "tests/tool/command_fixture.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

const std::string kDriver = "LD_LIBRARY_PATH=" SIMULATOR_FOLDER;

class Frameworks : public Command {
 protected:
  // On this machine there is a driver, and nothing is said of a missing one.
  ProcessResult run_with_driver(const std::vector<std::string>& words,
                                std::vector<std::string> environment = {}) const {
    environment.push_back(kDriver);
    return run(words, std::move(environment));
  }
};

TEST_F(Frameworks, AreSetUpUnlessTheUserHasSpoken) {
  const std::string show =
      "echo $PYTORCH_NO_CUDA_MEMORY_CACHING,$TF_GPU_ALLOCATOR,$TF_FORCE_GPU_ALLOW_GROWTH,"
      "$XLA_PYTHON_CLIENT_ALLOCATOR,$XLA_PYTHON_CLIENT_PREALLOCATE,$XLA_FLAGS";
  const auto shown = [&](std::vector<std::string> flags, std::vector<std::string> environment = {}) {
    flags.insert(flags.begin(), "run");
    for (const std::string& word : {std::string("--"), std::string("sh"), std::string("-c"), show})
      flags.push_back(word);
    return run(flags, std::move(environment)).out;
  };
  EXPECT_EQ(shown({}), "1,cuda_malloc_async,true,cuda_async,false,--xla_gpu_enable_command_buffer=\n");
  EXPECT_EQ(shown({}, {"XLA_PYTHON_CLIENT_ALLOCATOR=bfc", "TF_FORCE_GPU_ALLOW_GROWTH=false", "TF_GPU_ALLOCATOR=bfc",
                       "XLA_FLAGS=--other"}),
            "1,bfc,false,bfc,false,--other\n");
  // A user who chooses PyTorch's allocator by another variable has decided too.
  for (const char* other : {"PYTORCH_ALLOC_CONF=backend:native", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}) {
    EXPECT_EQ(shown({}, {other}), ",cuda_malloc_async,true,cuda_async,false,--xla_gpu_enable_command_buffer=\n")
        << other;
  }
  EXPECT_EQ(shown({"--no-frameworks"}), ",,,,,\n");
  EXPECT_EQ(shown({}, {"THERMOCLINE_FRAMEWORKS=false"}), ",,,,,\n");
  EXPECT_EQ(shown({"--config", write("settings.toml", "frameworks = false\n")}), ",,,,,\n");
  EXPECT_EQ(shown({"--simulate", "reference", "--no-library"}), ",,,,,\n");
}

TEST_F(Frameworks, WithoutTheLibraryThereIsNoBudget) {
  for (const char* const flag : {"--budget=60%", "--policy=lru"}) {
    const ProcessResult result = run({"run", "--simulate", "reference", "--no-library", flag, "--", "true"});
    EXPECT_EQ(result.status, 2) << flag;
    EXPECT_NE(result.err.find("it is the library that evicts"), std::string::npos) << result.err;
  }
}

// A binary that is no interpreter may still use a framework: it gets the variables without a message.
TEST_F(Frameworks, WhatIsSetForFrameworksIsSaidInOneLineWherePythonOrAScriptRuns) {
  const std::string line =
      "thermocline: PyTorch, TensorFlow, JAX are told to allocate tensor by tensor ('thermocline doctor' says how; "
      "--no-frameworks: not)\n";
  const std::string script = write("train", "#!/bin/sh\nexit 0\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  std::filesystem::create_symlink("/bin/true", path("python3"));
  EXPECT_EQ(run_with_driver({"run", "--", script}).err, line);
  EXPECT_EQ(run_with_driver({"record", "-o", path("x.trace"), "--", path("python3")}).err.substr(0, line.size()), line);
  EXPECT_EQ(run_with_driver({"run", "--", "python3"}, {"PATH=" + folder_.string()}).err, line);
  EXPECT_EQ(run_with_driver({"run", "--", "/bin/true"}).err, "");
  EXPECT_EQ(run_with_driver({"run", "--no-frameworks", "--", script}).err, "");
  EXPECT_EQ(run_with_driver({"run", "--simulate", "reference", "--no-library", "--", script}).err, "");
  const std::vector<std::string> all = {"PYTORCH_NO_CUDA_MEMORY_CACHING=1", "TF_GPU_ALLOCATOR=bfc",
                                        "TF_FORCE_GPU_ALLOW_GROWTH=1",      "XLA_PYTHON_CLIENT_ALLOCATOR=bfc",
                                        "XLA_PYTHON_CLIENT_PREALLOCATE=1",  "XLA_FLAGS=--other"};
  EXPECT_EQ(run_with_driver({"run", "--", script}, all).err, "");
}

// By the loader's search, as the program's.
TEST_F(Frameworks, WithoutADriverThereIsANoteBeforeTheProgramRuns) {
  if (std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg"))
    GTEST_SKIP() << "there is a GPU";
  const std::string note =
      "thermocline: note: this machine has no NVIDIA driver (libcuda.so.1), so the program finds no device; --simulate "
      "DEVICE needs none\n";
  const std::string nowhere = "LD_LIBRARY_PATH=" + path("nowhere");
  EXPECT_EQ(run({"run", "--", "/bin/true"}, {nowhere}).err, note);
  EXPECT_EQ(run({"run", "--", "/bin/true"}, {nowhere, "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2"}).err, note);
  EXPECT_EQ(run({"run", "--", "/bin/true"}, {nowhere, "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"}).err, "");
  EXPECT_EQ(run({"run", "--", "/bin/true"}, {kDriver}).err, "");
  EXPECT_EQ(run({"run", "--simulate", "reference", "--", "/bin/true"}, {nowhere}).err, "");
  EXPECT_EQ(run({"run", "--", "/nowhere/program"}, {nowhere}).err.find("NVIDIA"), std::string::npos);
}

// A Python whose packages bring NVIDIA's runtime, with a path that no search finds.
TEST_F(Frameworks, ThePlaceOfNvidiasRuntimeIsTakenOnTheSimulatedDevice) {
  namespace fs = std::filesystem;
  const auto python_with = [&](const std::string& name, const std::string& runtime) {
    const fs::path prefix = folder_ / name, packages = prefix / "lib/python3.11/site-packages";
    fs::create_directories(prefix / "bin");
    fs::create_directories((packages / runtime).parent_path());
    std::ofstream(packages / runtime) << "";
    const std::string python = write(name + "/bin/python3", "#!/bin/sh\nprintf '%s\\n' \"$LD_PRELOAD\"\n");
    fs::permissions(python, fs::perms::owner_all);
    return python;
  };
  const std::string python = python_with("cuda13", "nvidia/cu13/lib/libcudart.so.13");
  const auto simulated =
      run({"run", "--simulate", "reference", "--no-frameworks", "--", python}, {"THERMOCLINE_SIMULATE_KERNELS=real"});
  EXPECT_NE(simulated.out.find("libthermocline.so.1:"), std::string::npos) << simulated.out;
  EXPECT_NE(simulated.out.find("/simulator/libcudart.so.13\n"), std::string::npos) << simulated.out;
  EXPECT_EQ(simulated.err,
            "thermocline: the simulated runtime stands in for NVIDIA's of this Python; cuBLAS and cuDNN do not run on "
            "it, nor kernels "
            "without PTX, which PyTorch's are (--made-up: with made-up results)\n");
  const auto alone = run({"run", "--simulate", "reference", "--no-library", "--made-up", "--", python});
  EXPECT_EQ(alone.out.find("libthermocline"), std::string::npos) << alone.out;
  EXPECT_NE(alone.out.find("/simulator/libcudart.so.13\n"), std::string::npos) << alone.out;
  EXPECT_EQ(run({"run", "--no-frameworks", "--", python}).out.find("libcudart"), std::string::npos) << "a real device";

  const auto older = run({"run", "--simulate", "reference", "--no-frameworks", "--",
                          python_with("cuda12", "nvidia/cuda_runtime/lib/libcudart.so.12")});
  EXPECT_EQ(older.out.find("libcudart"), std::string::npos) << older.out;
  EXPECT_NE(older.err.find("is of CUDA 12, and the simulated runtime of 13"), std::string::npos) << older.err;
}

// Packages are also found beside the Python: at home, in the folders of PYTHONPATH, and in those that a .pth file names.
TEST_F(Frameworks, NvidiasRuntimeIsFoundWhereverPythonFindsPackages) {
  namespace fs = std::filesystem;
  const std::string runtime = "nvidia/cu13/lib/libcudart.so.13";
  const auto with_runtime = [&](const std::string& packages) {
    fs::create_directories(fs::path(path(packages + "/" + runtime)).parent_path());
    return write(packages + "/" + runtime, "");
  };
  fs::create_directories(path("plain/bin"));
  fs::create_directories(path("plain/lib/python3.11/site-packages"));
  const std::string python = write("plain/bin/python3", "#!/bin/sh\nprintf '%s\\n' \"$LD_PRELOAD\"\n");
  fs::permissions(python, fs::perms::owner_all);
  const auto is_replaced = [&](const std::vector<std::string>& environment) {
    const std::string out = run({"run", "--simulate", "reference", "--no-frameworks", "--", python}, environment).out;
    return out.find("/simulator/libcudart.so.13\n") != std::string::npos;
  };
  const std::string empty = "HOME=" + path("nobody");
  EXPECT_FALSE(is_replaced({empty}));
  with_runtime("home/.local/lib/python3.11/site-packages");
  EXPECT_TRUE(is_replaced({"HOME=" + path("home")}));
  with_runtime("base/lib/python3.11/site-packages");
  EXPECT_TRUE(is_replaced({empty, "PYTHONUSERBASE=" + path("base")}));
  with_runtime("somewhere");
  EXPECT_TRUE(is_replaced({empty, "PYTHONPATH=/nowhere:" + path("somewhere")}));
  EXPECT_FALSE(is_replaced({empty}));
  write("plain/lib/python3.11/site-packages/other.pth", "import os\n# nothing\n" + path("somewhere") + "\n");
  EXPECT_TRUE(is_replaced({empty}));
}

TEST_F(Frameworks, TheDoctorSaysWhatFrameworksNeedAndWhatTheyHave) {
  const std::vector<std::string> own = {"TF_FORCE_GPU_ALLOW_GROWTH=false", "PYTORCH_ALLOC_CONF=backend:native"};
  const json out = json::parse(run({"doctor", "--json"}, own).out);
  EXPECT_GE(out["numa_nodes"], 1);
  const auto of = [&out](const char* variable) {
    for (const json& one : out["frameworks"]) {
      if (one["variable"] == variable) return one;
    }
    return json();
  };
  EXPECT_EQ(of("TF_FORCE_GPU_ALLOW_GROWTH")["wanted"], "true");
  EXPECT_EQ(of("TF_FORCE_GPU_ALLOW_GROWTH")["environment"], "false");
  EXPECT_EQ(of("TF_FORCE_GPU_ALLOW_GROWTH")["set_by_run"], false);
  EXPECT_EQ(of("XLA_PYTHON_CLIENT_ALLOCATOR")["environment"], nullptr);
  EXPECT_EQ(of("XLA_PYTHON_CLIENT_ALLOCATOR")["set_by_run"], true);
  EXPECT_EQ(of("PYTORCH_NO_CUDA_MEMORY_CACHING")["environment"], nullptr);
  EXPECT_EQ(of("PYTORCH_NO_CUDA_MEMORY_CACHING")["set_by_run"], false);
  const std::string text = run({"doctor"}, own).out;
  EXPECT_NE(text.find("is 'false', and stays; good is TF_FORCE_GPU_ALLOW_GROWTH=true"), std::string::npos) << text;
  EXPECT_NE(text.find("PYTORCH_ALLOC_CONF is 'backend:native', and stays; good is PYTORCH_NO_CUDA_MEMORY_CACHING=1"),
            std::string::npos)
      << text;
  EXPECT_NE(
      run({"doctor"}, {"THERMOCLINE_FRAMEWORKS=false"}).out.find("'frameworks = false' leaves out TF_GPU_ALLOCATOR"),
      std::string::npos);
}

}  // namespace
}  // namespace thermocline::test
