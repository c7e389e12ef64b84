# SPDX-License-Identifier: Apache-2.0
"""fit(cpu_step=True) on CPU tensors: the optimizer runs between steps, on what waits in host memory then, with the bits of plain PyTorch."""

import contextlib
import gc
import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(__file__))
from fit_steps import loss_of, same  # first: without PyTorch it skips the test

import torch
from fit_stores import HostStateCopy, HostStore
from fit_training import Training
from torch import nn
from torch.optim.optimizer import _global_optimizer_pre_hooks

import thermocline.torch as tt


class StepsInHostMemory(unittest.TestCase):
    def run_steps(self, name: str, kind: str, *, fits: bool, every: int = 1, prepare=None) -> tuple[list[torch.Tensor], Training]:
        training = Training(name, kind)
        if prepare is not None:
            prepare(training)

        def forward_and_backward() -> torch.Tensor:
            loss = loss_of(training.model(training.x))
            loss.backward()
            return loss.detach()

        step = forward_and_backward
        if fits:
            states = [training.model, training.optimizer] if prepare else training.model
            options = {"states": states, "cpu_step": True, "store": HostStore(), "plans": "swap"}
            step = training.fitted = tt.fit(step, budget="60%", min_bytes=256, verbose=False, **options)
        for i in range(6):
            # The state that the optimizer made between steps is no tensor of the step, and on a GPU none of the device.
            there = [t for t in training.tensors() if not any(t is s for values in training.optimizer.state.values() for s in values.values())]
            here = [t for t in there if not fits or not training.fitted.is_in_host_memory(t)]
            with tt.PeakBytes(*here, training.x) as peak:
                training.losses.append(step())
            training.peaks.append(peak.most)
            if fits:
                self.check_where(training)
            if i % every == every - 1:
                training.optimizer.step()
                training.optimizer.zero_grad(set_to_none=not prepare)
        return training.left(), training

    def check_where(self, training: Training) -> None:
        for parameter in training.model.parameters():
            waits = training.fitted.is_in_host_memory(parameter)
            self.assertEqual(waits, parameter.nbytes >= 256)
            self.assertEqual(waits, training.fitted.is_in_host_memory(parameter.grad))

    def test_models_and_optimizers(self) -> None:
        for name, kind, every in (("deep", "AdamW", 1), ("deep", "momentum", 2), ("GPT-2", "Adam", 1)):
            with self.subTest(name=name, kind=kind, every=every):
                plain, _ = self.run_steps(name, kind, fits=False, every=every)
                ours, training = self.run_steps(name, kind, fits=True, every=every)
                self.assertTrue(same(plain, ours))
                self.assertLessEqual(training.peaks[-1], training.fitted.plan.answer["budget_bytes"])
                self.assertGreater(len(training.fitted.plan.answer["moves"]), 0)

    def test_state_that_was_there_before(self) -> None:
        plain, _ = self.run_steps("deep", "Adam", fits=False, prepare=Training.step)
        ours, training = self.run_steps("deep", "Adam", fits=True, prepare=Training.step)
        self.assertTrue(same(plain, ours))
        momenta = [values["exp_avg"] for p, values in training.optimizer.state.items() if p.nbytes >= 256]
        self.assertTrue(all(training.fitted.is_in_host_memory(t) for t in momenta))

    def test_what_stays_on_the_device_has_its_gradient_there(self) -> None:
        training = Training("deep")
        kept: list[torch.Tensor] = []

        def step() -> None:
            loss_of(training.model(training.x)).backward()
            kept[:] = [training.model.layers[3].weight.detach(), training.model.layers[4].weight.grad.view(-1)]

        fitted = tt.fit(step, budget="60%", min_bytes=256, verbose=False, states=training.model, cpu_step=True, store=HostStore(), plans="swap")
        for _ in range(3):
            fitted()
            for i, layer in enumerate(training.model.layers):
                waits = [fitted.is_in_host_memory(t) for t in (layer.weight, layer.weight.grad)]
                self.assertEqual(waits, [i not in (3, 4)] * 2)
            training.optimizer.step()
            training.optimizer.zero_grad()

    def test_a_step_that_finds_no_memory_at_its_end_leaves_everything_whole(self) -> None:
        """On the host for what leaves, or on the device for what somebody holds."""
        cases = ((HostStore, "host_copy", 0), (HostStore, "host_copy", 2), (HostStateCopy, "copy_out", 3), (HostStateCopy, "prefetch", 1))
        for owner, name, nth in cases:
            function, training, calls, kept = getattr(owner, name), Training("deep"), [-1], []

            def step(training=training, calls=calls, kept=kept) -> None:
                kept.clear()
                loss_of(training.model(training.x)).backward()
                kept.extend(layer.weight.detach() for layer in training.model.layers[::2])
                calls[0] = 0  # from here on the step's end

            def fails_once(*args, function=function, calls=calls, nth=nth) -> object:
                calls[0] += calls[0] >= 0
                if calls[0] == nth + 1:
                    raise torch.OutOfMemoryError("no memory")
                return function(*args)

            plain = Training("deep")
            options = {"states": training.model, "cpu_step": True, "store": HostStore(), "plans": "swap"}
            fitted = tt.fit(step, budget="60%", min_bytes=256, verbose=False, **options)
            ran = 2 if name == "prefetch" else 0  # only under a plan is anything in host memory at the end
            with self.subTest(name=name, nth=nth):
                for i in range(4):
                    loss_of(plain.model(plain.x)).backward()
                    with mock.patch.object(owner, name, fails_once if i == ran else function):
                        with self.assertRaises(torch.OutOfMemoryError) if i == ran else contextlib.nullcontext():
                            fitted()
                    calls[0] = -1
                    self.assertGreater(min(t.untyped_storage().nbytes() for t in training.tensors()), 0)
                    self.assertTrue(same(plain.tensors(), training.tensors()))
                    if name != "prefetch":
                        for p in training.model.parameters():
                            self.assertEqual(fitted.is_in_host_memory(p), fitted.is_in_host_memory(p.grad))
                    for one in (plain, training):
                        one.optimizer.step()
                        one.optimizer.zero_grad()

    def test_a_step_that_can_not_begin_leaves_gradients_with_their_parameters(self) -> None:
        training, whole, calls = Training("deep"), torch.empty, [0]

        def step() -> None:
            loss_of(training.model(training.x)).backward()

        def without_memory(*args, **kwargs) -> torch.Tensor:
            calls[0] += args[0] != 0
            if args[0] != 0 and calls[0] == nth:
                raise torch.OutOfMemoryError("no memory")
            return whole(*args, **kwargs)

        options = {"states": training.model, "cpu_step": True, "store": HostStore(), "plans": "swap"}
        fitted = tt.fit(step, budget="60%", min_bytes=256, verbose=False, **options)
        fitted()
        before = [t.clone() for t in training.tensors()]
        for nth in (1, 4, 31):
            calls[0] = 0
            with mock.patch.object(torch, "empty", without_memory), self.assertRaises(torch.OutOfMemoryError):
                fitted()
            self.assertTrue(same(before, training.tensors()))
            self.assertTrue(all(fitted.is_in_host_memory(t) for t in training.tensors() if t.nbytes >= 256))

    def test_state_goes_where_its_parameter_is(self) -> None:
        """As where it was made in host memory, and then somebody holds the parameter on the device; which is the meta device here."""
        for foreach in (True, False):
            device, host, other = (nn.Parameter(torch.ones(8, device=name)) for name in ("meta", "cpu", "meta"))
            ours, others = (torch.optim.Adam(parameters, 0.1, foreach=foreach) for parameters in ([device, host], [other]))
            for parameter in (device, host, other):
                parameter.grad = torch.ones_like(parameter)
            for optimizer in (ours, others):
                optimizer.step()
                for values in optimizer.state.values():
                    values.update({name: torch.zeros(8) for name in ("exp_avg", "exp_avg_sq")})
            with self.subTest(foreach=foreach):
                fitted = tt.fit(lambda: None, budget="60%", states=[device, host], cpu_step=True, store=HostStore(), plans="swap", verbose=False)
                before, device_grad, device.grad = ours.state[host]["exp_avg"], device.grad, None
                ours.step()  # takes no parameter without a gradient
                self.assertEqual(ours.state[device]["exp_avg"].device.type, "cpu")
                device.grad = device_grad
                ours.step()
                self.assertEqual([ours.state[device][name].device.type for name in ("step", "exp_avg", "exp_avg_sq")], ["cpu", "meta", "meta"])
                self.assertIs(ours.state[host]["exp_avg"], before)
                self.assertGreater(before.min(), 0)
                with self.assertRaises(RuntimeError):  # parameters that `states` does not name are left alone
                    others.step()
            gc.collect()  # of other tests
            hooks = len(_global_optimizer_pre_hooks)
            del fitted
            gc.collect()
            self.assertEqual(len(_global_optimizer_pre_hooks), hooks - 1)


if __name__ == "__main__":
    unittest.main()
