# SPDX-License-Identifier: Apache-2.0
"""Records models as they compute answers: bench/traces/inference. Shapes alone, without a GPU.

    python inference.py FOLDER [NAME...]

Needs torch. A minute for all. The first step of each trace uploads the weights and what a prompt has left in the cache of keys and values;
each further one is a token of each sequence, a prompt, or a step of denoising. bench/traces/inference/README.md says what each is.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
import torch
import thermocline.torch as tt
from inference_models import GrowingCache, LanguageModel, PagedCache, PromptCache, Sizes, UNet

# Llama's structure with the sizes of Mistral 7B (7.2 billion parameters), TinyLlama 1.1B, and Llama 3.2 1B without tied words.
SEVEN = Sizes(hidden=4096, layers=32, heads=32, key_heads=8, feed_forward=14336, words=32000)
TINY = Sizes(hidden=2048, layers=22, heads=32, key_heads=4, feed_forward=5632, words=32000)
ONE = Sizes(hidden=2048, layers=16, heads=32, key_heads=8, feed_forward=8192, words=128256)
# The width of Qwen1.5-MoE-A2.7B with 8 of its 24 layers, 64 experts for its 60, none that is shared, and fewer words.
MIXTURE = Sizes(hidden=2048, layers=8, heads=16, key_heads=16, feed_forward=1408, words=32000, experts=64)
ACTIVE = 4


class Routes:
    """Which experts the next token has in each layer: a made-up history, not one of a trained router.

    *Skew*: in each layer the experts have ranks, shuffled, and rank r is drawn with a weight of 1 / r (Zipf's law with the exponent `skew` = 1).
    *Locality*: each of a token's experts stays for the next token with the probability `stays` = 0.3; the others are drawn anew. Both are
    there in trained models (Jiang et al. 2024, Mixtral of Experts, section 5: consecutive tokens share experts above chance).
    """

    def __init__(self, sizes: Sizes, active: int, *, skew: float = 1.0, stays: float = 0.3, seed: int = 20) -> None:
        self._random = random.Random(seed)
        self._active, self._stays = active, stays
        self._weights, self._now = [], []
        for _ in range(sizes.layers):
            ranks = list(range(1, sizes.experts + 1))
            self._random.shuffle(ranks)
            self._weights.append([rank**-skew for rank in ranks])
            self._now.append([])

    def __call__(self, layer: int) -> list[int]:
        kept = [expert for expert in self._now[layer] if self._random.random() < self._stays]
        while len(kept) < self._active:
            drawn = self._random.choices(range(len(self._weights[layer])), self._weights[layer])[0]
            if drawn not in kept:
                kept.append(drawn)
        self._now[layer] = kept
        return kept


@contextmanager
def shapes(dtype: torch.dtype) -> Iterator[None]:
    """Within it, tensors are made without contents, and of this type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            yield
    finally:
        torch.set_default_dtype(before)


def upload(mode: Any, *parts: tuple[str, Iterable[tuple[str, torch.Tensor]]]) -> None:
    """Each buffer by a copy of its own, as programs load models."""
    for what, named in parts:
        for name, tensor in named:
            mode.input(tensor)
            mode.name(tensor, f"{what} {name}")


def generate(mode: Any, model: LanguageModel, cache: Any, tokens: torch.Tensor, steps: int, route: Routes | None = None) -> torch.Tensor:
    for _ in range(steps):
        with shapes(torch.bfloat16):
            tokens = model(tokens, cache, route)
        mode.step()
    return tokens


# Called before recording begins; returns the function that is recorded.
Workload = Callable[[], Callable[[Any], None]]


def decoding(sizes: Sizes, make_cache: Callable[[], Any], batch: int, steps: int, make_routes: Callable[[], Routes] | None = None) -> Workload:
    def workload() -> Callable[[Any], None]:
        with shapes(torch.bfloat16):
            model, cache, tokens = LanguageModel(sizes), make_cache(), torch.empty(batch, 1, dtype=torch.long)

        def run(mode: Any) -> None:
            upload(mode, ("parameter", model.named_parameters()), ("cache", cache.tensors()), ("input", [("tokens", tokens)]))
            mode.step()
            generate(mode, model, cache, tokens, steps, make_routes() if make_routes is not None else None)

        return run

    return workload


def prefill() -> Callable[[Any], None]:
    with shapes(torch.bfloat16):
        model = LanguageModel(SEVEN)

    def run(mode: Any) -> None:
        upload(mode, ("parameter", model.named_parameters()))
        mode.step()
        for _ in range(4):
            cache = PromptCache()
            tokens = torch.empty(1, 2048, dtype=torch.long, device="meta")
            mode.input(tokens)
            model(tokens, cache)
            mode.name(cache.left, "cache")
            del cache, tokens
            mode.step()

    return run


def denoise() -> Callable[[Any], None]:
    # A picture with and without its text, as guidance needs.
    with shapes(torch.float16):
        model = UNet()
        latents, context, added = torch.empty(1, 4, 128, 128), torch.empty(2, 77, UNet.CONTEXT), torch.empty(2, UNet.ADDED)

    def run(mode: Any) -> None:
        upload(mode, ("parameter", model.named_parameters()), ("input", [("latents", latents), ("context", context), ("added", added)]))
        mode.step()
        for _ in range(4):
            with shapes(torch.float16):
                time = torch.empty(2, UNet.CHANNELS[0])
            mode.input(time)
            without, with_text = model(torch.cat([latents, latents]), time, context, added).chunk(2)
            latents.add_(torch.lerp(without, with_text, 7.0), alpha=-0.02)
            del time, without, with_text
            mode.step()

    return run


def in_turn() -> Callable[[Any], None]:
    with shapes(torch.bfloat16):
        parts = [(LanguageModel(sizes), PagedCache(sizes, 1, 256, 512), torch.empty(1, 1, dtype=torch.long)) for sizes in (TINY, ONE)]

    def run(mode: Any) -> None:
        for name, (model, cache, tokens) in zip("AB", parts):
            upload(mode, (f"parameter {name}", model.named_parameters()), (f"cache {name}", cache.tensors()), ("input", [("tokens", tokens)]))
        mode.step()
        for _ in range(3):
            for i, (model, cache, tokens) in enumerate(parts):
                parts[i] = (model, cache, generate(mode, model, cache, tokens, 6))

    return run


TRACES: dict[str, tuple[str, Workload]] = {
    "llama7b_decode_b1": ("Llama-like, 7.2 billion parameters, bfloat16: a token, keys and values copied into longer tensors", decoding(SEVEN, lambda: GrowingCache(SEVEN, 1, 1024), 1, 11)),
    "llama7b_decode_b32": ("the same: a token of each of 32 sequences, keys and values in blocks", decoding(SEVEN, lambda: PagedCache(SEVEN, 32, 1016, 128), 32, 15)),
    "llama7b_prefill_2048": ("the same: a prompt of 2,048 tokens", prefill),
    "sdxl_unet_b2": ("Stable Diffusion XL's U-Net, float16: a step of denoising with guidance, 1024 x 1024", denoise),
    "mixture_64x8_decode": ("mixture of experts, 64 in each of 8 layers, 4 active: a token", decoding(MIXTURE, lambda: PagedCache(MIXTURE, 1, 256, 512), 1, 96, lambda: Routes(MIXTURE, ACTIVE))),
    "two_models_decode": ("two models of 1.1 and 1.5 billion parameters in turn, six tokens each", in_turn),
}


def main() -> None:
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(TRACES):
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name in sys.argv[2:] or TRACES:
        model, workload = TRACES[name]
        run = workload()
        path = os.path.join(folder, f"{name}.jsonl.gz")
        with torch.no_grad(), tt.recording(path, model=model, device="meta") as mode:
            run(mode)
        print(f"{name}: {os.path.getsize(path):,} bytes, {mode.writer.steps} steps, {mode.writer.operators:,} operators", flush=True)


if __name__ == "__main__":
    main()
