# SPDX-License-Identifier: Apache-2.0
"""The operators of a plan by ordinal, with which the execution tells by a look those that need nothing but to be counted."""

from __future__ import annotations

from typing import Any

import torch

from ._operators import facts_of
from ._step_plan import StepPlan


class Writes:
    """An operator of a table that writes some of its arguments."""

    __slots__ = ("function", "positions")

    def __init__(self, function: Any, positions: tuple[int, ...]) -> None:
        self.function = function
        self.positions = positions  # of the arguments that it may write


def make_table(plan: StepPlan) -> list[Any]:
    """By ordinal: the operator where nothing has to be done but count; its Writes where that is so as long as nobody has to know what it writes;
    else None."""
    table: list[Any] = []
    moving = plan.moves.ordinals() if plan.moves is not None else set()
    for ordinal, function in enumerate(plan.functions):
        busy = any(ordinal in places for places in (plan.recorded, plan.begins, plan.prefetches, plan.copies, moving))
        if busy or type(function) is not torch._ops.OpOverload:
            table.append(None)
            continue
        facts = facts_of(function)
        written = (*(position for position, _ in facts.writes), *facts.norm)
        table.append(Writes(function, written) if written else function)
    return table
