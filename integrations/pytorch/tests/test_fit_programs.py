# SPDX-License-Identifier: Apache-2.0
"""fit() in training loops as people write them: losses, gradients and state have the bits of plain PyTorch, and steps that run as recorded
stay within the budget."""

import contextlib
import copy
import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(__file__))
from fit_steps import Chain, fit, loss_of, rows, same  # first: without PyTorch it skips the test

import torch
from fit_models import MODELS, Gpt, Llama, ResNet
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import thermocline.torch as tt


class Run:
    """One run of a program, plain or fitted."""

    def __init__(self, budget: str | int | None = None) -> None:
        self.budget = budget
        self.left: list[torch.Tensor] = []
        self.shares: list[float] = []  # of the budget, of the steps that ran by a plan and as recorded
        self.dropped = 0

    def fit(self, model: nn.Module) -> tt.Fit | None:
        return fit(model, budget=self.budget) if self.budget is not None else None

    def step(self, fitted: tt.Fit | None, function, model: nn.Module, *tensors: torch.Tensor) -> None:
        there = [*model.parameters(), *model.buffers(), *tensors]
        there += [t.grad for t in there if t.grad is not None]
        before = fitted.counts if fitted is not None else None
        with tt.PeakBytes(*there) as peak, fitted or contextlib.nullcontext():
            function()
        if fitted is None or fitted.counts is before or fitted.plan is None:
            return
        self.dropped += fitted.counts.dropped
        if fitted.counts.diverged_at is None:
            self.shares.append(peak.most / fitted.plan.answer["budget_bytes"])

    def keep(self, *tensors: torch.Tensor | None) -> None:
        self.left += [t.detach().clone() for t in tensors if t is not None]

    def keep_all(self, model: nn.Module) -> None:
        self.keep(*model.parameters(), *model.buffers(), *[p.grad for p in model.parameters()])


def tokens(rows: int = 4) -> torch.Tensor:
    return torch.randint(0, 61, (rows, 24))


def next_word(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), x.flatten())


