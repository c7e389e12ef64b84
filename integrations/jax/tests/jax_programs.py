# SPDX-License-Identifier: Apache-2.0
"""Losses as JAX users write them: name -> (loss, arguments). Where JAX or the command is not there, the import ends the test as skipped
(status 77)."""

import functools
import os
import shutil
import sys

# XLA's CPU compiler removes the barriers of jax.checkpoint before it removes equal subexpressions, and with them all
# recomputation. Without that pass the memory of compiled steps can be measured.
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_disable_hlo_passes=cse_barrier_expander --xla_cpu_multi_thread_eigen=false"
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
try:
    import jax
except ImportError:
    print("JAX is not installed for this Python")
    sys.exit(77)
COMMAND = os.environ.get("THERMOCLINE_TEST_COMMAND", "")
if COMMAND:
    os.environ["PATH"] = os.path.dirname(COMMAND) + os.pathsep + os.environ["PATH"]
if shutil.which("thermocline") is None:
    print("there is no command to plan with")
    sys.exit(77)
import jax.numpy as jnp
from jax import lax

KEY = jax.random.key(7)


def normal(*shape: int, scale: float = 0.05, seed: int = 0, dtype=jnp.float32) -> jax.Array:
    return (jax.random.normal(jax.random.fold_in(KEY, seed), shape) * scale).astype(dtype)


def layer_norm(x: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


def mlp():
    def loss(params, x):
        for first, second in params:
            x = x + jax.nn.gelu(jnp.tanh(x @ first) @ second)
        return jnp.mean(x**2)

    return loss, ([(normal(64, 64, seed=i), normal(64, 64, seed=i + 99)) for i in range(6)], normal(1024, 64, scale=1.0))


def cnn():
    def loss(params, images, labels):
        x = images
        for w in params["convolutions"]:
            x = jax.nn.relu(lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        logits = x.mean((1, 2)) @ params["head"]
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(labels.shape[0]), labels])

    channels = [3, 16, 16, 16, 16]
    params = {"convolutions": [normal(3, 3, a, b, scale=0.2, seed=i) for i, (a, b) in enumerate(zip(channels, channels[1:], strict=False))]}
    params["head"] = normal(16, 10)
    return loss, (params, normal(16, 24, 24, 3, scale=1.0), jnp.arange(16) % 10)


def attention(x: jax.Array, w: dict, heads: int) -> jax.Array:
    batch, time, width = x.shape
    q, k, v = ((x @ w[name]).reshape(batch, time, heads, -1) for name in "qkv")
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / jnp.sqrt(width // heads).astype(x.dtype)
    scores = jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, jnp.asarray(-1e9, scores.dtype))
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, axis=-1), v).reshape(batch, time, width) @ w["o"]


def weights(width: int, layers: int | None, dtype=jnp.float32) -> dict:
    shape = () if layers is None else (layers,)
    sizes = {
        "q": (width, width),
        "k": (width, width),
        "v": (width, width),
        "o": (width, width),
        "up": (width, 4 * width),
        "down": (4 * width, width),
    }
    return {name: normal(*shape, *size, seed=i, dtype=dtype) for i, (name, size) in enumerate(sizes.items())}


def block(x: jax.Array, w: dict) -> jax.Array:
    x = x + attention(layer_norm(x), w, 4)
    return x + jax.nn.gelu(layer_norm(x) @ w["up"]) @ w["down"]


def scanned_transformer(dtype=jnp.float32):
    def loss(params, tokens):
        x = params["embedding"][tokens]
        x, _ = lax.scan(lambda x, w: (block(x, w), None), x, params["layers"])
        logits = (layer_norm(x) @ params["embedding"].T).astype(jnp.float32)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.roll(tokens, -1, 1)[..., None], -1))

    tokens = jax.random.randint(KEY, (4, 64), 0, 128)
    return loss, ({"embedding": normal(128, 64, seed=50, dtype=dtype), "layers": weights(64, 6, dtype)}, tokens)


def gpt2_shapes():
    """GPT-2 124M with its layers in a scan: only shapes."""

    def loss(params, tokens):
        x, _ = lax.scan(lambda x, w: (block(x, w), None), params["embedding"][tokens], params["layers"])
        logits = layer_norm(x) @ params["embedding"].T
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.roll(tokens, -1, 1)[..., None], -1))

    layers = jax.eval_shape(lambda: weights(768, 12))
    params = {"embedding": jax.ShapeDtypeStruct((50257, 768), jnp.float32), "layers": layers}
    return loss, (params, jax.ShapeDtypeStruct((8, 1024), jnp.int32))


