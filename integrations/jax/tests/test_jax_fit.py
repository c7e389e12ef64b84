# SPDX-License-Identifier: Apache-2.0
"""thermocline_jax.fit() on the CPU: the values and gradients of plain JAX, and the memory that was promised, by JAX's own residuals and by
XLA's account of the compiled step."""

import functools
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from jax_programs import KEY, PROGRAMS, mlp, normal, recurrent, scanned_transformer  # first: without JAX it skips the test

import jax
import jax.numpy as jnp
import numpy as np
import thermocline_jax as tj

WITH_MORE = {"jitted_parts"}  # losses that return (loss, more)
# XLA's account of a compiled step may exceed what the jaxpr needs by its own scratch memory.
SCRATCH = 1.10
# XLA's CPU compiler computes bfloat16 in float32, and gives convolutions scratch memory: only compared with plain JAX.
OF_THE_CPU = {"cnn", "scanned_transformer_bfloat16", "mixed_precision"}
# One step of rounding in the narrowest type that a program computes in, times a few.
TOLERANCE = {"scanned_transformer_bfloat16": 0.04, "mixed_precision": 0.02}


def fit(*args, **options):
    return tj.fit(*args, verbose=False, **options)


def fit_least(loss, *args, **options):
    try:
        return fit(loss, *args, budget=1, **options)
    except tj.DoesNotFitError as error:
        return fit(loss, *args, budget=error.least_bytes, **options)


def compiled(loss, args, has_aux=False):
    return jax.jit(jax.value_and_grad(loss, has_aux=has_aux)).lower(*args).compile()


def compiled_bytes(step) -> int:
    memory = step.memory_analysis()
    return memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes


def difference(a, b) -> float:
    """The largest, as a part of the largest element."""
    worst = 0.0
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        worst = max(worst, float(np.max(np.abs(x - y)) / max(np.max(np.abs(y)), 1e-30)))
    return worst


def held_residuals(loss, params, *rest) -> int:
    """Bytes of the arrays that a real jax.vjp holds beside the arguments."""
    _, backward = jax.vjp(lambda p: loss(p, *rest), params)
    arguments = {
        leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves((params, rest)) if isinstance(leaf, jax.Array) and leaf.dtype != KEY.dtype
    }
    held = {
        leaf.unsafe_buffer_pointer(): leaf.nbytes
        for leaf in jax.tree.leaves(backward)
        if isinstance(leaf, jax.Array) and leaf.dtype != KEY.dtype
    }
    return sum(size for pointer, size in held.items() if pointer not in arguments)


class Programs(unittest.TestCase):
    """Each as its users write it, at two budgets: the gradients of plain JAX, within the budget."""

    def check(self, name: str) -> None:
        loss, args = PROGRAMS[name]()
        has_aux = name in WITH_MORE
        plain = compiled(loss, args, has_aux)
        expected, plain_bytes = plain(*args), compiled_bytes(plain)
        for fitted in (fit_least(loss, *args), fit(loss, *args, budget="75%")) if name != "own_checkpoints" else (fit_least(loss, *args),):
            plan = fitted.plan
            step = compiled(fitted, args, has_aux)
            with self.subTest(name=name, budget=plan.budget_bytes):
                self.assertLessEqual(plan.chosen.peak_bytes, plan.budget_bytes)
                self.assertLessEqual(difference(step(*args), expected), TOLERANCE.get(name, 5e-6))
                needed = compiled_bytes(step)
                if name in OF_THE_CPU:
                    self.assertLess(needed, plain_bytes)
                else:
                    self.assertLessEqual(needed, SCRATCH * plan.chosen.peak_bytes)

    def test_mlp(self) -> None:
        self.check("mlp")

    def test_cnn(self) -> None:
        self.check("cnn")

    def test_scanned_transformer(self) -> None:
        self.check("scanned_transformer")

    def test_scanned_transformer_bfloat16(self) -> None:
        self.check("scanned_transformer_bfloat16")

    def test_dropout_transformer(self) -> None:
        self.check("dropout_transformer")

    def test_mixed_precision(self) -> None:
        self.check("mixed_precision")

    def test_custom_derivative(self) -> None:
        self.check("custom_derivative")

    def test_while_loop_and_cond(self) -> None:
        self.check("while_loop")

    def test_recurrent(self) -> None:
        self.check("recurrent")

    def test_jitted_parts_and_more_results(self) -> None:
        self.check("jitted_parts")

    def test_own_checkpoints(self) -> None:
        self.check("own_checkpoints")


