# SPDX-License-Identifier: Apache-2.0
"""Chooses the parameters whose optimizer's step runs in host memory. The library's planner is asked about the recorded step without the operators
of these, for a few sets of parameters; the fastest step is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from . import _command
from ._host_steps import HostSteps, is_usual, may_run_on_host
from ._step_record import StepRecord, cpu_microseconds

# Parts of all parameters that are tried, those first for which most bytes would cross the link.
_TRIED = (0.25, 0.5, 0.75, 1.0)
# Cores beyond these find no more bandwidth of host memory, roughly.
_MOST_CORES = 8


@dataclass(frozen=True)
class Candidate:
    """A parameter whose step may run in host memory."""

    parameter: torch.Tensor
    places: frozenset[int]  # of its operators in the optimizer's step
    states: frozenset[int]  # numbers of its storages that only these use
    gradient: int  # number
    number: int  # of the parameter
    accumulated_at: int  # place: the gradient is whole before this operator
    microseconds: float  # in host memory


def link_of(device: str, command: str | None = None) -> tuple[float, float]:
    """Bytes in a second, to the device and to the host."""
    for profile in _command.devices(command=command):
        if profile["name"] == device:
            return profile["link_to_device"], profile["link_to_host"]
    raise ValueError(f"device: there is no profile '{device}'; `thermocline devices` lists them")


def candidates(record: StepRecord, host: HostSteps) -> list[Candidate]:
    """Parameters that one step of a known optimizer changes, with gradients that are made once in the step and that only the optimizer takes."""
    numbers: dict[tuple[str, int], list[int]] = {}
    for number, role in record.roles.items():
        numbers.setdefault(role, []).append(number)
    owner, parameters = _owners(host, numbers)
    places = _places_by_owner(record, host, owner)
    in_spans = {place for begin, end in host.spans for place in range(begin, end)}
    users = _users(record)
    freed = {number for kind, number in record.events if kind == "free"}
    before = set(record.before)
    found = []
    for key, parameter in parameters.items():
        mine, gradients, own = places.get(key, set()), numbers.get(("grad", key), []), numbers.get(("tensor", key), [])
        accumulated = host.accumulated.get(key, [])
        if not mine or len(gradients) != 1 or len(own) != 1 or len(accumulated) != 1:
            continue
        gradient, at = gradients[0], accumulated[0]
        kept = {number for number, of in owner.items() if of == key and number not in (gradient, own[0])}
        is_whole = kept <= before and own[0] in before and all(users.get(number, set()) <= mine for number in kept)
        others = users.get(gradient, set()) - mine
        is_own = gradient not in before and gradient in freed and all(place < at for place in others)
        if is_whole and is_own and kept and not (users.get(own[0], set()) & in_spans - mine):
            own_operators = [record.operators[place] for place in mine]
            microseconds = sum(cpu_microseconds(op.flops, op.moved_bytes) for op in own_operators) / _cores()
            found.append(Candidate(parameter, frozenset(mine), frozenset(kept), gradient, own[0], at, microseconds))
    return found


def _cores() -> int:
    return max(1, min(torch.get_num_threads(), _MOST_CORES))


def _owners(host: HostSteps, numbers: dict[tuple[str, int], list[int]]) -> tuple[dict[int, int], dict[int, torch.Tensor]]:
    """By number of a state: the id of the parameter that it is of; and the parameters."""
    owner: dict[int, int] = {}
    parameters: dict[int, torch.Tensor] = {}
    for optimizer in host.optimizers:
        for group in filter(is_usual, optimizer.param_groups):
            for parameter in filter(may_run_on_host, group["params"]):
                key = id(parameter)
                parameters[key] = parameter
                roles = [("tensor", key), ("grad", key), *(("state", id(value)) for value in optimizer.state.get(parameter, {}).values())]
                owner.update({number: key for role in roles for number in numbers.get(role, ())})
    return owner, parameters


def _places_by_owner(record: StepRecord, host: HostSteps, owner: dict[int, int]) -> dict[int, set[int]]:
    """The operators of each parameter in the optimizer's step. Of two owners neither has the operator."""
    found: dict[int, set[int]] = {}
    of = dict(owner)
    for begin, end in host.spans:
        for place in range(begin, end):
            op = record.operators[place]
            keys = {of[number] for number in (*op.reads, *op.writes) if number in of}
            if len(keys) == 1:
                key = keys.pop()
                found.setdefault(key, set()).add(place)
                of.update(dict.fromkeys(op.writes, key))
    return found


def _users(record: StepRecord) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for place, op in enumerate(record.operators):
        for number in (*op.reads, *op.writes):
            found.setdefault(number, set()).add(place)
    return found


