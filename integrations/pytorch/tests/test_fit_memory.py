# SPDX-License-Identifier: Apache-2.0
"""fit() on CPU tensors: a step needs what was promised, whatever its operators do to parts of a storage, and a number that an error names
suffices."""

import contextlib
import gc
import os
import random
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from fit_steps import PREDICTION, Chain, Steps, fit, loss_of, rows, same  # first: without PyTorch it skips the test

import torch
from fit_stores import HostStore
from torch import nn
from torch.nn import functional as F

import thermocline.torch as tt
from thermocline.torch._regions import may_overlap, region_of


def measured(step, tensors, fitted=None, steps: int = 3) -> tuple[list[torch.Tensor], int]:
    """Gradients of all steps, and the peak of the last. tensors: what there is before; the parameters among them get gradients."""
    left, most = [], 0
    for _ in range(steps):
        with tt.PeakBytes(*tensors) as peak, fitted or contextlib.nullcontext():
            step()
        most = peak.most
        for t in tensors:
            if t.grad is not None:
                left.append(t.grad.to_dense().clone())
                t.grad = None
    return left, most


class Promises(unittest.TestCase):
    def check(self, make, budgets=("75%", "60%", "50%")) -> list[tt.Fit]:
        """make: the step, and the tensors that there are before."""
        torch.manual_seed(1)
        plain, _ = measured(*make())
        made = []
        for budget in budgets:
            with self.subTest(budget=budget):
                torch.manual_seed(1)
                step, tensors = make()
                fitted = fit(step, budget=budget)
                left, most = measured(step, tensors, fitted)
                self.assertTrue(same(plain, left))
                answer = fitted.plan.answer
                self.assertLessEqual(most, answer["budget_bytes"])
                self.assertLess(abs(most / answer["peak_bytes"] - 1), PREDICTION)
                self.assertGreater(fitted.counts.dropped, 0)
                self.assertIsNone(fitted.counts.diverged_at)
                made.append(fitted)
        return made

    def test_recurrent_cells_change_the_chunks_of_their_gates(self) -> None:
        for cell in (nn.GRUCell, nn.LSTMCell):

            def make(cell=cell):
                body, head, x = cell(32, 32), nn.Linear(32, 10), torch.randn(64, 20, 32)

                def step() -> None:
                    state = None
                    for t in range(x.shape[1]):
                        state = body(x[:, t], state)
                    loss_of(head(state[0] if isinstance(state, tuple) else state)).backward()

                return step, [*body.parameters(), *head.parameters(), x]

            with self.subTest(cell=cell.__name__):
                self.check(make)

    def test_a_recurrent_layer(self) -> None:
        def make():
            words, layer, x = nn.Embedding(50, 32), nn.GRU(32, 32, batch_first=True), torch.randint(0, 50, (16, 30))
            return lambda: loss_of(layer(words(x))[0]).backward(), [*words.parameters(), *layer.parameters(), x]

        self.check(make, ("90%", "82%"))

    def test_parts_that_are_changed_one_after_the_other(self) -> None:
        def by_size(y: torch.Tensor, parts: int, dim: int) -> tuple[torch.Tensor, ...]:
            return torch.unsafe_split(y, y.shape[dim] // parts, dim)

        for dim, split in ((1, torch.unsafe_chunk), (0, torch.unsafe_chunk), (1, by_size)):

            def make(dim=dim, split=split):
                sizes = (32, 64) if dim == 1 else (32, 32)
                layers, x = nn.ModuleList(nn.Linear(*sizes) for _ in range(12)), torch.randn(256 if dim == 1 else 512, 32)

                def step() -> None:
                    y = x
                    for layer in layers:
                        a, b = split(layer(y), 2, dim)
                        y = a.sigmoid_() * b.tanh_()
                        y = y if dim == 1 else torch.cat((y, y))
                    loss_of(y).backward()

                return step, [*layers.parameters(), x]

            with self.subTest(dim=dim, split=split):
                self.check(make)

    def test_results_that_only_a_detached_tensor_uses(self) -> None:
        for last in (torch.tanh, lambda y: y * 0.5):

            def make(last=last):
                layers, x = nn.ModuleList(nn.Linear(32, 32) for _ in range(16)), rows()

                def step() -> None:
                    y = x
                    for layer in layers:
                        y = layer(y)
                        y = last(y * y.exp().clamp_max(2).detach())
                    loss_of(y).backward()

                return step, [*layers.parameters(), x]

            self.check(make, ("75%", "60%"))

    def test_an_activation_in_place_runs_again_on_the_copy_that_backward_has(self) -> None:
        """Not on what the layer before it would have to make again."""
        for function in (F.silu, F.hardswish, F.mish):

            def make(function=function):
                layers, x = nn.ModuleList(nn.Linear(32, 32) for _ in range(8)), rows()

                def step() -> None:
                    y = x
                    for layer in layers:
                        y = function(layer(y), inplace=True)
                    loss_of(y).backward()

                return step, [*layers.parameters(), x]

            with self.subTest(function=function.__name__):
                (fitted,) = self.check(make, ("75%",))
                self.assertEqual(fitted.counts.reran, {f"aten::{function.__name__}_": fitted.counts.dropped})

    def test_a_copy_that_is_not_the_same_any_more(self) -> None:
        """Each of the two is changed, or nobody needs it, before the other one is."""

        def make():
            layers, x = nn.ModuleList(nn.Linear(32, 32) for _ in range(8)), rows()

            def step() -> None:
                y = x
                for i, layer in enumerate(layers):
                    y = layer(y) * 0.9
                    copy = y.clone()
                    unused = copy.sin()  # backward has the copy, as far as anybody knows
                    if i % 4 == 0:
                        copy.mul_(2)
                    if i % 4 == 1:
                        y.add_(0.5)
                        y = y.mul_(0.5).sin_()
                    elif i % 4 == 2:
                        y = y.T.contiguous().T
                        copy = y.clone(memory_format=torch.contiguous_format)
                        y = y.cos_() + copy[:, :1]
                    y = y.mul_(copy if i % 4 == 3 else 0.7).sin_()
                    del unused, copy
                loss_of(y).backward()

            return step, [*layers.parameters(), x]

        self.check(make, ("75%", "65%"))

    def test_a_change_that_reads_the_copy_of_what_it_changes(self) -> None:
        """That copy is no beginning for the change: it would be read while it is written."""
        self.uses: list[torch.Tensor] = []

        def transposed(y: torch.Tensor) -> torch.Tensor:
            copy = y.clone()
            self.uses.append(copy.sin())  # backward has the copy
            return copy.unflatten(0, (4, 32)).mT

        changes = {
            "addmm_": lambda y, w: y.addmm_(y.clone(), w, beta=0.5),
            "baddbmm_": lambda y, w: y[None].baddbmm_(y.clone()[None], w[None], beta=0.5)[0],
            "mul_ by a row": lambda y, w: y.mul_(y.detach().clone()[:1]),
            "mul_ by a column": lambda y, w: y.mul_(y.detach().clone()[:, :1]),
            "add_": lambda y, w: y.unflatten(0, (4, 32)).add_(transposed(y)).flatten(0, 1),
        }
        for name, change in changes.items():

            def make(change=change):
                layers, x = nn.ModuleList(nn.Linear(32, 32) for _ in range(8)), rows()

                def step() -> None:
                    y = x
                    for layer in layers:
                        y = change(layer(y), layer.weight).sin()
                    loss_of(y).backward()
                    self.uses.clear()

                return step, [*layers.parameters(), x]

            with self.subTest(name=name):
                self.check(make, ("75%",))

    def test_room_is_left_for_the_copies_that_a_plan_needs(self) -> None:
        """Not for copies of all small state that a step changes: here they would need more than the step."""

        def make():
            layers, x, queue = nn.ModuleList(nn.Linear(32, 32) for _ in range(12)), rows(), torch.zeros(256, 32)

            def step() -> None:
                y = x
                for i, layer in enumerate(layers):
                    y = F.gelu(layer(y))
                    y = y + (y @ queue.T.clone()[:, :32]).tanh()
                    queue[i * 8 : i * 8 + 8] = y[:8].detach()
                loss_of(y).backward()

            return step, [*layers.parameters(), x, queue]

        self.check(make, ("75%",))

    def test_what_backward_has_taken_stays_until_its_node_is_done(self) -> None:
        """pow's node holds what it saved while it makes three more of that size."""
        for plans in ("recompute", "swap", "joint"):
            steps = Steps(lambda: nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 400)), rows)
            with self.assertRaises(tt.DoesNotFitError) as caught:
                fit(steps.model, steps.x, budget=4096, loss=lambda out, x: loss_of(out), store=HostStore(), plans=plans)
            fitted = fit(steps.model, budget=caught.exception.found_bytes, store=HostStore(), plans=plans)
            steps.run(fitted)
            with self.subTest(plans=plans):
                self.assertLessEqual(steps.peaks[-1], fitted.plan.answer["budget_bytes"])

    def test_sparse_gradients_are_left_alone(self) -> None:
        for kind in (nn.EmbeddingBag, nn.Embedding):

            def make(kind=kind):
                words, x = kind(60, 32, sparse=True), torch.randint(0, 60, (128, 2))
                layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(12))

                def step() -> None:
                    y = words(x) if kind is nn.EmbeddingBag else words(x).sum(1)
                    for layer in layers:
                        y = layer(y).tanh()
                    loss_of(y).backward()

                return step, [*words.parameters(), *layers.parameters(), x]

            with self.subTest(kind=kind.__name__):
                self.check(make, ("80%",))

    def test_sparse_matrices_and_nested_tensors(self) -> None:
        torch.manual_seed(2)
        matrix = (torch.rand(128, 128) < 0.1).float()
        parts = [torch.randn(100, 32), torch.randn(28, 32)]
        firsts = {
            "coo": lambda x, layer, m=matrix.to_sparse(): torch.sparse.mm(m, layer(x)),
            "csr": lambda x, layer, m=matrix.to_sparse_csr(): m @ layer(x),
            "jagged": lambda x, layer: layer(torch.nested.nested_tensor(parts, layout=torch.jagged)).relu().values(),
        }
        for name, first in firsts.items():

            def make(first=first):
                layers, x = nn.ModuleList(nn.Linear(32, 32) for _ in range(12)), rows()

                def step() -> None:
                    y = first(x, layers[0])
                    for layer in layers[1:]:
                        y = layer(y).tanh()
                    loss_of(y).backward()

                return step, [*layers.parameters()]

            with self.subTest(name=name):
                self.check(make, ("85%",))

    def test_what_nobody_takes_back_is_freed(self) -> None:
        layers, x = nn.ModuleList(nn.Linear(32, 32) for _ in range(4)), rows()
        fitted = fit(layers, budget="90%")

        def step() -> None:
            with fitted:
                y = x
                for layer in layers:
                    y = layer(y)
                    y = (y * y.exp().detach()).tanh()  # exp's graph ends here, and keeps what it saved
                loss_of(y).backward()
            layers.zero_grad()

        counts = []
        for _ in range(5):
            step()
            gc.collect()
            counts.append(sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects()))
        self.assertEqual(counts[-1], counts[-3])


