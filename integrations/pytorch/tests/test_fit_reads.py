# SPDX-License-Identifier: Apache-2.0
"""Programs that read the memory of parameters, gradients and optimizer state without an operator of PyTorch, inside of a step of fit() whose
states wait in host memory: they find what plain PyTorch has."""

import copy
import ctypes
import io
import os
import pickle
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from fit_steps import loss_of, same  # first: without PyTorch it skips the test

import numpy
import torch
from fit_training import Training
from torch import nn

import thermocline.torch as tt

REPLACED = ("numpy", "data_ptr", "untyped_storage", "tolist", "apply_", "__dlpack__")


def at_address(address: int, count: int) -> torch.Tensor:
    return torch.frombuffer(bytearray(ctypes.string_at(address, 4 * count)), dtype=torch.float32)


def saved(tensor: torch.Tensor) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return torch.load(file)


def of_capsule(capsule) -> torch.Tensor:
    return torch.utils.dlpack.from_dlpack(capsule).clone()


def in_shared_memory(tensor: torch.Tensor) -> torch.Tensor:
    return torch.tensor(tensor.share_memory_().tolist())


# Each gives the contents of a tensor of float32.
READS = {
    "numpy": lambda t: torch.from_numpy(t.numpy().copy()),
    "__array__": lambda t: torch.from_numpy(t.__array__().copy()),
    "data_ptr": lambda t: at_address(t.data_ptr(), t.numel()),
    "const_data_ptr": lambda t: at_address(getattr(t, "const_data_ptr", t.data_ptr)(), t.numel()),
    "untyped_storage": lambda t: at_address(t.untyped_storage().data_ptr(), t.numel()),
    "storage": lambda t: torch.tensor(t._typed_storage().tolist()),
    "tolist": lambda t: torch.tensor(t.tolist()),
    "item": lambda t: torch.tensor([t.view(-1)[i].item() for i in (0, 5)]),
    "format": lambda t: torch.tensor([ord(c) for c in f"{t} {t.view(-1)[2]:.4f}"]),
    "repr": lambda t: torch.tensor([ord(c) for c in repr(t)]),
    "__dlpack__": lambda t: of_capsule(t.__dlpack__()),
    "from_dlpack": lambda t: torch.from_dlpack(t).clone(),
    "to_dlpack": lambda t: of_capsule(torch.utils.dlpack.to_dlpack(t)),
    "torch.save": saved,
    "pickle": lambda t: pickle.loads(pickle.dumps(t)),
    "copy": lambda t: copy.copy(t).clone(),
    "deepcopy": copy.deepcopy,
    "share_memory_": in_shared_memory,
    "a view's": lambda t: torch.from_numpy(t.view(-1)[3:7].numpy().copy()),
}


def empty(fitted: tt.Fit, tensor: torch.Tensor) -> bool:
    """Wherever the plan has the state now, it leaves. Whether it did: not where somebody has its address."""
    states, storage = fitted._states, torch._C.TensorBase.untyped_storage(tensor)
    if (state := states._by_key.get(storage._cdata)) is not None:
        states.evict(state)
    return storage.nbytes() == 0