class Memory(unittest.TestCase):
    def test_budgets_are_kept_and_a_larger_one_is_never_slower(self) -> None:
        for make in (mlp, scanned_transformer):
            loss, args = make()
            least = fit_least(loss, *args).plan
            before = least.chosen
            for budget in np.linspace(least.least_bytes, least.whole.peak_bytes, 9).astype(int):
                chosen = fit(loss, *args, budget=int(budget)).plan.chosen
                self.assertLessEqual(chosen.peak_bytes, budget)
                self.assertLessEqual(chosen.step_ms, before.step_ms)
                self.assertGreaterEqual(chosen.peak_bytes, before.peak_bytes)
                before = chosen
            self.assertLess(least.least_bytes, 0.5 * least.whole.peak_bytes)

    def test_saved_bytes_are_those_that_vjp_holds(self) -> None:
        loss, args = mlp()
        for fitted in (fit(loss, *args, budget="100%"), fit(loss, *args, budget="60%"), fit_least(loss, *args)):
            chosen = fitted.plan.chosen
            if chosen.layout is not None:
                self.assertGreater(chosen.saved_bytes, 0)
                self.assertEqual(chosen.saved_bytes, held_residuals(fitted, *args))
                self.assertLess(chosen.saved_bytes, fitted.plan.whole.saved_bytes)

    def test_a_step_that_fits_is_left_alone(self) -> None:
        loss, args = mlp()
        whole = fit(loss, *args, budget="100%").plan.whole.peak_bytes
        fitted = fit(loss, *args, budget=whole)
        self.assertEqual(difference(compiled(fitted, args)(*args), compiled(loss, args)(*args)), 0.0)

    def test_one_checkpoint_around_everything_is_not_what_this_does(self) -> None:
        loss, args = mlp()
        around = compiled_bytes(compiled(jax.checkpoint(loss), args))
        self.assertLess(compiled_bytes(compiled(fit_least(loss, *args), args)), 0.7 * around)

    def test_the_error_names_a_budget_that_works(self) -> None:
        loss, args = mlp()
        with self.assertRaisesRegex(tj.DoesNotFitError, r"budget=\d+") as caught:
            fit(loss, *args, budget="5%")
        self.assertNotIn("\n", str(caught.exception))
        fit(loss, *args, budget=caught.exception.least_bytes)
        with self.assertRaises(tj.DoesNotFitError):
            fit(loss, *args, budget=caught.exception.least_bytes - 1)