def dropout_transformer():
    @jax.jit
    def layer(x, w, key):
        x = block(x, w)
        return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)

    def loss(params, x, key):
        for i, w in enumerate(params):
            x = layer(x, w, jax.random.fold_in(key, i))
        return jnp.mean(x**2)

    return loss, ([jax.tree.map(lambda a, i=i: a[i], weights(64, 4)) for i in range(4)], normal(4, 64, 64, scale=1.0), jax.random.key(3))


def mixed_precision():
    def loss(params, x):
        for w in params:
            x = x + jax.nn.silu(x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)).astype(jnp.float32)
        return jnp.mean(layer_norm(x) ** 4)

    return loss, ([normal(64, 64, seed=i) for i in range(6)], normal(1024, 64, scale=1.0))


@jax.custom_vjp
def clipped(x):
    return jnp.sin(x) * x


clipped.defvjp(lambda x: (clipped(x), (x, jnp.cos(x))), lambda saved, g: (jnp.clip(g * (jnp.sin(saved[0]) + saved[0] * saved[1]), -1, 1),))


def custom_derivative():
    def loss(params, x):
        for w in params:
            x = clipped(x @ w) + x
        return jnp.mean(x**2)

    return loss, ([normal(64, 64, seed=i) for i in range(6)], normal(1024, 64, scale=1.0))


def while_loop():
    def loss(params, x):
        # The number of iterations depends on the data; nothing is differentiated through it.
        scale = lax.while_loop(lambda s: jnp.sum((x * s) ** 2) > 1e4, lambda s: s * 0.5, jnp.float32(1.0))
        x = x * lax.stop_gradient(scale)
        for w in params:
            x = lax.cond(jnp.sum(x) > 0, lambda x, w: jnp.tanh(x @ w) + x, lambda x, w: x - jnp.sin(x @ w), x, w)
        return jnp.mean(x**2)

    return loss, ([normal(64, 64, seed=i) for i in range(6)], normal(1024, 64, scale=1.0))


def recurrent():
    def loss(params, xs):
        def cell(state, x):
            h, c = state
            i, f, g, o = jnp.split(x @ params["in"] + h @ params["state"], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = jnp.zeros((xs.shape[1], 32))
        _, outputs = lax.scan(cell, (start, start), xs)
        return jnp.mean(outputs**2) + jnp.mean(outputs[-1])

    return loss, ({"in": normal(32, 128), "state": normal(32, 128, seed=1)}, normal(40, 32, 32, scale=1.0))


def jitted_parts():
    @functools.partial(jax.jit, static_argnames="kind")
    def part(x, w, kind):
        return (jnp.tanh if kind == "tanh" else jax.nn.relu)(x @ w)

    def loss(params, batch, kind="tanh"):
        x = batch["x"]
        for w in params:
            x = part(x, w, kind) + jax.jit(lambda x: jnp.sin(x) * 0.1)(x)
        return jnp.mean((x - batch["y"]) ** 2), {"last": x, "count": jnp.int32(3)}

    x = normal(1024, 64, scale=1.0)
    return loss, ([normal(64, 64, seed=i) for i in range(6)], {"x": x, "y": x + 1})


def own_checkpoints():
    def loss(params, x):
        layer = jax.checkpoint(lambda x, w: x + jnp.tanh(x @ w) ** 2)
        for w in params:
            x = layer(x, w)
        x, _ = lax.scan(jax.checkpoint(lambda x, w: (x + jnp.sin(x @ w), None)), x, jnp.stack(params))
        return jnp.mean(x**2)

    return loss, ([normal(64, 64, seed=i) for i in range(5)], normal(1024, 64, scale=1.0))


PROGRAMS = {
    "mlp": mlp,
    "cnn": cnn,
    "scanned_transformer": scanned_transformer,
    "scanned_transformer_bfloat16": functools.partial(scanned_transformer, jnp.bfloat16),
    "dropout_transformer": dropout_transformer,
    "mixed_precision": mixed_precision,
    "custom_derivative": custom_derivative,
    "while_loop": while_loop,
    "recurrent": recurrent,
    "jitted_parts": jitted_parts,
    "own_checkpoints": own_checkpoints,
}
