# SPDX-License-Identifier: Apache-2.0
"""fit(cpu_step="auto") on CPU tensors: for chosen parameters the optimizer's step runs in host memory, beside the rest of it, with the bits of plain
PyTorch."""

import os
import sys
import threading
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(__file__))
from fit_steps import loss_of, same  # first: without PyTorch it skips the test

import torch
from fit_training import MODELS, OPTIMIZERS, Deep, Training

import thermocline.torch as tt
from thermocline.torch._execution import Execution
from thermocline.torch._host_steps import _Job, is_usual
from thermocline.torch._lineage import Blank, Operator, Value, make
from thermocline.torch._operators import facts_of
from thermocline.torch._step_plan import StepPlan

MODELS["shallow"] = (lambda: Deep(4), lambda: torch.randn(4, 64))
OPTIMIZERS["amsgrad"] = lambda parameters: torch.optim.Adam(parameters, 0.01, amsgrad=True, weight_decay=0.1)
OPTIMIZERS["NAdam"] = lambda parameters: torch.optim.NAdam(parameters, 0.01)


class Clipped(Training):
    def step(self) -> torch.Tensor:
        loss = loss_of(self.model(self.x))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


class Scheduled(Training):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.7)

    def step(self) -> torch.Tensor:
        loss = loss_of(self.model(self.x))
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        norms = [p.detach().norm() for p in self.model.parameters()]  # reads what the thread may be at
        self.optimizer.zero_grad()
        return torch.stack([loss.detach(), *norms])


class Across(Training):
    """A graph of before the optimizer's step goes backward after it: what it saved is of the old parameters."""

    def step(self) -> torch.Tensor:
        factor = torch.ones(64, requires_grad=True)
        products = [((layer.weight.detach() * 2) * factor).sum() for layer in self.model.layers]  # each saves what it doubled
        loss = loss_of(self.model(self.x))
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        sum(products).backward()
        return torch.cat([loss.detach().view(1), factor.grad])


