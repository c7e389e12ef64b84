# SPDX-License-Identifier: Apache-2.0
"""The joint graph of forward and backward that AOTAutograd made of a compiled region, as the planner needs it: which operators make what, and
what has to be saved for backward where some of the values are made again there."""

from __future__ import annotations

import hashlib
import itertools
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils.flop_counter import flop_registry

from ._operators import facts_of

# Where a size is known only at run time.
_UNKNOWN_SIZE = 4096
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass
class JointOperator:
    name: str
    reads: list[int]
    writes: list[int]  # numbers of buffers
    flops: int
    once: bool  # it must not run again


@dataclass
class Base:
    """The values that PyTorch's partitioner would save, and the operators that then run; the planner decides which of the values are made again instead."""

    nodes: list[int]  # places in the graph
    saved_bytes: int
    forward: list[JointOperator]
    backward: list[JointOperator]  # with what PyTorch itself makes again
    sizes: dict[int, int]  # by buffer


@dataclass
class Region:
    """A compiled region. Lists are by place of a node in the graph. A buffer's number is the place of the node that it is the result of."""

    key: str = ""  # equal for equal graphs, in every process
    on_cpu: bool = True
    names: list[str] = field(default_factory=list)
    inputs: list[list[int]] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)  # the buffer that the node's tensor is a view of; -1: it is no tensor
    sizes: dict[int, int] = field(default_factory=dict)  # by buffer
    is_input: list[bool] = field(default_factory=list)
    is_free: list[bool] = field(default_factory=list)  # parameters, buffers of modules, what is no tensor: saving it costs nothing
    is_symbol: list[bool] = field(default_factory=list)
    is_forced: list[bool] = field(default_factory=list)  # the program says that backward runs it again (checkpoint)
    is_once: list[bool] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)  # what backward reads, and does not itself depend on gradients
    fixed_bytes: int = 0  # random states of what runs again by the program's wish: they are saved whatever is chosen
    bases: list[Base] = field(default_factory=list)  # the first one: what is saved without a budget

    def saved_by(self, base: Base, made_again: set[int]) -> list[int]:
        """The nodes to save where these buffers of the base are made again: backward can be computed from them."""
        chosen = set(base.nodes)
        kept = {self.roots[node] for node in base.nodes} - made_again
        found, seen, pending = set(), set(), list(self.wanted)
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            root = self.roots[node]
            is_kept = not self.is_forced[node] and (root in kept and (node in chosen or node == root))
            must = self.is_once[node] and root >= 0 and not self.is_forced[node]
            if self.is_input[node] or self.is_symbol[node] or is_kept or (must and root not in kept):
                found.add(node)
            else:
                pending += self.inputs[node]
        return sorted(found)

    def saved_bytes(self, nodes: Iterable[int]) -> int:
        """The bytes of storages. Parameters and buffers of modules do not count, because they are there anyway; other inputs of the region do."""
        roots = {self.roots[node] for node in nodes if self.roots[node] >= 0}
        return self.fixed_bytes + sum(self.sizes[root] for root in roots if not self.is_free[root])

    @property
    def is_dynamic(self) -> bool:
        """Sizes differ from pass to pass: those known here are of the first one."""
        return any(self.is_symbol)


def hint(size: Any) -> int:
    """A number for a size that may be symbolic, without a guard on it."""
    if isinstance(size, int):
        return size
    value = getattr(getattr(size, "node", None), "hint", None)
    return int(value) if isinstance(value, (int, float)) else _UNKNOWN_SIZE


def _bytes_of(tensor: torch.Tensor) -> int:
    count = tensor.element_size()
    for size in tensor.shape:
        count *= hint(size)
    return count


def _shapes(value: Any) -> Any:
    """For formulas of flops, which ask for shapes."""
    if isinstance(value, fx.Node):
        return _shapes(value.meta.get("val"))
    if isinstance(value, torch.Tensor):
        return torch.Size([hint(size) for size in value.shape])
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return [_shapes(item) for item in value]
    return hint(value) if isinstance(value, torch.SymInt) else value


def _flops(node: fx.Node) -> int:
    count = flop_registry.get(getattr(node.target, "_overloadpacket", None))
    if count is None:
        return 0
    try:
        return int(count(*_shapes(node.args), **{k: _shapes(v) for k, v in node.kwargs.items()}, out_val=_shapes(node.meta.get("val"))))
    except (TypeError, AttributeError, ValueError, IndexError, AssertionError):  # a formula that asks for more than shapes
        return 0


