# SPDX-License-Identifier: Apache-2.0
"""Runs the command `thermocline`, whose planner is the library's (docs/recompute.md), and reads budgets as it does."""

from __future__ import annotations

import importlib.util
import json
import operator
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

# A part of this many bytes is a whole number of them: the command reads percentages to six decimals.
_WHOLE = 10**12
_WRITE = "; write a number of bytes, '12GiB', or '60%' of what the step needs whole"
_STEP = (
    '{"schema":"thermocline-trace/1"}',
    f'{{"e":"alloc","b":0,"n":{_WHOLE}}}',
    '{"e":"op","k":"probe","r":[],"w":[0],"flops":0,"bytes":0}',
    '{"e":"step","i":0}',
)


def find_command() -> str:
    """The command `thermocline`: the one in PATH, else that of the Python package. Raises FileNotFoundError."""
    found = shutil.which("thermocline")
    package = importlib.util.find_spec("thermocline") if found is None else None
    for folder in package.submodule_search_locations or () if package else ():
        packaged = os.path.join(folder, "native", "bin", "thermocline")
        if os.access(packaged, os.X_OK):
            found = packaged
    if found is None:
        raise FileNotFoundError(
            "thermocline_jax.fit plans with the command thermocline, which is neither in PATH nor in a wheel: install one"
        )
    return found


def plan(trace: str, *options: str) -> dict[str, Any]:
    """The plan that `thermocline plan` makes for the file. Raises ValueError with the command's words if it refuses."""
    done = subprocess.run([find_command(), "plan", trace, *options, "--json"], capture_output=True, text=True, check=False)
    if not done.stdout:
        words = done.stderr.strip().removeprefix("thermocline: ").replace(trace, "the step")
        raise ValueError(f"thermocline_jax.fit: {words.removeprefix('--')}")
    return json.loads(done.stdout)


@dataclass(frozen=True)
class Rates:
    """The rates of a device profile."""

    flops: float
    bytes: float
    launch_ms: float
    link_bytes: float

    def operator_ms(self, flops: int, moved_bytes: int) -> float:
        return 1e3 * max(flops / self.flops, moved_bytes / self.bytes) + self.launch_ms


@lru_cache
def rates_of(device: str) -> Rates:
    done = subprocess.run([find_command(), "devices", device, "--json"], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise ValueError(f"thermocline_jax.fit: {done.stderr.strip().removeprefix('thermocline: ')}")
    found = json.loads(done.stdout)["devices"][0]
    return Rates(found["fp32_flops"], found["memory_bandwidth"], found["launch_ns"] / 1e6, found["link_to_device"])


@dataclass(frozen=True)
class Budget:
    """Bytes, or a part of what a step needs whole."""

    count: int  # of bytes
    of_bytes: int  # the whole that `count` is a part of; 0: `count` is what it is

    def bytes_of(self, whole_peak_bytes: int) -> int:
        return whole_peak_bytes * self.count // self.of_bytes if self.of_bytes else self.count


def checked_budget(budget: Any, device: str) -> Budget:
    """Raises TypeError and ValueError in a line that says what to write instead; FileNotFoundError without the command."""
    if not isinstance(device, str):
        raise TypeError(f"device: the name of a profile (`thermocline devices` lists them), not {type(device).__name__}")
    text = budget.strip() if isinstance(budget, str) else str(_whole_number(budget))
    if not text:
        raise ValueError(f"budget: the text is empty{_WRITE}")
    if isinstance(budget, str) and text.isdecimal():
        raise ValueError(f"budget: '{text}' has no unit{_WRITE}")
    with tempfile.TemporaryDirectory(prefix="thermocline-fit-") as folder:
        trace = os.path.join(folder, "step.jsonl")
        with open(trace, "w", encoding="utf-8") as file:
            file.write("\n".join(_STEP) + "\n")
        # With "=": a text that begins with "-" is a budget, too, and no option.
        try:
            answer = plan(trace, f"--budget={text}", f"--device={device}")
        except ValueError as error:
            raise ValueError(str(error) if "budget: " not in str(error) else f"{str(error).partition('; write')[0]}{_WRITE}") from None
    is_part = "%" in text and not text.lower().endswith("device")
    return Budget(answer["budget_bytes"], _WHOLE if is_part else 0)


def _whole_number(budget: Any) -> int:
    if not isinstance(budget, bool):
        try:
            count = operator.index(budget)
        except TypeError:
            pass
        else:
            if count <= 0:
                raise ValueError(f"budget: more than 0 bytes are needed, not {count}")
            return count
    raise TypeError(f"budget: bytes, or a text such as '12GiB' or '60%' of what the step needs whole; not {type(budget).__name__}")
