# SPDX-License-Identifier: Apache-2.0
"""Whether the ranks of a distributed program have the same plan. They tell each other by the store of the process group, which asks nobody to
take part: a rank that makes no plan keeps nobody waiting, as it would in a collective."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

_plans: Counter[str] = Counter()  # made by this process, by what made them


def digest_of(what: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def _store() -> Any:
    """None where there is no process group, or nobody else in it."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() < 2:
        return None
    try:
        from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

        return PrefixStore("thermocline", _get_default_store())
    except (ImportError, RuntimeError, ValueError):
        return None


def compare(maker: str, what: dict[str, Any], say: Callable[[str], None]) -> None:
    """Says in a line which rank has another plan, and what differs first. Each rank writes its own plan and then reads those that are
    there already: rank 0 reads all, the others rank 0's. So of two that differ at least one says so, and none waits."""
    number = _plans[maker]
    _plans[maker] += 1
    store = _store()
    if store is None:
        return
    rank, count = torch.distributed.get_rank(), torch.distributed.get_world_size()
    mine = {"digest": digest_of(what), **{key: value if isinstance(value, (int, str)) else digest_of({key: value}) for key, value in what.items()}}
    try:
        store.set(f"{maker}/{number}/{rank}", json.dumps(mine))
        for other in range(1, count) if rank == 0 else (0,):
            key = f"{maker}/{number}/{other}"
            if store.check([key]):
                difference = _difference(mine, json.loads(store.get(key)))
                if difference:
                    say(f"rank {other} has another plan than rank {rank} (plan {number + 1}): {difference}")
    except (RuntimeError, ValueError) as error:  # a store that is gone, or one that can not be asked without waiting
        say(f"the plans of the ranks were not compared: {str(error).splitlines()[0]}")


def _difference(mine: dict[str, Any], other: dict[str, Any]) -> str:
    if mine["digest"] == other.get("digest"):
        return ""
    for key in mine:
        if key != "digest" and mine[key] != other.get(key):
            return f"{key} {other.get(key)}, here {mine[key]}"
    return "it was made by another version"