class HostSteps(unittest.TestCase):
    def auto(self, training: Training, budget: str = "45%") -> Training:
        return training.fit(budget, plans="joint", cpu_step="auto")

    def check(self, plain: Training, ours: Training, *, steps: int = 5) -> None:
        plain.run(steps)
        self.auto(ours).run(steps)
        self.assertTrue(same(plain.left(), ours.left()))
        self.assertLessEqual(ours.peaks[-1], ours.fitted.plan.answer["budget_bytes"])
        self.assertIsNone(ours.fitted.counts.diverged_at)

    def test_optimizers(self) -> None:
        for kind in ("momentum", "amsgrad", "NAdam"):
            with self.subTest(kind=kind):
                ours = Training("shallow", kind)
                self.check(Training("shallow", kind), ours)
                host = ours.fitted._states.host
                self.assertGreater(ours.fitted.updated_on_host, 0)
                self.assertGreaterEqual(host.ran, 3 * ours.fitted.updated_on_host)

    def test_less_crosses_the_link(self) -> None:
        crossed = []
        for auto in (False, "auto"):
            training = Training("shallow").fit("45%", plans="joint", cpu_step=auto).run(4)
            states = training.fitted._states
            before = states.evicted_bytes + states.fetched_bytes
            training.run(2)
            crossed.append(states.evicted_bytes + states.fetched_bytes - before)
        self.assertLess(crossed[1], crossed[0])

    def test_schedules_and_reads_behind_the_optimizer(self) -> None:
        ours, run = Scheduled("shallow"), _Job.run

        def late(job: _Job) -> None:
            threading.Event().wait(0.05)
            run(job)

        with mock.patch.object(_Job, "run", late):
            self.check(Scheduled("shallow"), ours)
        self.assertGreater(ours.fitted.updated_on_host, 0)

    def test_gradients_that_others_take_are_not_updated_there(self) -> None:
        ours = Clipped("shallow")
        self.check(Clipped("shallow"), ours)
        self.assertEqual(ours.fitted.updated_on_host, 0)

    def test_a_graph_across_the_step(self) -> None:
        plain, ours = Across("shallow").run(5), self.auto(Across("shallow"), "52%").run(5)
        self.assertTrue(same(plain.left(), ours.left()))
        self.assertGreater(ours.fitted.updated_on_host, 0)

    def test_what_is_to_be_made_again_from_a_parameter_keeps_it_on_the_device(self) -> None:
        ours, wanted = self.auto(Training("shallow")).run(4), []
        ran, before = ours.fitted._states.host.ran, Execution._is_held

        def first_is_held(execution: Execution, storage: torch.UntypedStorage) -> bool:
            wanted.append(before(execution, storage))
            return len(wanted) == 1

        with mock.patch.object(Execution, "_is_held", first_is_held):
            ours.run(1)
        self.assertEqual(ours.fitted._states.host.ran, ran + ours.fitted.updated_on_host - 1)
        self.assertTrue(same(Training("shallow").run(5).left(), ours.left()))

        execution = Execution(StepPlan([], set(), {}, {}, {}, {}, {}, {}), [], None, 0)
        storage = torch.ones(4).untyped_storage()
        value = execution._values[storage._cdata] = Value(storage)
        self.assertFalse(execution._is_held(storage))
        self.assertTrue(value.hold())
        self.assertTrue(execution._is_held(storage))
        value.let_go()
        execution._changed_elsewhere(storage)
        self.assertFalse(value.hold())
        self.assertIsNone(execution.value_at(storage))

    def test_a_saved_parameter_counts_as_changed(self) -> None:
        for fits in (False, True):
            training = Training("shallow")
            if fits:
                self.auto(training).run(4)
                self.assertGreater(training.fitted.updated_on_host, 0)
            loss = []

            def step(training=training, loss=loss) -> None:
                loss[:] = [loss_of(training.model(training.x))]
                loss[0].backward(retain_graph=True)
                training.optimizer.step()
                training.optimizer.zero_grad()
                loss[0].backward()

            if fits:
                training.fitted._step = step
            with self.subTest(fits=fits), self.assertRaisesRegex(RuntimeError, "modified by an inplace operation|changed in place"):
                (training.fitted if fits else step)()

    def test_memory_that_is_overwritten_whole_is_no_state(self) -> None:
        """Where something runs again while states wait: who fills them is asked about real storages alone."""
        tensor, asked = torch.ones(4), []
        blank = Value(tensor.untyped_storage())
        blank.storage_ref, blank.anchor = None, Blank(tensor.untyped_storage())
        fill = torch.ops.aten.fill_.Scalar
        value = Value(tensor.untyped_storage(), Operator(fill, facts_of(fill), (tensor, 2.0), {}, lambda _: blank, None))
        value.storage_ref = None
        made = make([value], lambda operator, storages: operator.run(storages), lambda storages: asked.extend(s._cdata for s in storages))
        self.assertEqual(asked, [])
        self.assertEqual(torch.empty(0).set_(made[value]).tolist(), [2.0] * 4)

    def test_states_are_saved_and_loaded(self) -> None:
        left = []
        for fits in (False, True):
            training = Training("shallow")
            if fits:
                self.auto(training)
            training.run(4)
            saved = training.optimizer.state_dict()
            training.run(1)
            training.optimizer.load_state_dict(saved)
            left.append(training.run(2).left())
        self.assertGreater(training.fitted._states.host.ran, 0)
        self.assertTrue(same(*left))

    def test_the_rest_of_the_step_runs_meanwhile(self) -> None:
        training = self.auto(Training("shallow")).run(4)
        device_is_done, found, run = threading.Event(), [], _Job.run

        def waits(job: _Job) -> None:
            found.append((threading.current_thread() is not threading.main_thread(), device_is_done.wait(60)))
            run(job)

        sizes = []
        hook = training.optimizer.register_step_post_hook(lambda optimizer, *_: sizes.append(len(optimizer.param_groups[0]["params"])))
        training.optimizer.register_step_post_hook(lambda *_: device_is_done.set())
        with mock.patch.object(_Job, "run", waits):
            training.run(1)
        hook.remove()
        self.assertEqual(found, [(True, True)])
        self.assertEqual(sizes, [8])  # hooks of the program find all parameters

    def test_an_error_of_the_thread_ends_the_step(self) -> None:
        training = self.auto(Training("shallow")).run(4)
        before = [p.detach().clone() for p in training.model.parameters()]
        fails = mock.Mock(side_effect=torch.OutOfMemoryError("no memory"))
        with mock.patch.object(_Job, "run", fails), self.assertRaisesRegex(torch.OutOfMemoryError, "no memory"):
            training.run(1)
        self.assertGreater(min(t.untyped_storage().nbytes() for t in training.tensors()), 0)
        changed = [not torch.equal(a, b) for a, b in zip(before, training.model.parameters(), strict=True)]
        self.assertEqual(changed.count(False), training.fitted.updated_on_host)
        self.assertEqual(len(training.optimizer.param_groups[0]["params"]), 8)
        training.run(1)

    def test_what_is_not_usual_stays_on_the_device(self) -> None:
        for name, value in (("fused", True), ("capturable", True), ("differentiable", True), ("lr", torch.tensor(0.1))):
            self.assertFalse(is_usual({"params": [], "lr": 0.1, name: value}))
        self.assertTrue(is_usual({"params": [torch.ones(1)], "lr": 0.1, "fused": None}))

        def closure() -> torch.Tensor:
            loss = loss_of(training.model(training.x))
            loss.backward()
            return loss

        training = self.auto(Training("shallow")).run(4)
        ran = training.fitted._states.host.ran
        training.fitted._step = lambda: training.optimizer.step(closure)
        training.fitted()
        self.assertEqual(training.fitted._states.host.ran, ran)

    def test_bad_input(self) -> None:
        training = Training("shallow")
        with self.assertRaisesRegex(ValueError, "names no optimizer"):
            training.fit("45%", states=training.model, plans="joint", cpu_step="auto")
        with self.assertRaisesRegex(ValueError, "none of False, True, 'auto'"):
            training.fit("45%", plans="joint", cpu_step="always")
        with self.assertRaisesRegex(ValueError, "names no optimizer"):
            tt.fit(training.step, budget="45%", cpu_step="auto", verbose=False)


if __name__ == "__main__":
    unittest.main()
