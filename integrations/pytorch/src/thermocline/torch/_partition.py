# SPDX-License-Identifier: Apache-2.0
"""Where AOTAutograd asks which values a compiled region saves for backward. PyTorch's own settings for that (`activation_memory_budget` and its
solver) leave the last word to a minimum cut, and are not asked for every graph; here the answer is the last word."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx

from ._joint_graph import GraphReader, Region

# Graphs are compiled one at a time while the answer is not PyTorch's own.
_lock = threading.RLock()
_ARGUMENTS = ["joint_graph", "node_info", "memory_budget"]


def check_partitioner() -> None:
    """Raises RuntimeError where this PyTorch does not ask in the way that is known here."""
    from torch._functorch import partitioners

    asked = getattr(partitioners, "choose_saved_values_set", None)
    if asked is None or list(inspect.signature(asked).parameters)[:3] != _ARGUMENTS:
        raise RuntimeError(
            f"thermocline.torch.compile_budget: PyTorch {torch.__version__} chooses what to save in another way than 2.15 does; "
            "use thermocline.torch.fit, which needs no compiler, or PyTorch 2.15"
        )


@contextmanager
def answered(answer: Callable[[Region], list[int] | None]) -> Iterator[None]:
    """Within it, graphs compiled on this thread save what `answer` says, as places of nodes; None: what PyTorch would save. No graph that was
    compiled before is taken from a cache of AOTAutograd, because its key does not know the answer."""
    from torch._functorch import config, partitioners

    with _lock:
        own, thread = partitioners.choose_saved_values_set, threading.get_ident()

        def choose(joint_graph: fx.Graph, node_info: Any, memory_budget: float = 1) -> list[fx.Node]:
            if threading.get_ident() != thread:
                return own(joint_graph, node_info, memory_budget)
            graph = GraphReader(joint_graph, node_info)
            saved = own(joint_graph, node_info, 1)
            graph.add_base(saved)
            with config.patch(aggressive_recomputation=True):
                graph.add_base(own(joint_graph, node_info, 1))
            places = answer(graph.region)
            return saved if places is None else [graph.nodes[place] for place in places]

        partitioners.choose_saved_values_set = choose
        try:
            with config.patch(enable_autograd_cache=False):
                yield
        finally:
            partitioners.choose_saved_values_set = own
