# SPDX-License-Identifier: Apache-2.0
"""Runs the command `thermocline plan`, which is the library's planner (docs/recompute.md)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any


def find_command() -> str:
    """The command `thermocline`: of this package, else the one in PATH. Raises FileNotFoundError."""
    packaged = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "native", "bin", "thermocline")
    found = packaged if os.access(packaged, os.X_OK) else shutil.which("thermocline")
    if found is None:
        raise FileNotFoundError(
            "thermocline.torch.fit plans with the command thermocline, which is neither in this package nor in PATH: install the wheel"
        )
    return found


def plan(trace: str, *options: str, command: str | None = None) -> dict[str, Any]:
    """The plan that `thermocline plan` makes for the file. Raises ValueError with the command's words if it refuses."""
    done = subprocess.run([command or find_command(), "plan", trace, *options, "--json"], capture_output=True, text=True, check=False)
    if not done.stdout:
        words = done.stderr.strip().removeprefix("thermocline: ").replace(trace, "the step")
        raise ValueError(f"thermocline.torch.fit: {words.removeprefix('--')}")
    return json.loads(done.stdout)


def devices(*, command: str | None = None) -> list[dict[str, Any]]:
    """The device profiles that `thermocline devices` lists."""
    done = subprocess.run([command or find_command(), "devices", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["devices"]
