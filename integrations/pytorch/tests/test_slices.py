# SPDX-License-Identifier: Apache-2.0
"""Operators that are marked as ones that may be split: computed in parts they give what the whole gives. Skipped (status 77) where PyTorch is
not."""

import gzip
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
try:
    import torch
except ImportError:
    print("PyTorch is not installed for this Python")
    sys.exit(77)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

import thermocline.torch as tt
from thermocline.torch._slices import slices_of


class InParts(TorchDispatchMode):
    """Computes what is marked a second time, in parts, and compares."""

    def __init__(self, test: unittest.TestCase) -> None:
        super().__init__()
        self.test = test
        self.names: set[str] = set()
        self.left: set[str] = set()
        self.alone: set[str] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        keywords = kwargs or {}
        is_changing = function._schema.is_mutable
        out = function(*args, **keywords)
        if is_changing:
            return out
        slices = slices_of(function, args, keywords, out, [])
        name = function._schema.name.split("::")[-1]
        if slices is None:
            self.left.add(name)
            return out
        self.names.add(name)
        if not any(id(tensor.untyped_storage()) in slices.storages for tensor in tree_leaves((args, keywords)) if isinstance(tensor, torch.Tensor)):
            # A slice of the result, from whole arguments: there is nothing to compute otherwise.
            self.alone.add(name)
            return out
        parts = [self.part(function, args, keywords, slices, p) for p in range(slices.count)]
        results = out if isinstance(out, (tuple, list)) else (out,)
        parts = [part if isinstance(part, (tuple, list)) else (part,) for part in parts]
        for at, whole in enumerate(results):
            if whole is None:
                continue
            of_parts = [part[at] for part in parts]
            joined = torch.cat(of_parts) if id(whole.untyped_storage()) in slices.storages else sum(of_parts)
            self.test.assertTrue(torch.allclose(joined, whole, rtol=1e-4, atol=1e-5), f"{name}, result {at}")
        return out

    @staticmethod
    def part(function, args, keywords, slices, p):
        def taken(tensor):
            if id(tensor.untyped_storage()) not in slices.storages:
                return tensor
            rows = tensor.shape[0] // slices.count
            return tensor.narrow(0, p * rows, rows)

        return function(*tree_map_only(torch.Tensor, taken, args), **tree_map_only(torch.Tensor, taken, keywords))


class Images(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4)
        self.pool, self.second = torch.nn.MaxPool2d(2), torch.nn.Conv2d(4, 5, 3)
        self.linear = torch.nn.Linear(5 * 6 * 6, 7)

    def forward(self, x):
        x = self.pool(torch.relu(self.norm(self.first(x))))
        return self.linear(torch.nn.functional.gelu(self.second(x)).flatten(1))


class Words(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.linear = torch.nn.Embedding(11, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)

    def forward(self, x):
        x = self.norm(self.table(x))
        scores = torch.softmax(torch.bmm(x, x.transpose(1, 2)), -1)
        return self.linear(torch.bmm(scores, x)).mean(1)


def trained(mode: TorchDispatchMode, model: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    with mode:
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()


class Slices(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(1)

    def test_parts_of_a_convolutional_net_compute_what_the_whole_does(self) -> None:
        mode = InParts(self)
        trained(mode, Images(), torch.randn(6, 3, 16, 16, requires_grad=True), torch.arange(6))
        expected = {"convolution", "convolution_backward", "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "relu", "gelu",
                    "gelu_backward", "addmm", "_log_softmax", "_log_softmax_backward_data", "nll_loss_backward"}  # fmt: skip
        self.assertLessEqual(expected, mode.names)
        self.assertLessEqual({"native_batch_norm_backward"}, mode.left)
        self.assertFalse([name for name in mode.names if "batch_norm" in name])

    def test_parts_of_a_language_model_compute_what_the_whole_does(self) -> None:
        mode = InParts(self)
        trained(mode, Words(), torch.arange(20).reshape(4, 5) % 11, torch.arange(4))
        expected = {"native_layer_norm", "native_layer_norm_backward", "_softmax", "_softmax_backward_data", "bmm"}
        self.assertLessEqual(expected, mode.names)

    def test_channels_that_lie_last_in_memory_are_split_over_the_batch_too(self) -> None:
        mode = InParts(self)
        trained(mode, Images().to(memory_format=torch.channels_last), torch.randn(6, 3, 16, 16), torch.arange(6))
        self.assertIn("convolution", mode.names)

    def test_what_does_not_lie_in_rows_or_is_over_rows_has_no_mark(self) -> None:
        def slices(function, *arguments):
            return slices_of(function, arguments, {}, function(*arguments), [])

        x = torch.randn(6, 4)
        self.assertIsNotNone(slices(torch.ops.aten._softmax.default, x, 1, False))
        self.assertIsNone(slices(torch.ops.aten._softmax.default, x, 0, False), "over rows")
        self.assertIsNone(slices(torch.ops.aten._softmax.default, x, -2, False), "over rows")
        self.assertIsNone(slices(torch.ops.aten.relu.default, x.t()), "its rows are columns in memory")
        self.assertIsNone(slices(torch.ops.aten.relu.default, x[:3]), "part of a buffer")
        storages = slices(torch.ops.aten.mm.default, x.t(), x).storages
        self.assertNotIn(id(x.untyped_storage()), storages, "columns, and in two roles: the result alone")
        self.assertIsNone(slices(torch.ops.aten.sum.default, x), "over everything")
        self.assertIsNone(slices(torch.ops.aten.bernoulli.p, x, 0.5), "random")

    def test_concatenations_are_split_with_their_inputs_over_the_batch_or_alone(self) -> None:
        a, b, one = torch.randn(4, 2, 3), torch.randn(4, 5, 3), torch.randn(1, 2, 3)

        def slices(tensors, dimension):
            out = torch.cat(tensors, dimension)
            found = slices_of(torch.ops.aten.cat.default, (tensors, dimension), {}, out, [])
            return found.count, len(found.storages), id(out.untyped_storage()) in found.storages

        self.assertEqual(slices([a, b], 1), (4, 3, True), "inputs of unequal sizes")
        self.assertEqual(slices([a, b], -2), (4, 3, True))
        self.assertEqual(slices([a, a], 0), (8, 1, True), "over the batch: the result alone")
        self.assertEqual(slices([one, torch.randn(1, 4, 3)], 1), (6, 1, True), "one image: channels of the result")
        mode = InParts(self)
        with mode:
            torch.cat([a, b], 1)
        self.assertEqual((mode.names, mode.alone), ({"cat"}, set()))

    def test_the_recorder_writes_marks_if_asked_to(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.jsonl.gz")
            for slices in (False, True):
                tt.record(Images(), torch.randn(6, 3, 16, 16), path, steps=1, slices=slices)
                with gzip.open(path, "rt", encoding="utf-8") as file:
                    events = [json.loads(line) for line in file]
                marked = [event for event in events if "slices" in event]
                self.assertEqual(bool(marked), slices)
            sizes = {event["b"]: event["n"] for event in events if event.get("e") == "alloc"}
            for event in marked:
                if set(event["split"]) & set(event["r"]):
                    self.assertEqual(event["slices"], 6)
                self.assertLessEqual(set(event["split"]), {*event["r"], *event["w"]})
                self.assertTrue(all(sizes[buffer] % event["slices"] == 0 for buffer in event["split"]))
            self.assertIn("convolution_backward", {event["k"] for event in marked})


if __name__ == "__main__":
    unittest.main()