def _is_view(node: fx.Node) -> bool:
    """Its results are of the storage of its first argument."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    returns = node.target._schema.returns
    return bool(returns) and returns[0].alias_info is not None and not returns[0].alias_info.is_write


def _policy(node: fx.Node) -> str:
    """The policy of checkpointing, or of AOTAutograd, for the node; "" if there is none."""
    return getattr(node.meta.get("recompute"), "name", "")


class GraphReader:
    """Reads a graph of which PyTorch says what is forward: `info` is a torch._functorch.partitioners.NodeInfo."""

    def __init__(self, graph: fx.Graph, info: Any) -> None:
        self.nodes = [node for node in graph.nodes if node.op != "output"]
        self._places = {node: place for place, node in enumerate(self.nodes)}
        self._info = info
        # Inputs that the region writes in place: what reads them reads something else later.
        self._changed = {node.args[0] for node in self.nodes if node.target is torch.ops.aten.copy_.default}
        self._changed |= {node for node in self.nodes if node.meta.get("aot_runtime_epilogue_input_mutation", False)}
        self.region = Region()
        self._read()
        self.region.key = self._key()

    def _key(self) -> str:
        """Without names of nodes and addresses of functions, which differ between processes. With everything that the choice of what to save depends on:
        equal operators may be marked for running again, have a parameter for an argument, or return something else."""
        region = self.region
        said = (region.is_input, region.is_free, region.is_forced, region.is_once, region.wanted, region.fixed_bytes, region.on_cpu)
        backward = [node in self._info.tangents_closure for node in self.nodes]
        forward = [self._info.is_required_fw(node) for node in self.nodes]
        text = hashlib.sha256(repr((said, backward, forward)).encode())
        for node in self.nodes:
            value = node.meta.get("val")
            shape = (str(value.dtype), [hint(size) for size in value.shape]) if isinstance(value, torch.Tensor) else ""
            is_named = isinstance(node.target, (str, torch._ops.OpOverload))
            target = str(node.target) if is_named else getattr(node.target, "__name__", type(node.target).__name__)
            text.update(repr((node.op, target, [self._places[a] for a in node.all_input_nodes], shape)).encode())
        return text.hexdigest()

    def _read(self) -> None:
        region, info = self.region, self._info
        inputs = set(info.inputs)
        for place, node in enumerate(self.nodes):
            value = node.meta.get("val")
            is_tensor = isinstance(value, torch.Tensor)
            region.names.append(node.name)
            region.inputs.append([self._places[a] for a in node.all_input_nodes])
            region.is_input.append(node in inputs)
            region.is_free.append(not is_tensor or node in info.static_lifetime_input_nodes)
            region.is_symbol.append(isinstance(value, torch.SymInt))
            region.is_forced.append(_policy(node) in ("MUST_RECOMPUTE", "PREFER_RECOMPUTE"))
            region.roots.append(self._root(place, node) if is_tensor else -1)
            region.is_once.append(self._runs_once(node))
            if region.roots[-1] == place:
                region.sizes[place] = _bytes_of(value)
            if is_tensor and value.device.type != "cpu":
                region.on_cpu = False
        again = sum(region.is_forced[p] and self._is_random(node) for p, node in enumerate(self.nodes))
        region.fixed_bytes = again * torch.get_rng_state().numel() if region.on_cpu else 0
        backward = [node in info.tangents_closure for node in self.nodes]
        wanted = {i for place, is_backward in enumerate(backward) if is_backward for i in region.inputs[place] if not backward[i]}
        wanted |= {p for p, node in enumerate(self.nodes) if node in info.required_bw_nodes and not backward[p]}
        region.wanted = sorted(wanted)

    def _root(self, place: int, node: fx.Node) -> int:
        roots = self.region.roots
        source = node.args[0] if node.target is operator.getitem else node
        if not _is_view(source) or not source.all_input_nodes:
            return place
        first = roots[self._places[source.all_input_nodes[0]]]
        return first if first >= 0 else place

    @staticmethod
    def _is_random(node: fx.Node) -> bool:
        return isinstance(node.target, torch._ops.OpOverload) and facts_of(node.target).random

    def _runs_once(self, node: fx.Node) -> bool:
        """Whether running it again could give other bits, or do something twice."""
        if node.op != "call_function" or isinstance(node.meta.get("val"), _SYMBOLS):
            return False
        if _policy(node) == "MUST_SAVE":
            return True
        if node.target is operator.getitem:
            return self.region.is_once[self._places[node.args[0]]]
        if not isinstance(node.target, torch._ops.OpOverload):
            return True
        facts = facts_of(node.target)
        return bool(facts.refusal or facts.random or facts.writes) or not self._changed.isdisjoint(node.all_input_nodes)

    def add_base(self, saved: Iterable[fx.Node]) -> None:
        """Adds the choice to save these. Only the first choice, which is the one without a budget, may run an operator again that must run once."""
        reader = _BaseReader(self, sorted(self._places[node] for node in saved))
        base = reader.run()
        if not reader.refused or not self.region.bases:
            self.region.bases.append(base)


class _BaseReader:
    def __init__(self, graph: GraphReader, nodes: list[int]) -> None:
        self._graph, self._region = graph, graph.region
        self._nodes = graph.nodes
        self._base = Base(nodes, graph.region.saved_bytes(nodes), [], [], dict(graph.region.sizes))
        self._kept = {graph.region.roots[node] for node in nodes}
        self._made: set[int] = set()  # nodes that backward has made
        self._again: dict[int, int] = {}  # by buffer: its number when backward makes it
        self._fresh = itertools.count(len(graph.nodes))
        self.refused = False  # something would run again that must run once

    def run(self) -> Base:
        info, region = self._graph._info, self._region
        forward = {p for p, node in enumerate(self._nodes) if info.is_required_fw(node)}
        pending = list(self._base.nodes)
        while pending:  # backward alone wants some of what is saved
            place = pending.pop()
            if place not in forward:
                forward.add(place)
                pending += region.inputs[place]
        # An operator of several results belongs where any of them does.
        forward |= {region.inputs[p][0] for p in forward if self._nodes[p].target is operator.getitem}
        for place in sorted(forward):
            self._emit(self._base.forward, place, lambda root: root)
        for place, node in enumerate(self._nodes):
            if node in info.tangents_closure:
                for i in region.inputs[place]:
                    self._make(i, forward)
                self._emit(self._base.backward, place, self._number_of)
        return self._base

    def _emit(self, operators: list[JointOperator], place: int, number_of: Any) -> None:
        region, node = self._region, self._nodes[place]
        if node.op != "call_function" or node.target is operator.getitem or region.is_symbol[place]:
            return
        made = [place] if region.roots[place] == place else []
        if isinstance(node.meta.get("val"), (list, tuple)):
            results = [self._graph._places[user] for user in node.users if user.target is operator.getitem]
            made = [p for p in results if region.roots[p] == p]
        if made:
            reads = dict.fromkeys(number_of(region.roots[i]) for i in region.inputs[place] if region.roots[i] >= 0)
            writes = [number_of(p) if p not in self._again else self._again[p] for p in made]
            once = region.is_once[place] and not region.is_forced[place]
            operators.append(JointOperator(str(node.target), list(reads), writes, _flops(node), once))

    def _number_of(self, root: int) -> int:
        return root if root in self._kept else self._again.get(root, root)

    def _is_there(self, node: int) -> bool:
        region = self._region
        is_given = region.is_input[node] or region.is_symbol[node] or self._nodes[node] in self._graph._info.tangents_closure
        return is_given or node in self._made or region.roots[node] in self._kept

    def _make(self, place: int, forward: set[int]) -> None:
        """Backward makes what it needs for the node's tensor."""
        region = self._region
        pending = [place]
        while pending:
            node = pending[-1]
            missing = [] if self._is_there(node) else [i for i in region.inputs[node] if not self._is_there(i)]
            if missing:
                pending += missing
                continue
            pending.pop()
            if self._is_there(node):
                continue
            self._made.add(node)
            makes = region.roots[node] == node or isinstance(self._nodes[node].meta.get("val"), (list, tuple))
            if not makes or self._nodes[node].target is operator.getitem:
                continue
            self.refused |= node in forward and region.is_once[node] and not region.is_forced[node]
            users = [self._graph._places[user] for user in self._nodes[node].users if user.target is operator.getitem]
            for root in [node, *users]:
                if region.roots[root] == root:
                    self._again[root] = next(self._fresh)
                    self._base.sizes[self._again[root]] = region.sizes[root]
            self._emit(self._base.backward, node, self._number_of)
