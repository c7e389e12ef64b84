# SPDX-License-Identifier: Apache-2.0
"""PyTorch's CUDA build on the simulated device: the library as its allocator, pools, saved tensors. Skipped (status 77)
where PyTorch is not, or is built without CUDA, or for another CUDA than the simulated runtime.

PyTorch finds NVIDIA's runtime by a path of its own, so `run` preloads the simulated one; cuBLAS and cuDNN, which bring the
runtime with them, do not run so. PyTorch's kernels exist as machine code alone, so their results are made up."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed for this Python")
    sys.exit(77)
if torch.version.cuda is None or not torch.version.cuda.startswith("13."):
    print(f"this PyTorch is built for CUDA {torch.version.cuda}, and the simulated runtime is 13")
    sys.exit(77)

COMMAND = os.environ["THERMOCLINE_TEST_COMMAND"]
LIBRARY = os.path.join(os.path.dirname(COMMAND), "..", "lib", "libthermocline.so.1")
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "on_device.py")


class OnTheSimulatedDevice(unittest.TestCase):
    def run_program(self, *arguments: str, options: tuple[str, ...] = (), **surroundings: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [COMMAND, "run", "--simulate", "reference", "--made-up", "--check", *options, "--", sys.executable, "-B", PROGRAM, *arguments],
            # Other packages that are installed for this Python must not load anything.
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **surroundings},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def output_of(self, *arguments: str, options: tuple[str, ...] = (), **surroundings: str) -> tuple[str, str]:
        """Standard output up to "done", and standard error, of a scenario that must end well."""
        result = self.run_program(*arguments, options=options, **surroundings)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.removesuffix("done\n"), result.stderr

    def run_scenario(self, *arguments: str, options: tuple[str, ...] = ()) -> None:
        result = self.run_program(*arguments, options=options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "done\n", result.stderr)
        self.assertIn("races=0", result.stderr)

    def test_opened_late_the_library_allocates(self) -> None:
        self.run_scenario("allocator_late", LIBRARY, options=("--no-library", "--seed", "1"))

    def test_preloaded_it_allocates_too(self) -> None:
        self.run_scenario("allocator", options=("--budget", "1GiB", "--seed", "2"))

    def test_captured_graphs_keep_their_memory(self) -> None:
        self.run_scenario("graph", LIBRARY, options=("--no-library",))
        self.run_scenario("graph", options=("--budget", "1GiB", "--seed", "1"))

    def test_run_lets_the_library_see_each_tensor(self) -> None:
        self.run_scenario("tensors", options=("--budget", "32MiB"))
        self.run_scenario("segments", options=("--budget", "64MiB", "--no-frameworks"))

    def test_enabling_it_too_late_is_an_error(self) -> None:
        self.run_scenario("too_late", LIBRARY, options=("--no-library",))

    def test_a_pool_takes_chosen_regions(self) -> None:
        self.run_scenario("pool", LIBRARY, options=("--no-library",))

    def test_a_refusal_names_kernel_operator_and_module(self) -> None:
        _, reports = self.output_of("refused", options=("--budget", "16MiB"))
        named = "thermocline: out of memory: kernel at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, ...>: "
        self.assertEqual(reports.count(named), 2, reports)
        self.assertEqual(reports.count("\n  in     layer3.conv > aten::add_"), 1, reports)
        self.assertIn("\n  uses   2 buffers together: 12.0 MiB + 12.0 MiB\n", reports)

    def test_the_extension_has_what_the_plug_lacks(self) -> None:
        if shutil.which("c++") is None:
            self.skipTest("there is no C++ compiler")
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_CACHE_HOME"] = folder
            self.addCleanup(os.environ.pop, "XDG_CACHE_HOME")
            self.run_scenario("extension", LIBRARY, options=("--no-library", "--seed", "4"))
            self.assertEqual(len(os.listdir(os.path.join(folder, "thermocline"))), 1)
            self.run_scenario("extension", options=("--budget", "1GiB"))

    def test_a_program_that_knows_nothing_finds_pytorchs_counters_and_its_error(self) -> None:
        """The ten calls, by PyTorch's own cache and under the library, whose package is installed beside PyTorch (here: on PYTHONPATH)."""
        if shutil.which("c++") is None:
            self.skipTest("there is no C++ compiler")
        with tempfile.TemporaryDirectory() as folder:
            installed = os.path.join(folder, "thermocline-0.dist-info")
            os.mkdir(installed)
            with open(os.path.join(installed, "entry_points.txt"), "w", encoding="utf-8") as file:
                file.write("[torch.backends]\nthermocline = thermocline._pytorch:begin\n")
            with open(os.path.join(installed, "METADATA"), "w", encoding="utf-8") as file:
                file.write("Metadata-Version: 2.1\nName: thermocline\nVersion: 0\n")
            package = os.path.join(os.path.dirname(PROGRAM), "..", "src")
            surroundings = {"PYTHONPATH": f"{folder}:{package}", "XDG_CACHE_HOME": folder, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
            plain = self.output_of("contract", options=("--no-library",), **surroundings)
            under = self.output_of("contract", options=("--budget", "4GiB"), **surroundings)
            self.assertIn("building the extension for this PyTorch, once", under[1])
            self.assertEqual(json.loads(under[0]), json.loads(plain[0]))
            self.assertEqual(json.loads(under[0])["out of memory"], "torch.OutOfMemoryError")
            # Without PyTorch being told anything nothing is brought in, and its cache is in charge.
            left = self.output_of("contract", options=("--budget", "4GiB", "--no-frameworks"), **surroundings)
            self.assertNotIn("thermocline: building", left[1])
            self.assertEqual(json.loads(left[0])["memory_allocated"], 24 << 20)
            # Programs that know the package and ask for it have it.
            self.output_of("asked_for", options=("--budget", "1GiB"), **surroundings)
            # Where it can not be built the program runs, and one line says what it does without.
            without = self.run_program("tensors", options=("--budget", "32MiB"), CXX="/nowhere/c++", **surroundings)
            self.assertEqual(without.returncode, 0, without.stderr)
            self.assertEqual(without.stderr.count("PyTorch's memory statistics stay 0"), 1, without.stderr)

    def test_saved_tensors_are_copied_out_and_back(self) -> None:
        self.run_scenario("copies", options=("--no-library", "--seed", "3"))

    def test_several_streams_use_what_is_offloaded(self) -> None:
        self.run_scenario("streams", options=("--no-library", "--seed", "5"))
        self.run_scenario("states", options=("--no-library", "--seed", "6"))

    def test_saved_tensors_are_sent_away_by_the_library(self) -> None:
        self.run_scenario("hints", options=("--budget", "48MiB"))


if __name__ == "__main__":
    unittest.main()