class Reads(unittest.TestCase):
    def read_in_steps(self, read, *, fits: bool, steps: int = 4) -> tuple[list[torch.Tensor], int]:
        """The contents that `read` finds in a parameter, a gradient and a state in each step, and how many of them were in host memory."""
        training, found, evicted = Training("deep"), [], [0]

        def states() -> list[torch.Tensor]:
            first, last = training.model.layers[0].weight, training.model.layers[-1].weight
            momenta = [training.optimizer.state[p]["exp_avg"] for p in (first, last) if p in training.optimizer.state]
            return [first.detach(), last.detach(), last.grad, *momenta]

        def step() -> torch.Tensor:
            loss = loss_of(training.model(training.x))
            loss.backward()
            for tensor in states():
                evicted[0] += fits and empty(training.fitted, tensor)
                found.append(read(tensor))
            training.optimizer.step()
            training.optimizer.zero_grad()
            return loss.detach()

        training.step = step
        if fits:
            training.fit("40%", plans="swap")
        training.run(steps)
        return [*found, *training.left()], evicted[0]

    def test_every_read_finds_the_contents(self) -> None:
        for name, read in READS.items():
            with self.subTest(read=name):
                (plain, _), (ours, evicted) = (self.read_in_steps(read, fits=fits) for fits in (False, True))
                self.assertGreater(evicted, 0)
                self.assertTrue(same(plain, ours))

    def test_what_changes_memory_without_an_operator(self) -> None:
        def twice(t: torch.Tensor) -> torch.Tensor:
            t.apply_(lambda x: x * 2)
            t.map_(t, lambda x, y: x + y)
            return t.clone()

        (plain, _), (ours, evicted) = (self.read_in_steps(twice, fits=fits) for fits in (False, True))
        self.assertGreater(evicted, 0)
        self.assertTrue(same(plain, ours))

    def test_an_array_is_written_later_in_the_step_and_in_the_next(self) -> None:
        def leaves(training: Training, weight: torch.Tensor) -> None:
            if training.fitted is not None:
                self.assertFalse(empty(training.fitted, weight))

        trainings = []
        for fits in (False, True):
            training = Training("deep")
            arrays: list = []

            def step(training=training, arrays=arrays) -> torch.Tensor:
                weight = training.model.layers[0].weight
                if arrays:
                    leaves(training, weight)
                    arrays[0] *= 0.5
                loss = loss_of(training.model(training.x))
                if not arrays:
                    arrays.append(numpy.from_dlpack(weight.detach()))  # numpy() would forbid to resize it
                loss.backward()
                leaves(training, weight)
                arrays[0] += 0.25
                training.optimizer.step()
                arrays[0][:] = arrays[0] * 3
                training.optimizer.zero_grad()
                return loss.detach()

            training.step = step
            if fits:
                training.fit("40%", plans="swap")
            training.run(6)
            trainings.append([*training.left(), torch.from_numpy(arrays[0].copy())])
        self.assertTrue(same(*trainings))

    def test_a_snapshot_between_steps_stays_what_it_was(self) -> None:
        """On a GPU cpu() makes a copy; of a state that waits in host memory it would be the state itself."""
        training = Training("GPT-2").fit("40%", plans="swap").run(3)
        waiting = [t for t in training.tensors() if training.fitted.is_in_host_memory(t)]
        self.assertGreater(len(waiting), 0)
        snapshots = [t.detach().cpu() for t in waiting]
        copies = [t.detach().clone() for t in waiting]
        training.run(2)
        self.assertTrue(same(copies, snapshots))

    def test_what_torch_func_wraps_is_printed_within_a_step(self) -> None:
        training, printed = Training("deep"), []
        plain_step = training.step

        def square(x: torch.Tensor) -> torch.Tensor:
            printed.append(repr(x))
            return (x * x).sum()

        def step() -> torch.Tensor:
            weight = training.model.layers[0].weight.detach()
            empty(training.fitted, weight)
            torch.func.vmap(square)(weight)
            printed.append(repr(weight.to_sparse()))
            return plain_step()

        training.step = step
        training.fit("40%", plans="swap").run(3)
        self.assertEqual(len(printed), 6)
        self.assertIn("BatchedTensor", printed[-2])
        self.assertIn("sparse_coo", printed[-1])

    def test_pytorchs_methods_are_its_own_again(self) -> None:
        before = [getattr(torch.Tensor, name) for name in REPLACED]
        training = Training("deep").fit("40%", plans="swap").run(3)
        self.assertEqual(before, [getattr(torch.Tensor, name) for name in REPLACED])

        def wrong() -> None:
            self.assertNotEqual(before, [getattr(torch.Tensor, name) for name in REPLACED])
            raise ZeroDivisionError

        training.fitted._step = wrong
        with self.assertRaises(ZeroDivisionError):
            training.fitted()
        self.assertEqual(before, [getattr(torch.Tensor, name) for name in REPLACED])
        self.assertNotIn("numpy", torch.Tensor.__dict__)

    def test_a_transformer_in_eval_mode_takes_the_kernels_of_plain_pytorch(self) -> None:
        """Such as a teacher: its fast path looks for modes of functions."""
        torch.manual_seed(3)
        teacher = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
        x = torch.randn(2, 4, 64)
        results = []
        for fits in (False, True):
            training = Training("deep")

            def step(training=training) -> torch.Tensor:
                with torch.no_grad():
                    wanted = teacher(x)
                loss = (training.model(x) - wanted).square().mean()
                loss.backward()
                training.optimizer.step()
                training.optimizer.zero_grad()
                return loss.detach()

            training.step = step
            if fits:
                training.fit("60%", plans="swap")
            results.append(training.run(4).left())
        self.assertTrue(same(*results))


if __name__ == "__main__":
    unittest.main()