def hosted(record: StepRecord, chosen: list[Candidate]) -> StepRecord:
    """The step where these run in host memory: without their operators, with no state of theirs on the device, and with gradients that leave when
    they are whole."""
    removed = frozenset().union(*(one.places for one in chosen))
    gone = {number for one in chosen for number in one.states}
    users = _users(record)
    gone |= {number for number in record.sizes if users.get(number) and users[number] <= removed and number not in record.before}
    gone -= {one.gradient for one in chosen}
    place_of = _places_without(record, removed)
    leaves: dict[int, list[int]] = {}
    for one in chosen:
        leaves.setdefault(one.accumulated_at, []).append(one.gradient)
    return replace(
        record,
        operators=[op for place, op in enumerate(record.operators) if place not in removed],
        events=_events_without(record, removed, gone, place_of, leaves),
        sizes={number: size for number, size in record.sizes.items() if number not in gone},
        before=[number for number in record.before if number not in gone],
        results=[number for number in record.results if number not in gone],
        writers=_writers_without(record, removed, gone, place_of),
        held_until={number: place_of[min(place, len(place_of) - 1)] for number, place in record.held_until.items() if number not in gone},
        alive={number: storage for number, storage in record.alive.items() if number not in gone},
        roles={number: role for number, role in record.roles.items() if number not in gone},
    )


def _places_without(record: StepRecord, removed: frozenset[int]) -> list[int]:
    found, count = [], 0
    for place in range(len(record.operators) + 1):
        found.append(count)
        count += place not in removed
    return found


def _writers_without(record: StepRecord, removed: frozenset[int], gone: set[int], place_of: list[int]) -> dict[int, list[tuple[int, int]]]:
    writers = type(record.writers)(list)
    for number, places in record.writers.items():
        kept = [(place_of[place], index) for place, index in places if place not in removed]
        if kept and number not in gone:
            writers[number] = kept
    return writers


def _events_without(
    record: StepRecord, removed: frozenset[int], gone: set[int], place_of: list[int], leaves: dict[int, list[int]]
) -> list[tuple[str, int]]:
    events: list[tuple[str, int]] = []
    left = {number for numbers in leaves.values() for number in numbers}
    for kind, number in record.events:
        if kind == "op":
            events += [("free", gradient) for gradient in leaves.get(number, ())]
            if number not in removed:
                events.append(("op", place_of[number]))
        elif number not in gone and not (kind == "free" and number in left):
            events.append((kind, number))
    return events


def choose(record: StepRecord, host: HostSteps, ask: Callable[[StepRecord], dict[str, Any]], device: str) -> tuple[list[Candidate], str]:
    """The parameters, and a line about the choice. ask: the planner."""
    all_ = candidates(record, host)
    plain = ask(record)
    if not all_ or (plain["fits"] and not plain.get("moves")):
        return [], ""
    to_device, to_host = link_of(device)
    moved = {move[0] for move in plain.get("moves", ())}

    def saved_bytes(one: Candidate) -> int:
        crossing = sum(2 * record.sizes[number] for number in one.states if not plain["fits"] or number in moved)
        return crossing + (2 if one.gradient in moved else 0) * record.sizes[one.gradient]

    order = sorted(filter(saved_bytes, all_), key=lambda one: (-saved_bytes(one), one.number))
    best: list[Candidate] = []
    best_ms = plain["step_ms"] if plain["fits"] else float("inf")
    all_ms = sum(record.operators[place].microseconds for one in all_ for place in one.places) / 1000
    for count in dict.fromkeys(max(1, round(part * len(order))) for part in _TRIED if order):
        chosen = order[:count]
        answer = ask(hosted(record, chosen))
        if not answer["fits"]:
            continue
        stay = {move[0] for move in answer.get("moves", ())}
        own_ms = sum(record.operators[place].microseconds for one in chosen for place in one.places) / 1000
        # The thread works beside what the optimizer does on the device. That gradients leave beside backward does not count.
        host_ms = max(sum(one.microseconds for one in chosen) / 1000 - (all_ms - own_ms), 0)
        link_ms = sum(1000 * record.sizes[one.gradient] / to_host for one in chosen)
        link_ms += sum(1000 * record.sizes[one.number] / to_device for one in chosen if one.number not in stay)
        if answer["step_ms"] + host_ms + link_ms < best_ms:
            best, best_ms = chosen, answer["step_ms"] + host_ms + link_ms
    if not best:
        return [], ""
    before = f"{plain['step_ms']:,.3g} ms" if plain["fits"] else "no plan"
    expected = f"expected {best_ms:,.3g} ms instead of {before}"
    return best, f"{len(best)} of {len(all_)} parameters are updated in host memory ({expected}); the next step is recorded again"


def again(record: StepRecord, host: HostSteps) -> StepRecord:
    """A step that was recorded while the chosen parameters were updated in host memory."""
    numbers: dict[tuple[str, int], list[int]] = {}
    for number, role in record.roles.items():
        numbers.setdefault(role, []).append(number)
    owner, parameters = _owners(host, numbers)
    users = _users(record)
    freed = {number for kind, number in record.events if kind == "free"}
    chosen = []
    for key in host.chosen & parameters.keys():
        gradients, own, at = numbers.get(("grad", key), []), numbers.get(("tensor", key), []), host.accumulated.get(key, [])
        if len(gradients) != 1 or len(own) != 1 or len(at) != 1 or gradients[0] not in freed or gradients[0] in record.before:
            continue
        states = frozenset(n for n, of in owner.items() if of == key and n not in (gradients[0], own[0]) and not users.get(n))
        if all(place < at[0] for place in users.get(gradients[0], ())):
            chosen.append(Candidate(parameters[key], frozenset(), states, gradients[0], own[0], at[0], 0.0))
    return hosted(record, chosen)
