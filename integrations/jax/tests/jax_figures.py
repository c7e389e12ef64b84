# SPDX-License-Identifier: Apache-2.0
"""Prints the line and the table of docs/frameworks.md: what the programs of the tests need as they are written, at 60 % and at the least, as promised, and
as XLA accounts for the compiled step."""

import os
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


def compiled_mib(loss, args) -> float:
    memory = jax.jit(jax.value_and_grad(loss)).lower(*args).compile().memory_analysis()
    return (memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes) / (1 << 20)


def main() -> None:
    loss, args = gpt2_shapes()
    tj.fit(loss, *args, budget="40%")
    print('| program | whole, MiB (compiled) | with "60%" (compiled) | more time | least (compiled) | more time |')
    print("| --- | --- | --- | --- | --- | --- |")
    for name in NAMES:
        loss, args = PROGRAMS[name]()
        cells = []
        for budget in ("60%", 1):
            fitted = fitted_to(loss, args, budget)
            chosen, whole = fitted.plan.chosen, fitted.plan.whole
            cells += [
                f"{chosen.peak_bytes / (1 << 20):.2f} ({compiled_mib(fitted, args):.2f})",
                f"{chosen.step_ms / whole.step_ms - 1:+.1%}",
            ]
        print(f"| {name.replace('_', ' ')} | {whole.peak_bytes / (1 << 20):.2f} ({compiled_mib(loss, args):.2f}) | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
