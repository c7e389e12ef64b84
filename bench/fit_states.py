# SPDX-License-Identifier: Apache-2.0
"""thermocline.torch.fit with parameters, gradients and optimizer state that wait in host memory between uses, on CPU tensors with copies in
the place of a link: seven models with Adam, at half of what the step needs; and the same with cpu_step="auto". Writes one JSON object:
bench/results/pytorch_fit_states.json.

    PATH=build/release/bin:$PATH python bench/fit_states.py > bench/results/pytorch_fit_states.json

Peaks are the most bytes of storages alive at once, as a dispatch mode sees them. They are exact, and do not depend on the machine. Needs
PyTorch and the command `thermocline`.
"""

from __future__ import annotations

import json
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "..", "integrations", "pytorch", part) for part in ("src", "tests")]
import torch  # noqa: E402  # after the path: an installed wheel would be loaded with it
from fit_steps import same  # noqa: E402
from fit_training import MODELS, Training  # noqa: E402

torch.set_num_threads(1)
STEPS = 5


def by_half(name: str) -> dict[str, object]:
    plain = Training(name).run(STEPS)
    ours = Training(name).fit("50%", plans="joint").run(STEPS)
    answer = ours.fitted.plan.answer
    return {
        "model": name,
        "parameter_bytes": sum(parameter.nbytes for parameter in plain.model.parameters()),
        "whole_peak_bytes": plain.peaks[-1],
        "budget_bytes": answer["budget_bytes"],
        "predicted_peak_bytes": answer["peak_bytes"],
        "peak_bytes": ours.peaks[-1],
        "moved_bytes": answer["offloaded_bytes"],
        "bits_equal": same(plain.left(), ours.left()),
    }


def crossed_by(training: Training) -> int:
    """The bytes that cross the link in a step."""
    states = training.fitted._states
    before = states.evicted_bytes + states.fetched_bytes
    training.run(1)
    return states.evicted_bytes + states.fetched_bytes - before


def with_cpu_step(name: str) -> dict[str, object]:
    plain = Training(name).run(STEPS + 1)
    crossed, left = [], [plain.left()]
    for way in (False, "auto"):  # one after the other: they draw from one generator
        ours = Training(name).fit("50%", plans="joint", cpu_step=way).run(STEPS)
        crossed.append(crossed_by(ours))
        left.append(ours.left())
    return {
        "model": name,
        "parameters": len(list(ours.model.parameters())),
        "updated_on_host": ours.fitted.updated_on_host,
        "crossed_bytes": crossed[0],
        "crossed_bytes_auto": crossed[1],
        "budget_bytes": ours.fitted.plan.answer["budget_bytes"],
        "peak_bytes": ours.peaks[-1],
        "bits_equal": all(same(left[0], other) for other in left[1:]),
    }


def main() -> None:
    result = {
        "schema": "thermocline-pytorch-fit-states/1",
        "command": "PATH=build/release/bin:$PATH python bench/fit_states.py > bench/results/pytorch_fit_states.json",
        "torch": torch.__version__,
        "optimizer": "Adam",
        "steps": STEPS,
        "half": [by_half(name) for name in MODELS],
        "cpu_step": [with_cpu_step(name) for name in MODELS],
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
