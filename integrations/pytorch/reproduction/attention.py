# SPDX-License-Identifier: Apache-2.0
"""The largest batch of a translation model in 12 GB, with additive attention whose intermediate results are kept and with memory-efficient
attention, which makes them again, as in Table 2 of Meng et al. (2017): from traces with alternatives (docs/recording.md), by the peak of each.

    python attention.py THERMOCLINE_COMMAND RESULT.json

Needs torch, no GPU. The paper does not give the sizes of its model. This one has an encoder and a decoder of one LSTM of a width of 1024 each,
and 10,000 words: the growth with the length of sentences may be compared, and not single batches. Four minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
import torch
import thermocline.torch as tt
from thermocline.torch import _recording
from thermocline.torch._alternatives import AttentionAlternatives
from torch.nn import functional

DEVICE, MEMORY = "m40-12g", 12 * 2**30
WIDTH, WORDS = 1024, 10000
# Published batches without and with memory-efficient attention, by words of a sentence.
TRANSLATION = {50: (350, 1100), 100: (90, 550), 200: (20, 230), 400: (2, 60)}
FEW, MANY = 32, 64


def kept(query: torch.Tensor, keys: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Bahdanau's: query (batch, 1, width), keys (batch, words, width). Backward needs tanh's result, which is as large as the keys."""
    scores = torch.tanh(query + keys) @ weight
    return torch.bmm(torch.softmax(scores, 1).unsqueeze(1), keys)


class MadeAgain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*inputs)
        return kept(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
        inputs = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
        with torch.enable_grad():
            out = kept(*inputs)
        return torch.autograd.grad(out, inputs, gradient)


class Translation(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Linear(WIDTH, WORDS)
        self.encoder, self.decoder = torch.nn.LSTMCell(WIDTH, WIDTH), torch.nn.LSTMCell(2 * WIDTH, WIDTH)
        self.weight = torch.nn.Parameter(torch.empty(WIDTH))

    def forward(self, sentences: torch.Tensor) -> torch.Tensor:
        attention = AttentionAlternatives(_recording._entered[-1])
        words = self.words(sentences)
        state = (torch.zeros_like(words[:, 0]), torch.zeros_like(words[:, 0]))
        encoded = []
        for i in range(words.shape[1]):
            state = self.encoder(words[:, i], state)
            encoded.append(state[0])
        keys = torch.stack(encoded, 1)
        losses = []
        for i in range(words.shape[1]):
            ways = {"again": MadeAgain.apply, "kept": kept}
            context = attention(ways, (state[0].unsqueeze(1), keys, self.weight))
            state = self.decoder(torch.cat([words[:, i], context[:, 0]], 1), state)
            losses.append(functional.cross_entropy(self.head(state[0]), sentences[:, i]))
        return torch.stack(losses).sum()


def peaks(command: str, path: str, batch: int, words: int) -> dict[str, int]:
    """Bytes at the peak of a step by alternative."""
    with torch.device("meta"):
        model, sentences = Translation(), torch.empty(batch, words, dtype=torch.long)
    momentum = {"lr": 0.1, "momentum": 0.9, "foreach": False}
    tt.record(model, sentences, path, optimizer=lambda p: torch.optim.SGD(p, **momentum), steps=2)
    found = {}
    for name in ("kept", "again"):
        terms = ["--device", DEVICE, "--budget", "100%", "--alternatives", name, "--json"]
        done = subprocess.run([command, "bound", path, *terms], capture_output=True, text=True, check=True)
        found[name] = json.loads(done.stdout)["peak_live_bytes"]
    return found


def row_of(command: str, path: str, words: int, published: tuple[int, int]) -> dict[str, Any]:
    few, many = (peaks(command, path, batch, words) for batch in (FEW, MANY))
    # The peak is a constant and a part for each sentence.
    batches = {}
    for name, bytes_of_few in few.items():
        each = (many[name] - bytes_of_few) / (MANY - FEW)
        batches[name] = int((MEMORY - (bytes_of_few - FEW * each)) / each)
    return {
        "words": words,
        "published": published,
        "published_factor": round(published[1] / published[0], 1),
        "largest_batch": [batches["kept"], batches["again"]],
        "factor": round(batches["again"] / batches["kept"], 1),
    }


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    command, result = sys.argv[1:]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for words, published in TRANSLATION.items():
            rows.append(row_of(command, os.path.join(folder, "step.jsonl.gz"), words, published))
            print(rows[-1], flush=True)
    about = {
        "schema": "thermocline-attention/1",
        "device": DEVICE,
        "memory_bytes": MEMORY,
        "how": "python integrations/pytorch/reproduction/attention.py THERMOCLINE_COMMAND RESULT.json",
        "torch": torch.__version__,
    }
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    with open(result, "w", encoding="utf-8") as file:
        file.write(json.dumps(about)[:-1] + ', "rows": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