class Transformations(unittest.TestCase):
    """JAX's other transformations of a function."""

    def setUp(self) -> None:
        self.loss, self.args = mlp()
        self.fitted = fit_least(self.loss, *self.args)

    def both(self, transform) -> None:
        expected, found = (transform(loss)(*self.args) for loss in (self.loss, self.fitted))
        self.assertLess(difference(found, expected), 1e-5)

    def test_without_a_transformation_it_is_the_function(self) -> None:
        self.assertEqual(float(self.loss(*self.args)), float(self.fitted(*self.args)))

    def test_eager_gradients(self) -> None:
        self.both(jax.value_and_grad)

    def test_forward_mode(self) -> None:
        self.both(lambda loss: lambda p, x: jax.jvp(loss, (p, x), (p, x))[1])

    def test_gradient_of_gradient(self) -> None:
        def product(loss):
            return jax.jit(
                lambda p, x: jax.grad(
                    lambda q: sum(jnp.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (jax.grad(loss)(q, x), p)), strict=True))
                )(p)
            )

        self.both(product)

    def test_hessian_by_forward_over_reverse(self) -> None:
        self.both(lambda loss: jax.jit(lambda p, x: jax.jvp(lambda q: jax.grad(loss)(q, x), (p,), (p,))[1]))

    def test_vmap_of_grad(self) -> None:
        def per_example(loss):
            return jax.jit(lambda p, x: jax.vmap(jax.grad(loss), (None, 0))(p, x.reshape(8, -1, x.shape[-1])))

        self.both(per_example)

    def test_donated_arguments(self) -> None:
        def trained(loss):
            step = jax.jit(lambda p, x: jax.tree.map(lambda a, g: a - 0.1 * g, p, jax.grad(loss)(p, x)), donate_argnums=0)
            return lambda p, x: step(step(jax.tree.map(jnp.copy, p), x), x)

        self.both(trained)

    def test_scan_over_steps(self) -> None:
        def trained(loss):
            def step(p, x):
                return jax.tree.map(lambda a, g: a - 0.1 * g, p, jax.grad(loss)(p, x)), loss(p, x)

            return jax.jit(lambda p, x: jax.lax.scan(step, p, x.reshape(4, -1, x.shape[-1])))

        self.both(trained)

    def test_scan_without_checkpoints_of_its_own_under_vmap(self) -> None:
        self.loss, self.args = recurrent()
        self.fitted = fit_least(self.loss, *self.args)
        self.both(lambda loss: jax.jit(lambda p, x: jax.vmap(jax.grad(loss), (None, 1))(p, x.reshape(x.shape[0], 4, -1, x.shape[-1]))))

    def test_other_shapes_are_planned_for(self) -> None:
        self.args = (self.args[0], normal(2048, 64, scale=1.0))
        self.both(lambda loss: jax.jit(jax.value_and_grad(loss)))
        self.assertGreater(self.fitted.plan.chosen.peak_bytes, self.fitted.plan.budget_bytes)  # and the budget is not enough, which is said

    def test_without_examples_the_first_call_is_planned_for(self) -> None:
        fitted = fit(self.loss, budget="60%")
        self.assertIsNone(fitted.plan)
        self.assertLess(difference(jax.jit(jax.grad(fitted))(*self.args), jax.jit(jax.grad(self.loss))(*self.args)), 1e-6)
        self.assertLessEqual(fitted.plan.chosen.peak_bytes, fitted.plan.budget_bytes)

    def test_random_bits_are_those_of_forward(self) -> None:
        def loss(w, x, key):
            for i in range(4):
                x = jnp.where(jax.random.bernoulli(jax.random.fold_in(key, i), 0.5, x.shape), jnp.tanh(x @ w), 0)
            return jnp.sum(x)

        args = (normal(64, 64, scale=0.3), normal(512, 64, scale=1.0), jax.random.key(5))
        fitted = fit_least(loss, *args)
        self.assertGreater(fitted.plan.chosen.layout.counts["recomputed"], 0)
        self.assertEqual(difference(compiled(fitted, args)(*args), compiled(loss, args)(*args)), 0.0)

    def test_a_print_happens_once(self) -> None:
        seen = []

        def loss(w, x):
            for _ in range(4):
                x = jnp.tanh(x @ w)
                jax.debug.callback(lambda v: seen.append(float(v)), x[0, 0])
            return jnp.mean(x**2)

        args = (normal(64, 64), normal(512, 64, scale=1.0))
        fitted = fit_least(loss, *args)
        jax.block_until_ready(jax.jit(jax.grad(fitted))(*args))
        jax.effects_barrier()
        self.assertEqual(len(seen), 4)
        self.assertEqual(fitted.plan.chosen.layout.counts["apart"] if fitted.plan.chosen.layout else 4, 4)


