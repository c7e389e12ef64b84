# SPDX-License-Identifier: Apache-2.0
"""Tests what offload() does with saved tensors, on CPU tensors and with a store that writes down its calls. Skipped
(status 77) where PyTorch is not."""

import contextlib
import gc
import os
import sys
import unittest
import weakref

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
try:
    import torch
except ImportError:
    print("PyTorch is not installed for this Python")
    sys.exit(77)
from torch.utils.checkpoint import checkpoint

import thermocline.torch as tt


class EvictedTensor:
    def __init__(self, store: "Recorder", number: int, alias: torch.Tensor) -> None:
        self.store = store
        self.number = number
        bytes_ = torch.empty(0, dtype=torch.uint8).set_(alias.untyped_storage())
        self.contents = bytes_.clone()

    def prefetch(self) -> None:
        self.store.log.append(("prefetch", self.number))

    def fetch(self) -> torch.UntypedStorage:
        self.store.log.append(("fetch", self.number))
        return self.contents.clone().untyped_storage()

    def release(self) -> None:
        self.store.log.append(("release", self.number))


class Recorder:
    """Copies at once, and keeps nothing of the original."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []
        self.evicted: list[weakref.ref[EvictedTensor]] = []

    def accepts(self, tensor: torch.Tensor) -> bool:
        return True

    def release_copied(self) -> None:
        pass

    def evict(self, alias: torch.Tensor) -> EvictedTensor:
        tensor = EvictedTensor(self, len(self.evicted), alias)
        self.evicted.append(weakref.ref(tensor))
        self.log.append(("evict", tensor.number))
        return tensor

    def numbers(self, what: str) -> list[int]:
        return [number for event, number in self.log if event == what]

    def alive(self) -> int:
        gc.collect()
        return sum(tensor() is not None for tensor in self.evicted)


def layers(kind: str) -> torch.nn.Module:
    torch.manual_seed(7)
    nn = torch.nn
    if kind == "convolutions":
        return nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.GELU(),
            nn.Dropout(0.3), nn.Flatten(), nn.LazyLinear(10), nn.LogSoftmax(1),
        )
    if kind == "attention":
        return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.Sequential(*[part for _ in range(6) for part in (nn.Linear(32, 32), nn.Tanh())])


def sample(kind: str) -> torch.Tensor:
    torch.manual_seed(8)
    return torch.randn(4, 3, 16, 16) if kind == "convolutions" else torch.randn(4, 6, 32) if kind == "attention" else torch.randn(16, 32)


def gradients(kind: str, forward, context=None) -> list[torch.Tensor]:
    """The output, every gradient, the input's gradient of one step; and the module's counters (batch norm)."""
    model, x = layers(kind), sample(kind).requires_grad_()
    model(sample(kind))
    model.zero_grad()
    torch.manual_seed(9)
    if context is None:
        out = forward(model, x)
    else:
        with context:
            out = forward(model, x)
    out.square().sum().backward()
    return [out.detach(), x.grad, *[p.grad for p in model.parameters()], *[b.clone() for b in model.buffers()]]


def plain(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x)


def checkpointed(reentrant: bool):
    def forward(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        middle = checkpoint(model[:6], x, use_reentrant=reentrant)
        return model[6:](middle)

    return forward


def autocast(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return model(x).float()


def twice(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x) + model(x * 2)


class Bits(unittest.TestCase):
    def expect_same(self, kind: str, forward) -> Recorder:
        store = Recorder()
        expected = gradients(kind, forward)
        found = gradients(kind, forward, tt.offload(store=store, min_bytes=0))
        self.assertEqual(len(found), len(expected))
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            self.assertTrue(torch.equal(one, other), f"tensor {i} of {kind}")
        self.assertGreater(len(store.numbers("evict")), 0)
        self.assertEqual(store.alive(), 0, "the graph is gone, and with it every copy")
        return store

    def test_gradients_are_the_same_bits(self) -> None:
        for kind in ("linear", "convolutions", "attention"):
            with self.subTest(kind):
                store = self.expect_same(kind, plain)
                self.assertGreater(len(store.numbers("fetch")), 0)

    def test_with_checkpointing(self) -> None:
        for reentrant in (False, True):
            with self.subTest(reentrant=reentrant):
                self.expect_same("linear", checkpointed(reentrant))

    def test_with_autocast(self) -> None:
        self.expect_same("linear", autocast)
        self.expect_same("attention", autocast)

    def test_with_two_passes_into_one_loss(self) -> None:
        self.expect_same("linear", twice)

    def test_with_a_compiled_function(self) -> None:
        compiled = torch.compile(lambda x: torch.tanh(x).sin() * x, backend="aot_eager")

        def forward(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
            return compiled(model(x))

        self.expect_same("linear", forward)

    def test_second_derivatives(self) -> None:
        def second(context) -> torch.Tensor:
            x = torch.linspace(-1, 1, 64, requires_grad=True)
            with context:
                y = (x.sin() * x.exp()).sum()
                (first,) = torch.autograd.grad(y, x, create_graph=True)
                z = first.square().sum()
            return torch.autograd.grad(z, x)[0]

        expected = second(torch.enable_grad())
        self.assertTrue(torch.equal(second(tt.offload(store=Recorder(), min_bytes=0)), expected))

    def test_a_small_tensor_that_stays_is_watched_and_freed(self) -> None:
        x = torch.randn(8, requires_grad=True)
        with tt.offload(store=Recorder(), min_bytes=1 << 20):
            y = x.exp()
            y.mul_(2)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()
        with tt.offload(store=Recorder(), min_bytes=1 << 20):
            y = x.exp()  # saves its own result
        gone = weakref.ref(y.untyped_storage())
        del y
        self.assertIsNone(gone())

    def test_a_second_backward_through_the_same_graph(self) -> None:
        store = Recorder()
        x = torch.randn(64, requires_grad=True)
        with tt.offload(store=store, min_bytes=0):
            y = (x * 2).sin().exp().sum()
        (first,) = torch.autograd.grad(y, x, retain_graph=True)
        self.assertEqual(store.alive(), len(store.evicted))
        (second,) = torch.autograd.grad(y, x)
        self.assertTrue(torch.equal(first, second))
        del y
        self.assertEqual(store.alive(), 0)


class Memory(unittest.TestCase):
    def setUp(self) -> None:
        self.store = Recorder()
        self.offload = tt.offload(store=self.store, min_bytes=0, ahead=2)
        self.x = torch.randn(64, requires_grad=True)

    def chain(self, steps: int) -> tuple[torch.Tensor, list[weakref.ref]]:
        storages = []
        y = self.x * 1
        for _ in range(steps):
            y = y.sin()
            storages.append(weakref.ref(y.untyped_storage()))
        return y.sum(), storages

    def test_what_was_saved_is_released(self) -> None:
        loss, storages = self.chain(5)
        self.assertEqual([s() is None for s in storages], [False] * 4 + [True], "autograd itself keeps what sin needs")
        del loss
        with self.offload:
            loss, storages = self.chain(5)
        self.assertEqual([s() is None for s in storages], [True] * 5)
        loss.backward()

    def test_returns_are_in_reverse_and_ahead_of_need(self) -> None:
        with self.offload:
            loss, _ = self.chain(6)
        self.assertEqual(self.store.log, [("evict", i) for i in range(6)])
        self.store.log.clear()
        loss.backward()
        self.assertEqual(self.store.numbers("fetch"), [5, 4, 3, 2, 1, 0])
        self.assertEqual(self.store.numbers("prefetch"), [4, 3, 3, 2, 2, 1, 1, 0, 0])
        for number in range(5):
            begun, came = self.store.log.index(("prefetch", number)), self.store.log.index(("fetch", number))
            self.assertLess(begun, came)
        self.assertEqual(self.offload.statistics(), {"evicted_bytes": 6 * 256, "restored_bytes": 6 * 256, "shared": 0, "kept": 0})

    def test_passes_taken_back_one_by_one(self) -> None:
        for order in ((0, 1), (1, 0)):
            with self.subTest(order=order):
                self.setUp()
                losses = []
                with self.offload:
                    for _ in range(2):
                        losses.append(self.chain(3)[0])
                for i in order:
                    losses[i].backward()
                expected = torch.autograd.grad(self.chain(3)[0], self.x)[0] * 2
                self.assertTrue(torch.equal(self.x.grad, expected))
                first, second = [2, 1, 0], [5, 4, 3]
                self.assertEqual(self.store.numbers("fetch"), first + second if order == (0, 1) else second + first)

    def test_views_and_duplicates_share_one_copy(self) -> None:
        with self.offload:
            y = self.x * 1
            a = y.sin()  # saves y
            b = y.view(8, 8).t().cos()  # a view of it
            c = y * y  # twice
            loss = a.sum() + b.sum() + c.sum()
            del y, a, b, c
        self.assertEqual(self.store.numbers("evict"), [0])
        self.assertEqual(self.offload.statistics()["shared"], 3)
        loss.backward()
        self.assertEqual(self.store.numbers("fetch"), [0], "it stays until the last of them has been unpacked")
        self.assertEqual(self.store.numbers("release"), [0])
        expected = (self.x.cos() - self.x.sin() + 2 * self.x).detach()
        self.assertTrue(torch.allclose(self.x.grad, expected))

    def test_what_is_still_there_is_not_fetched(self) -> None:
        with self.offload:
            y = self.x * 1
            loss = y.sin().sum()
        loss.backward()
        self.assertEqual(self.store.numbers("fetch"), [])
        self.assertTrue(torch.equal(self.x.grad, y.detach().cos()))

    def test_each_version_of_a_tensor_has_its_own_copy(self) -> None:
        with self.offload:
            y = (self.x * 1).detach().requires_grad_()
            z = y * 1
            w = torch.ones(64, requires_grad=True)
            first = w * z
            with torch.no_grad():
                z += 1
            second = w * z
        self.assertEqual(len(self.store.numbers("evict")), 2)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            torch.autograd.grad(first.sum(), w)
        (gradient,) = torch.autograd.grad(second.sum(), w)
        self.assertTrue(torch.equal(gradient, z.detach()))

    def test_a_change_in_place_raises_as_without_it(self) -> None:
        """However the saved tensor lives on: itself, its views, its base."""
        for saves_a_view in (False, True):
            for context in (contextlib.nullcontext(), self.offload):
                with self.subTest(saves_a_view=saves_a_view, context=context), context:
                    y = self.x * 1
                    loss = (y.view(8, 8) if saves_a_view else y).sin().sum()
                    with torch.no_grad():
                        (y if saves_a_view else y[3:]).mul_(2)
                with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                    loss.backward()

    def test_a_graph_that_is_dropped_drops_its_copies(self) -> None:
        with self.offload:
            loss, _ = self.chain(5)
            self.assertEqual(self.store.alive(), 5)
            del loss
            self.assertEqual(self.store.alive(), 0)
            loss, _ = self.chain(2)
        self.assertEqual(self.store.alive(), 2)
        loss.backward()

    def test_very_many_saves(self) -> None:
        with self.offload:
            for _ in range(3):
                loss, _ = self.chain(200)
                loss.backward()
        expected = torch.autograd.grad(self.chain(200)[0], self.x)[0]
        self.assertTrue(torch.equal(self.x.grad, expected + expected + expected))
        self.assertEqual(self.store.alive(), 0)


class WhatStays(unittest.TestCase):
    def evictions(self, forward, *modules: torch.nn.Module, min_bytes: int = 0) -> int:
        store = Recorder()
        with tt.offload(*modules, store=store, min_bytes=min_bytes):
            forward()
        return len(store.numbers("evict"))

    def test_parameters_and_views_of_them(self) -> None:
        model = torch.nn.Linear(8, 8)
        x = torch.randn(4, 8, requires_grad=True)
        self.assertEqual(self.evictions(lambda: model(x)), 0)
        weight = torch.randn(8, 8, requires_grad=True)
        self.assertEqual(self.evictions(lambda: x @ weight.t()), 0)
        self.assertEqual(self.evictions(lambda: (x * 2) @ weight.t()), 1)

    def test_what_belongs_to_a_given_module(self) -> None:
        model = torch.nn.BatchNorm1d(8).eval()
        model.weight.requires_grad_(False)
        x = torch.randn(4, 8, requires_grad=True)
        self.assertGreater(self.evictions(lambda: model(x)), 0)
        self.assertEqual(self.evictions(lambda: model(x), model), 0)

    def test_small_ones(self) -> None:
        x = torch.randn(64, requires_grad=True)
        self.assertEqual(self.evictions(lambda: (x * 2).sin(), min_bytes=257), 0)
        self.assertEqual(self.evictions(lambda: (x * 2).sin(), min_bytes=256), 1)

    def test_sparse_and_lazily_conjugated_ones_and_subclasses(self) -> None:
        class Tagged(torch.Tensor):
            pass

        sparse = torch.eye(4).to_sparse()
        x = torch.randn(4, 4, requires_grad=True)
        self.assertEqual(self.evictions(lambda: torch.sparse.mm(sparse, x)), 0)
        z = torch.randn(4, dtype=torch.complex64)
        y = torch.randn(4, dtype=torch.complex64, requires_grad=True)
        self.assertEqual(self.evictions(lambda: z.conj() * y), 0)
        self.assertEqual(self.evictions(lambda: torch.randn(4).as_subclass(Tagged) * x), 0)


class Use(unittest.TestCase):
    def test_hooks_end_with_the_block_whatever_happens_there(self) -> None:
        store = Recorder()
        offload = tt.offload(store=store, min_bytes=0)
        with self.assertRaises(KeyError), offload, offload:
            raise KeyError
        x = torch.randn(8, requires_grad=True)
        (x * 2).sin()
        self.assertEqual(store.log, [])
        with offload, offload:
            (x * 2).sin()
        self.assertEqual(store.numbers("evict"), [0])

    def test_compiled_code_says_where_to_enter_it(self) -> None:
        offload = tt.offload(store=Recorder(), min_bytes=0)

        def inside(x: torch.Tensor) -> torch.Tensor:
            with offload:
                return (x * 2).sin()

        with self.assertRaisesRegex(Exception, "enter it around the call|Dynamo does not know how to enter"):
            torch.compile(inside, backend="aot_eager", fullgraph=True)(torch.randn(8, requires_grad=True))

    @unittest.skipIf(torch.cuda.is_available(), "there is a device")
    def test_without_a_device_it_says_so(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "PyTorch finds no CUDA device"):
            tt.offload()
        with self.assertRaisesRegex(RuntimeError, "PyTorch finds no CUDA device|is built without CUDA"):
            tt.enable()
        self.assertFalse(tt.is_enabled())

    def test_senseless_numbers_are_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "not -1 and 5"):
            tt.offload(store=Recorder(), ahead=-1, min_bytes=5)


if __name__ == "__main__":
    unittest.main()
