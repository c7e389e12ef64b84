# SPDX-License-Identifier: Apache-2.0
"""thermocline.torch.fit and compile_budget on 30 random modules, on CPU tensors: bits, and bytes against budgets. Writes one JSON object.

    PATH=build/release/bin:$PATH python bench/fit_random.py > bench/results/pytorch_random.json

The modules are those of the tests (`Made` in fit_models.py: 18 to 40 operators, with dropout, noise, views, changes in place, sorting). Eager rows: three
steps, the later two by a plan for 1.25 times the least budget. Compiled rows (`aot_eager`): the bits of that compiler without a budget, and the
bytes that the region saves, at the least budget and 10 % and 50 % of the way to what it saves without one. Exits with 1 where a row does not hold. With a
number as argument: so many modules. Needs PyTorch 2.15 and the command `thermocline`.
"""

from __future__ import annotations

import json
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "..", "integrations", "pytorch", part) for part in ("src", "tests")]
import torch  # noqa: E402  # after the path: an installed wheel would be loaded with it
from fit_models import Made  # noqa: E402
from fit_steps import Steps, near_the_least, same  # noqa: E402
from test_compile_budget import Compiled  # noqa: E402

import thermocline.torch as tt  # noqa: E402

PARTS = (0, 0.1, 0.5)


def inputs() -> torch.Tensor:
    return torch.randn(512, 32)


def eager(seed: int) -> dict[str, object]:
    plain, ours = Steps(lambda: Made(seed), inputs).run(), Steps(lambda: Made(seed), inputs)
    fitted = near_the_least(ours.model, plain.x)
    ours.run(fitted)
    budget = fitted.plan.answer["budget_bytes"]
    return {
        "whole_peak_bytes": fitted.plan.answer["whole_peak_bytes"],
        "budget_bytes": budget,
        "peak_bytes": ours.peaks[-1],
        "holds": same(plain.left, ours.left) and ours.peaks[-1] <= budget and fitted.counts.diverged_at is None,
    }


def compiled(seed: int) -> dict[str, object]:
    plain = Compiled(lambda: Made(seed), inputs, steps=2)
    try:
        Compiled(lambda: Made(seed), inputs, 1, steps=1)
        least = 0
    except tt.DoesNotFitError as error:
        least = error.found_bytes
    budgets = [int(least + (plain.saved[0] - least) * part) for part in PARTS]
    fitted = [Compiled(lambda: Made(seed), inputs, budget, steps=2) for budget in budgets]
    saved = [one.saved[-1] for one in fitted]
    within = all(count <= budget for count, budget in zip(saved, budgets, strict=True))
    return {
        "whole_saved_bytes": plain.saved[0],
        "budgets": budgets,
        "saved_bytes": saved,
        "holds": within and saved == sorted(saved) and all(same(plain.left, one.left) for one in fitted),
    }


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    found = [{"seed": seed, "operators": len(Made(seed).plan), "eager": eager(seed), "compiled": compiled(seed)} for seed in range(count)]
    result = {
        "schema": "thermocline-pytorch-random/1",
        "command": "PATH=build/release/bin:$PATH python bench/fit_random.py > bench/results/pytorch_random.json",
        "torch": torch.__version__,
        "modules": len(found),
        "eager_hold": sum(row["eager"]["holds"] for row in found),
        "compiled_hold": sum(row["compiled"]["holds"] for row in found),
    }
    rows = ",\n  ".join(json.dumps(row) for row in found)  # a line for each
    print(json.dumps(result, indent=1).removesuffix("\n}") + f',\n "rows": [\n  {rows}\n ]\n}}')
    return 0 if result["eager_hold"] == result["compiled_hold"] == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