def mean_square(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return loss_of(model(x))


def deep(kind=nn.Tanh, layers: int = 8) -> nn.Module:
    return nn.Sequential(*[part for _ in range(layers) for part in (nn.Linear(32, 32), kind())])


class Programs(unittest.TestCase):
    def check(self, program, budget: str = "70%", steps: int = 2) -> None:
        """steps: so many ran as recorded, at least."""
        plain, fitted = Run(), Run(budget)
        program(plain)
        program(fitted)
        self.assertTrue(same(plain.left, fitted.left))
        self.assertGreater(fitted.dropped, 0)
        self.assertGreaterEqual(len(fitted.shares), steps)
        self.assertLessEqual(max(fitted.shares), 1)

    def loop(self, make, inputs, loss, *, inside=None, after=None, steps: int = 5, budget: str = "70%", planned: int = 2) -> None:
        """The usual loop. loss: of the model and the inputs; None where it did backward itself. inside: makes an optimizer that is part of
        the step."""

        def program(run: Run) -> None:
            torch.manual_seed(0)
            model = make()
            trained = [p for p in model.parameters() if p.requires_grad]
            optimizer = (inside or (lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)))(trained)
            fitted = run.fit(model)
            for _ in range(steps):
                x = inputs()

                def step(x=x) -> None:
                    value = loss(model, x)
                    if value is not None:
                        value.backward()
                        run.keep(value)
                    if inside:
                        run.keep(nn.utils.clip_grad_norm_(trained, 0.5))
                        optimizer.step()
                        optimizer.zero_grad()

                run.step(fitted, step, model, x)
                run.keep_all(model)
                if not inside:
                    optimizer.step()
                    optimizer.zero_grad()
                if after is not None:
                    after(run, model)

        self.check(program, budget, planned)

    def test_rotary_attention_with_tied_weights(self) -> None:
        def make() -> nn.Module:
            model = Llama()
            model.head = nn.Linear(32, 61, bias=False)
            model.head.weight = model.words.weight
            return model

        self.loop(make, tokens, next_word)

    def test_gradients_that_are_summed_over_parts_of_a_batch(self) -> None:
        def loss(model: nn.Module, x: torch.Tensor) -> None:
            for part in x.chunk(4):
                (next_word(model, part) / 4).backward()

        self.loop(Gpt, lambda: tokens(8), loss)

    def test_clipping_and_optimizers_inside_the_step(self) -> None:
        for options in ({"foreach": True}, {"fused": True}, {"foreach": False}):
            with self.subTest(options=options):
                self.loop(Gpt, tokens, next_word, inside=lambda p, o=options: torch.optim.AdamW(p, 1e-3, **o), budget="85%")

    def test_autocast_and_a_scaler_that_skips_a_step(self) -> None:
        def program(run: Run) -> None:
            torch.manual_seed(0)
            model = ResNet()
            optimizer = torch.optim.SGD(model.parameters(), 0.01)
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            fitted = run.fit(model)
            for i in range(7):
                x = torch.randn(4, 3, 32, 32) * (1e30 if i == 3 else 1)

                def step(x=x) -> None:
                    with torch.autocast("cpu", torch.bfloat16):
                        loss = loss_of(model(x))
                    scaler.scale(loss).backward()

                run.step(fitted, step, model, x)
                run.keep(*[p.grad.nan_to_num() for p in model.parameters()], *[b.nan_to_num() for b in model.buffers()])
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()

        self.check(program)

    def test_evaluation_between_the_steps_and_within(self) -> None:
        def after(run: Run, model: nn.Module) -> None:
            model.eval()
            with torch.no_grad():
                run.keep(model(tokens()))
            model.train()

        def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
            with torch.inference_mode():
                model(x)
            return next_word(model, x)

        self.loop(Gpt, tokens, loss, after=after)

    def test_a_custom_function_that_changes_its_input(self) -> None:
        class Dirty(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                x.mul_(2)
                x.sin_()
                ctx.save_for_backward(x)
                ctx.copy = x.clone()
                return x

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.saved_tensors[0] * ctx.copy

        self.loop(lambda: Chain(lambda x, i: Dirty.apply(x * 1.5)), rows, mean_square)

    def test_checkpoints_within_checkpoints(self) -> None:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return F.dropout(x.tanh(), 0.1)

        for reentrant in (False, True):

            def middle(x: torch.Tensor, i: int, reentrant: bool = reentrant) -> torch.Tensor:
                if i % 2 == 0:
                    return x
                return checkpoint(lambda y: checkpoint(inner, y.sigmoid(), use_reentrant=reentrant) * 2, x, use_reentrant=reentrant)

            with self.subTest(reentrant=reentrant):
                self.loop(lambda middle=middle: Chain(middle), rows, mean_square, budget="80%")

    def test_dropout_and_the_state_of_batch_norm(self) -> None:
        def make() -> nn.Module:
            sizes = [3, *[8] * 6]
            layers = [
                nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True), nn.Dropout2d(0.1))
                for a, b in zip(sizes, sizes[1:], strict=False)
            ]
            return nn.Sequential(*layers)

        self.loop(make, lambda: torch.randn(4, 3, 16, 16), mean_square)

    def test_a_penalty_on_gradients(self) -> None:
        def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
            x = x.clone().requires_grad_()
            (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
            return (slope.norm(dim=1) - 1).square().mean()

        for budget in ("85%", "65%"):
            self.loop(lambda: deep(nn.Softplus, 6), rows, loss, budget=budget)

    def test_gradients_of_gradients_of_parameters(self) -> None:
        def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
            weights = dict(model.named_parameters())
            for _ in range(2):
                inner = loss_of(torch.func.functional_call(model, weights, (x,)))
                slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
                weights = {name: w - 0.1 * d for (name, w), d in zip(weights.items(), slopes, strict=True)}
            return loss_of(torch.func.functional_call(model, weights, (x,)))

        self.loop(lambda: deep(layers=4), lambda: torch.randn(256, 32), loss, budget="80%")

    def test_hooks_on_modules_and_tensors(self) -> None:
        def make() -> nn.Module:
            model = Gpt()
            for block in model.blocks:
                block.register_forward_pre_hook(lambda module, args: (args[0] * 1.01,))
                block.mlp.register_full_backward_hook(lambda module, into, out: (into[0] * 0.5,))
                block.register_forward_hook(lambda module, args, out: setattr(module, "seen", out.detach().mean()))
            model.norm.weight.register_hook(lambda grad: grad * 2)
            return model

        self.loop(make, tokens, next_word, after=lambda run, model: run.keep(*[block.seen for block in model.blocks]))

    def test_one_layer_many_times(self) -> None:
        class Shared(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer, self.norm = nn.Linear(32, 32), nn.LayerNorm(32)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                for _ in range(10):
                    x = x + F.gelu(self.layer(self.norm(x)))
                return x

        self.loop(Shared, rows, mean_square)

    def test_frozen_layers(self) -> None:
        def make() -> nn.Module:
            model = Gpt()
            model.words.requires_grad_(False)
            for block in model.blocks[:2]:
                block.requires_grad_(False)
            return model

        self.loop(make, tokens, next_word)

    def test_a_smaller_batch_and_steps_that_stop_early_or_fail(self) -> None:
        def program(run: Run) -> None:
            torch.manual_seed(0)
            model = Gpt()
            fitted = run.fit(model)
            for i in range(9):
                x = tokens(2 if i in (1, 8) else 4)

                def step(x=x, i=i) -> None:
                    out = model(x)
                    if i == 2:
                        return
                    if i == 3:
                        raise KeyError
                    if i == 5:
                        out.register_hook(lambda grad: 1 / 0)
                    if i == 6:
                        model(torch.full((1, 1), 99))
                    F.cross_entropy(out.flatten(0, 1), x.flatten()).backward()

                with contextlib.suppress(KeyError, ZeroDivisionError, IndexError):
                    run.step(fitted, step, model, x)
                run.keep_all(model)
                model.zero_grad()

        self.check(program)

    def test_an_error_in_a_step_runs_nothing_again(self) -> None:
        """It may say that memory is short."""
        torch.manual_seed(0)
        model, x, losses = Chain(lambda y, _: y), rows(), []
        fitted = fit(model, x, budget="50%", loss=lambda out, _x: loss_of(out))
        fails = (["in the step", torch.OutOfMemoryError], ["at its end", torch.OutOfMemoryError])
        for when, error in fails:
            with self.subTest(when):
                with self.assertRaises(error), fitted:
                    losses.append(loss_of(model(x)))
                    dropped = fitted._entered.counts.dropped
                    if when == "in the step":
                        raise error
                    fitted._entered._make = mock.Mock(side_effect=error)
                self.assertGreater(dropped, 0)
                self.assertEqual(fitted.counts.reran_operators, 0)
                with self.assertRaisesRegex(RuntimeError, "the step ended with an error.* its graph can not be used"):
                    losses.pop().backward()
                model.zero_grad()
        with fitted:
            loss_of(model(x)).backward()
        ours = [p.grad for p in model.parameters()]
        model.zero_grad()
        loss_of(model(x)).backward()
        self.assertTrue(same(ours, [p.grad for p in model.parameters()]))

    def test_a_state_that_goes_from_step_to_step(self) -> None:
        def program(run: Run) -> None:
            torch.manual_seed(0)
            cell, head = nn.LSTMCell(32, 32), nn.Linear(32, 8)
            model = nn.ModuleList([cell, head])
            fitted = run.fit(model)
            state = [torch.zeros(64, 32), torch.zeros(64, 32)]
            for _ in range(5):
                x = torch.randn(64, 10, 32)

                def step(x=x) -> None:
                    now, loss = tuple(state), torch.zeros(())
                    for t in range(x.shape[1]):
                        now = cell(x[:, t], now)
                        loss = loss + head(now[0]).square().mean()
                    loss.backward()
                    state[:] = [part.detach() for part in now]

                run.step(fitted, step, model, x, *state)
                run.keep_all(model)
                run.keep(*state)
                model.zero_grad()

        self.check(program)

    def test_packed_sequences_with_lengths_that_nobody_keeps(self) -> None:
        class Tagger(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.words, self.head = nn.Embedding(61, 32), nn.Linear(64, 61)
                self.layer = nn.LSTM(32, 32, bidirectional=True, batch_first=True)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                packed = nn.utils.rnn.pack_padded_sequence(self.words(x), [24, 20, 9, 3], batch_first=True)
                return self.head(nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0])

        self.loop(Tagger, tokens, next_word, budget="85%")

    def test_a_second_pass_with_weights_that_were_moved(self) -> None:
        def program(run: Run) -> None:
            torch.manual_seed(0)
            model = Gpt()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            fitted = run.fit(model)
            for _ in range(4):
                x = tokens()

                def step(x=x) -> None:
                    next_word(model, x).backward()
                    moves = [p.grad * 0.01 for p in model.parameters()]
                    with torch.no_grad():
                        torch._foreach_add_(list(model.parameters()), moves)
                    optimizer.zero_grad()
                    next_word(model, x).backward()
                    with torch.no_grad():
                        torch._foreach_sub_(list(model.parameters()), moves)
                    optimizer.step()
                    optimizer.zero_grad()

                run.step(fitted, step, model, x)
                run.keep_all(model)

        self.check(program)

    def test_an_average_of_the_weights_as_the_teacher(self) -> None:
        def program(run: Run) -> None:
            torch.manual_seed(0)
            model = Gpt()
            teacher = copy.deepcopy(model).requires_grad_(False)
            both = nn.ModuleList([model, teacher])
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            fitted = run.fit(both)
            for _ in range(4):
                x = tokens()

                def step(x=x) -> None:
                    with torch.no_grad():
                        wanted = teacher(x)
                    (model(x) - wanted).square().mean().backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    torch._foreach_lerp_(list(teacher.parameters()), [p.detach() for p in model.parameters()], 0.1)

                run.step(fitted, step, both, x)
                run.keep_all(both)

        self.check(program)

    def test_parametrizations_with_state(self) -> None:
        def make() -> nn.Module:
            kinds = nn.utils.parametrizations
            first = [kinds.spectral_norm(nn.Linear(32, 32)), nn.Tanh(), kinds.weight_norm(nn.Linear(32, 32)), nn.Tanh()]
            return nn.Sequential(*first, *deep(layers=6))

        self.loop(make, lambda: torch.randn(256, 32), mean_square)

    def test_complex_numbers_and_indices(self) -> None:
        def middle(x: torch.Tensor, i: int) -> torch.Tensor:
            if i % 2:
                return torch.fft.irfft(torch.fft.rfft(x) * torch.polar(torch.ones(17), torch.arange(17.0)), n=32).tanh()
            y = torch.zeros_like(x)
            y.index_put_((torch.arange(len(x)).flip(0),), x.sigmoid())
            y[::2] = y[1::2].tanh()
            return y * x

        self.loop(lambda: Chain(middle, 8), rows, mean_square)

    def test_compiled_modules(self) -> None:
        self.loop(lambda: torch.compile(deep(), backend="eager"), lambda: torch.randn(256, 32), mean_square)

    def test_experts_whose_sizes_differ_from_step_to_step(self) -> None:
        def program(run: Run) -> None:
            torch.manual_seed(0)
            model = MODELS["experts"][0]()
            fitted = run.fit(model)
            for _ in range(4):
                x = tokens()
                run.step(fitted, lambda x=x: next_word(model, x).backward(), model)
                run.keep_all(model)
                model.zero_grad()

        plain, fitted = Run(), Run("70%")
        program(plain)
        program(fitted)
        self.assertTrue(same(plain.left, fitted.left))
        self.assertGreater(fitted.dropped, 0)


if __name__ == "__main__":
    unittest.main()