class Percent(unittest.TestCase):
    def test_with_the_optimizer_inside_it_is_of_what_the_step_needs(self) -> None:
        makers = {"Adam": torch.optim.Adam, "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)}
        for name, maker in makers.items():
            torch.manual_seed(1)
            model, x = Chain(lambda x, i: x), rows()
            optimizer = maker(model.parameters())

            def step(model=model, optimizer=optimizer, x=x) -> None:
                loss_of(model(x)).backward()
                optimizer.step()
                optimizer.zero_grad()

            step()
            for percent in (95, 85):
                with self.subTest(optimizer=name, percent=percent):
                    fitted = fit(step, budget=f"{percent}%")
                    fitted()
                    state = [t for s in optimizer.state.values() for t in s.values() if isinstance(t, torch.Tensor)]
                    with tt.PeakBytes(*model.parameters(), *state, x) as peak:
                        fitted()
                    answer = fitted.plan.answer
                    self.assertEqual(answer["budget_bytes"], answer["whole_peak_bytes"] * percent // 100)
                    self.assertLessEqual(peak.most, answer["budget_bytes"])
                    self.assertLess(abs(peak.most / answer["peak_bytes"] - 1), PREDICTION)


class Advice(unittest.TestCase):
    """The budget that the error names suffices."""

    def follow(self, run) -> None:
        """run: steps under a budget."""
        with self.assertRaises(tt.DoesNotFitError) as caught:
            run(4096)
        named = int(re.search(r"found for budget=(\d+) ", str(caught.exception))[1])
        self.assertEqual(named, caught.exception.found_bytes)
        fitted, most = run(named)
        self.assertLessEqual(most, named)
        self.assertIsNone(fitted.counts.diverged_at)

    def test_of_forward_and_backward(self) -> None:
        def run(budget: int) -> tuple[tt.Fit, int]:
            steps = Steps(lambda: Chain(lambda x, i: x.sigmoid()), rows)
            fitted = fit(steps.model, budget=budget)
            return fitted, steps.run(fitted, 4).peaks[-1]

        self.follow(run)

    def test_of_a_step_that_makes_state_of_its_optimizer(self) -> None:
        def run(budget: int) -> tuple[tt.Fit, int]:
            torch.manual_seed(1)
            model, x = Chain(lambda x, i: x.sigmoid()), rows()
            optimizer = torch.optim.Adam(model.parameters())

            def step() -> None:
                optimizer.zero_grad()
                loss_of(model(x)).backward()
                optimizer.step()

            fitted = fit(step, budget=budget)
            for _ in range(4):
                with tt.PeakBytes(*model.parameters(), x) as peak:
                    fitted()
            return fitted, peak.most

        self.follow(run)

    def test_of_gradients_that_are_summed_over_steps(self) -> None:
        def run(budget: int) -> tuple[tt.Fit, int]:
            torch.manual_seed(1)
            model, x = Chain(lambda x, i: x.sigmoid()), rows()
            fitted = fit(model, budget=budget)
            for _ in range(4):
                with tt.PeakBytes(*model.parameters(), x, *[p.grad for p in model.parameters() if p.grad is not None]) as peak, fitted:
                    loss_of(model(x)).backward()
            return fitted, peak.most

        self.follow(run)


class Regions(unittest.TestCase):
    """may_overlap() against the elements themselves."""

    def test_parts_of_a_tensor_along_a_dimension_are_apart(self) -> None:
        for shape, dim in (((6, 8), 1), ((6, 8), 0), ((4, 6, 5), 1), ((2, 4, 3, 3), 1), ((4, 6, 5), 2)):
            for whole in (torch.empty(shape), torch.empty(shape[::-1]).permute(*reversed(range(len(shape))))):
                parts = [region_of(part) for part in whole.chunk(2, dim)]
                self.assertFalse(may_overlap(*parts), (shape, dim))
                self.assertTrue(may_overlap(parts[0], region_of(whole)))
        even, odd = torch.empty(4, 8)[:, ::2], torch.empty(4, 8)[:, 1::2]
        self.assertFalse(may_overlap(region_of(even), region_of(odd)))

    def test_no_overlap_is_missed(self) -> None:
        chooser = random.Random(3)
        apart = 0
        for _ in range(2000):
            views = []
            for _ in range(2):
                dims = chooser.randint(0, 3)
                size, stride = [chooser.randint(1, 4) for _ in range(dims)], [chooser.randint(0, 9) for _ in range(dims)]
                views.append(torch.arange(200).as_strided(size, stride, chooser.randint(0, 40)))
            meets = not set(views[0].flatten().tolist()).isdisjoint(views[1].flatten().tolist())
            found = may_overlap(*map(region_of, views))
            self.assertTrue(found or not meets, [(v.size(), v.stride(), v.storage_offset()) for v in views])
            apart += not found
        self.assertGreater(apart, 200)


if __name__ == "__main__":
    unittest.main()
