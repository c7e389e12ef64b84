# SPDX-License-Identifier: Apache-2.0
"""PyTorch's CUDA build on the simulated device: the library as its allocator, pools, saved tensors. Skipped (status 77)
where PyTorch is not, or is built without CUDA, or for another CUDA than the simulated runtime.

PyTorch finds NVIDIA's runtime by a path of its own, so the simulated one is preloaded; cuBLAS and cuDNN, which bring the
runtime with them, do not run so. PyTorch's kernels exist as machine code alone, so their results are made up."""

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
SIMULATOR = subprocess.run([COMMAND, "devices", "--path"], capture_output=True, text=True, check=True).stdout.strip()
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "on_device.py")


class OnTheSimulatedDevice(unittest.TestCase):
    def run_scenario(self, *arguments: str, options: tuple[str, ...] = ()) -> None:
        preload = ":".join(os.path.join(SIMULATOR, name) for name in ("libcudart.so.13", "libcuda.so.1"))
        result = subprocess.run(
            [COMMAND, "run", "--simulate", "reference", "--made-up", "--check", *options, "--", sys.executable, "-B", PROGRAM, *arguments],
            env={**os.environ, "LD_PRELOAD": preload},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
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

    def test_the_extension_has_what_the_plug_lacks(self) -> None:
        if shutil.which("c++") is None:
            self.skipTest("there is no C++ compiler")
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_CACHE_HOME"] = folder
            self.addCleanup(os.environ.pop, "XDG_CACHE_HOME")
            self.run_scenario("extension", LIBRARY, options=("--no-library", "--seed", "4"))
            self.assertEqual(len(os.listdir(os.path.join(folder, "thermocline"))), 1)
            self.run_scenario("extension", options=("--budget", "1GiB"))

    def test_saved_tensors_are_copied_out_and_back(self) -> None:
        self.run_scenario("copies", options=("--no-library", "--seed", "3"))

    def test_saved_tensors_are_sent_away_by_the_library(self) -> None:
        self.run_scenario("hints", options=("--budget", "48MiB"))


if __name__ == "__main__":
    unittest.main()
