# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/frameworks.md: what the programs of the tests need as they are written, at 60 % and at the least, as promised, and as XLA
accounts for the compiled step; and the line for the shapes of GPT-2. From the root of the repository, with `thermocline` in PATH:

    python integrations/jax/tests/jax_figures.py bench/results/jax_fit.json
"""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from jax_programs import PROGRAMS, gpt2_shapes  # first: without JAX it ends here

import jax
import thermocline_jax as tj

NAMES = ("mlp", "scanned_transformer", "dropout_transformer", "custom_derivative", "while_loop", "recurrent")


def fitted_to(loss, args, budget):
    try:
        return tj.fit(loss, *args, budget=budget, verbose=False)
    except tj.DoesNotFitError as error:
        return tj.fit(loss, *args, budget=error.least_bytes, verbose=False)


def compiled_bytes(loss, args) -> int:
    memory = jax.jit(jax.value_and_grad(loss)).lower(*args).compile().memory_analysis()
    return memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes


def line_of_gpt2() -> str:
    loss, args = gpt2_shapes()
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        tj.fit(loss, *args, budget="40%")
    return said.getvalue().strip()


def row_of(name: str) -> dict:
    loss, args = PROGRAMS[name]()
    row = {"program": name}
    for key, budget in (("at_60_percent", "60%"), ("least", 1)):
        fitted = fitted_to(loss, args, budget)
        chosen, whole = fitted.plan.chosen, fitted.plan.whole
        row["whole"] = {"peak_bytes": whole.peak_bytes, "compiled_bytes": compiled_bytes(loss, args)}
        over = chosen.step_ms / whole.step_ms
        row[key] = {"peak_bytes": chosen.peak_bytes, "compiled_bytes": compiled_bytes(fitted, args), "step_over_whole": round(over, 5)}
    return row


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rows = []
    for name in NAMES:
        rows.append(row_of(name))
        print(rows[-1], flush=True)
    about = {
        "schema": "thermocline-jax-fit/1",
        "command": "PATH=build/release/bin:$PATH python integrations/jax/tests/jax_figures.py bench/results/jax_fit.json",
        "commit": subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True).stdout.strip(),
        "jax": jax.__version__,
    }
    result = about | {"gpt2_at_40_percent": line_of_gpt2(), "rows": rows}
    pathlib.Path(sys.argv[1]).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