class Arguments(unittest.TestCase):
    """Arguments of all kinds with which a loss is called."""

    def check(self, loss, *args, static=(), **kwargs):
        fitted = fit_least(loss, *args, **kwargs)
        found, expected = (jax.jit(jax.value_and_grad(f), static_argnums=static)(*args, **kwargs) for f in (fitted, loss))
        self.assertLess(difference(found, expected), 1e-6)
        self.assertIsNotNone(fitted.plan.chosen.layout)
        return fitted

    def test_flags_texts_and_numbers(self) -> None:
        def loss(params, x, train, kind, repeats, scale):
            for w in params * repeats:
                x = (jnp.tanh if kind == "tanh" else jnp.sin)(x @ w) * (scale if train else 1.0)
            return jnp.mean(x**2)

        params, x = [normal(64, 64, seed=i) for i in range(6)], normal(2048, 64, scale=1.0)
        self.check(loss, params, x, True, "tanh", 2, 0.5, static=(2, 3, 4))
        self.check(loss, params, x, False, "sin", 2, np.float32(0.5), static=(2, 3, 4))

    def test_by_name(self) -> None:
        def loss(params, *, x):
            for w in params:
                x = jnp.tanh(x @ w)
            return jnp.mean(x**2)

        params, x = [normal(64, 64, seed=i) for i in range(12)], normal(2048, 64, scale=1.0)
        fitted = self.check(loss, params, x=x)

        def by_name(f):
            return jax.jit(jax.grad(lambda p: f(params=p, x=x)))(params)

        self.assertEqual(difference(by_name(fitted), by_name(loss)), 0.0)  # left alone

    def test_closed_over_tracers(self) -> None:
        x = normal(512, 64, scale=1.0)

        def run(wrap):
            def total(scale, params):
                def loss(params, x):
                    for w in params:
                        x = jnp.tanh(x @ w) * scale
                    return jnp.mean(x**2)

                return wrap(loss)(params, x)

            return jax.jit(jax.grad(total, argnums=(0, 1)))(1.3, [normal(64, 64, seed=i) for i in range(4)])

        self.assertLess(difference(run(lambda loss: fit(loss, budget="60%")), run(lambda loss: loss)), 1e-6)

    def test_functions_of_the_same_operators_that_are_wired_otherwise(self) -> None:
        def loss(params, x, returned):
            for w in params:
                y = jnp.tanh(x @ w)
                x = jnp.sin(y) + y if returned < 2 else jnp.sin(x) + y
            value = jnp.mean(x**2)
            return (value, y) if returned == 1 else (value, value)

        args = ([normal(64, 64, seed=i) for i in range(8)], normal(1024, 64, scale=1.0))
        for returned in range(3):
            one = functools.partial(loss, returned=returned)
            found, expected = (jax.jit(jax.value_and_grad(f, has_aux=True))(*args) for f in (fit_least(one, *args), one))
            self.assertLess(difference(found, expected), 1e-6)

    def test_scans_of_another_length(self) -> None:
        def loss(w, x, length):
            return jnp.mean(jax.lax.scan(lambda x, _: (jnp.tanh(x @ w) + x, None), x, None, length=length)[0] ** 2)

        w, x = normal(64, 64), normal(512, 64, scale=1.0)
        peaks = [fit(functools.partial(loss, length=length), w, x, budget="100%").plan.whole.peak_bytes for length in (4, 16)]
        self.assertGreater(peaks[1], 2 * peaks[0])

    def test_inside_of_the_programs_own_checkpoint(self) -> None:
        loss, args = mlp()
        fitted = fit_least(loss, *args)
        found, expected = (jax.jit(jax.grad(jax.checkpoint(f)))(*args) for f in (fitted, loss))
        self.assertLess(difference(found, expected), 1e-6)

    def test_named_axes(self) -> None:
        def loss(params, x):
            for w in params:
                x = jnp.tanh(x @ w)
            return jax.lax.pmean(jnp.mean(x**2), "i")

        args = ([normal(64, 64, seed=i) for i in range(4)], normal(4, 128, 64, scale=1.0))
        fitted = fit(loss, budget="70%")
        found, expected = (jax.vmap(jax.grad(f), (None, 0), axis_name="i")(*args) for f in (fitted, loss))
        self.assertLess(difference(found, expected), 1e-6)

    def test_nested_and_reversed_scans(self) -> None:
        def loss(params, x):
            def outer(x, w):
                return jax.lax.scan(lambda x, _: (jnp.tanh(x @ w) + x, x.sum()), x, None, length=3)

            x, sums = jax.lax.scan(outer, x, jnp.stack(params), reverse=True, unroll=2)
            return jnp.mean(x**2) + sums.mean()

        fitted = self.check(loss, [normal(64, 64, seed=i) for i in range(4)], normal(512, 64, scale=1.0))
        self.assertLess(fitted.plan.chosen.peak_bytes, 0.6 * fitted.plan.whole.peak_bytes)


