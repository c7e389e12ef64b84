# SPDX-License-Identifier: Apache-2.0
"""The states that a plan evicts and fetches in a step, and after which operators."""

from __future__ import annotations

import torch

from ._states import States, _State
from ._step_plan import StepPlan


class Moving:
    """For one step. Not thread-safe: the execution has a lock."""

    def __init__(self, plan: StepPlan, states: States) -> None:
        """states: have been entered."""
        self._moves = plan.moves
        self._states = states
        self._budget = plan.answer["budget_bytes"]
        self._reran = 0
        self._of: dict[int, _State] = {}  # by number
        for number, role in self._moves.roles.items():
            if (state := states.of_role(role)) is not None:
                self._of[number] = state

    def begin(self) -> None:
        """In host memory is what the plan has there."""
        for number in self._moves.evicted_first:
            if number in self._of:
                self._states.evict(self._of[number])
        for number in self._moves.fetched_first:
            if number in self._of:
                self._states.begin_fetch(self._of[number])

    def give_up(self) -> None:
        """The step is not the recorded one: states are fetched when they are used, and evicted by age."""
        room = max(self._budget - self._moves.others_bytes, 0)
        self._states.room = lambda: room

    def made(self, ordinal: int, written: list[torch.UntypedStorage]) -> None:
        for index, number in self._moves.births.get(ordinal, ()):
            if index < len(written):
                self._of[number] = self._states.adopt(written[index])

    def after_operator(self, ordinal: int) -> None:
        while self._reran < self._moves.reran.get(ordinal, 0):  # fewer had to run again than planned
            self.after_rerun()
        self._reran = self._moves.reran.get(ordinal, self._reran)
        self._after(("op", ordinal))

    def after_rerun(self) -> None:
        self._reran += 1
        self._after(("rerun", self._reran))

    def _after(self, what: tuple[str, int]) -> None:
        for number in self._moves.evictions.get(what, ()):
            if number in self._of:
                self._states.evict(self._of[number])
        for number in self._moves.prefetches.get(what, ()):
            if number in self._of:
                self._states.begin_fetch(self._of[number])