class Offloading(unittest.TestCase):
    """As far as the CPU shows it: JAX's residuals are in host memory. XLA's CPU compiler, whose host memory is the same, leaves out the copies."""

    def test_offloaded_values_are_in_host_memory_and_the_gradients_are_right(self) -> None:
        loss, _ = mlp()
        args = ([(normal(512, 512, seed=i), normal(512, 512, seed=i + 99)) for i in range(4)], normal(2048, 512, scale=1.0))
        fitted = fit(loss, *args, budget="75%", plans="joint", device="gh200")
        chosen = fitted.plan.chosen
        self.assertGreater(chosen.offloaded_bytes, 0)
        self.assertGreater(chosen.layout.counts["offloaded"], 0)
        self.assertIn("<host>", str(jax.make_jaxpr(jax.value_and_grad(fitted))(*args)))
        self.assertLess(difference(compiled(fitted, args)(*args), compiled(loss, args)(*args)), 1e-5)
        self.assertEqual(fit(loss, *args, budget="75%", device="gh200").plan.chosen.offloaded_bytes, 0)


class Refusals(unittest.TestCase):
    """One line that says what to write instead."""

    def refused(self, kind, words, call) -> None:
        with self.assertRaisesRegex(kind, words) as caught:
            call()
        self.assertNotIn("\n", str(caught.exception))

    def test_refusals(self) -> None:
        loss, (params, x) = mlp()
        self.refused(TypeError, "loss: a function", lambda: fit(3, params, x, budget="50%"))
        self.refused(TypeError, "budget: bytes", lambda: fit(loss, params, x, budget=None))
        self.refused(ValueError, "has no unit", lambda: fit(loss, params, x, budget="50"))
        self.refused(ValueError, "budget: ", lambda: fit(loss, params, x, budget="-3GiB"))
        self.refused(ValueError, "more than 0 bytes", lambda: fit(loss, params, x, budget=0))
        self.refused(ValueError, "plans: ", lambda: fit(loss, params, x, budget="50%", plans="swap"))
        self.refused(ValueError, "device", lambda: fit(loss, params, x, budget="50%", device="none-such"))
        self.refused(ValueError, r"argnums: \(4,\)", lambda: fit(loss, params, x, budget="50%", argnums=4))
        self.refused(ValueError, "no floating-point array", lambda: fit(lambda n: n * 1.0, jnp.int32(3), budget="50%"))
        self.refused(ValueError, "give the loss", lambda: fit(lambda p, x: x, params, x, budget="50%"))
        self.refused(ValueError, "give the loss", lambda: fit(jax.grad(loss), params, x, budget="50%"))


if __name__ == "__main__":
    unittest.main()
