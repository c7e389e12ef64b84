# SPDX-License-Identifier: Apache-2.0
"""Steps of models that no trace in bench/traces is of and nothing was tuned for, planned by copies alone and by copies and recomputation.

    python other_models.py THERMOCLINE_COMMAND FOLDER RESULT.json

Records what is not in FOLDER yet, a step of each on shapes alone, and replays it on the device `reference` with 75, 60, 50 and 40 % of its peak,
12 steps, --exact. Each row has the steady step over the time of its operators alone, and over the bound of swapping (docs/bound.md). Needs
torch, torchvision and transformers, no GPU. A quarter of an hour on two cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
import torch
import transformers
import thermocline.torch as tt
from published import Classifier, record

PERCENTS = (75, 60, 50, 40)
# Batch; transformers and their like by AdamW.
CLASSIFIERS = {
    "efficientnet_b0": 64, "mobilenet_v3_large": 128, "mnasnet1_0": 96, "shufflenet_v2_x1_0": 256, "squeezenet1_0": 128,
    "inception_v3": 64, "wide_resnet50_2": 48, "resnext50_32x4d": 64, "convnext_tiny": 64, "swin_t": 64, "vit_b_16": 64, "maxvit_t": 32,
    "alexnet": 256,
}  # fmt: skip
BY_ADAMW = ("convnext_tiny", "swin_t", "vit_b_16", "maxvit_t")


def adamw(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, foreach=False)


def language_models() -> dict[str, tuple[Callable[[], torch.nn.Module], int, int]]:
    """For each model: the function that makes it, the batch, the tokens of a sequence."""
    t = transformers
    llama = {"num_hidden_layers": 12, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "use_cache": False}
    gemma = {"num_hidden_layers": 12, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 64000}
    moe = {"num_hidden_layers": 8, "num_attention_heads": 12, "num_key_value_heads": 4, "vocab_size": 32000, "num_experts": 8}
    return {
        "bert_base": (lambda: t.BertForMaskedLM(t.BertConfig()), 32, 256),
        "llama_small": (lambda: t.LlamaForCausalLM(t.LlamaConfig(hidden_size=1024, intermediate_size=2816, **llama)), 8, 1024),
        "neox": (
            lambda: t.GPTNeoXForCausalLM(
                t.GPTNeoXConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=16, num_attention_heads=16, use_cache=False)
            ),
            4,
            1024,
        ),
        "gemma2": (
            lambda: t.Gemma2ForCausalLM(t.Gemma2Config(hidden_size=1024, intermediate_size=4096, use_cache=False, **gemma)),
            4,
            1024,
        ),
        "t5base": (
            lambda: t.T5ForConditionalGeneration(
                t.T5Config(d_model=768, d_ff=3072, num_layers=12, num_heads=12, decoder_start_token_id=0, use_cache=False)
            ),
            16,
            256,
        ),
        "qwenmoe": (
            lambda: t.Qwen2MoeForCausalLM(
                t.Qwen2MoeConfig(hidden_size=768, intermediate_size=2048, moe_intermediate_size=512, use_cache=False, **moe)
            ),
            8,
            512,
        ),
    }


def record_classifier(name: str, path: str) -> None:
    record(Classifier(name), CLASSIFIERS[name], path, adamw if name in BY_ADAMW else None)


def record_language_model(make: Callable[[], torch.nn.Module], batch: int, tokens: int, path: str) -> None:
    with torch.device("meta"):
        model = make()
        words = torch.empty(batch, tokens, dtype=torch.long)
    tt.record(model, {"input_ids": words, "labels": words}, path, optimizer=adamw)


def replay(command: str, path: str, percent: int, policy: str) -> dict[str, Any]:
    terms = ["--budget", f"{percent}%peak", "--exact", "--policy", policy, "--steps", "12", "--json"]
    done = subprocess.run([command, "replay", path, *terms], capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"other_models.py: {path}: {done.stderr}")
    return json.loads(done.stdout)


def row_of(command: str, path: str, name: str, percent: int) -> dict[str, Any]:
    row: dict[str, Any] = {"workload": name, "budget_percent": percent}
    for policy in ("swap", "joint"):
        result = replay(command, path, percent, policy)
        done = result["outcome"] == "ok"
        row[f"{policy}_over_compute"] = round(result["steady_step_ms"] / result["compute_step_ms"], 4) if done else None
        row[f"{policy}_races"] = result["races"]
        if done and policy == "swap" and result["bound_ms"]:
            row["swap_over_bound"] = round(result["steady_step_ms"] / result["bound_ms"], 4)
    return row


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    command, folder, result = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    makers = {name: lambda path, name=name: record_classifier(name, path) for name in CLASSIFIERS}
    for name, terms in language_models().items():
        makers[name] = lambda path, terms=terms: record_language_model(*terms, path)
    rows = []
    for name, make in makers.items():
        path = os.path.join(folder, f"{name}.jsonl.gz")
        if not os.path.exists(path):
            make(path)
        for percent in PERCENTS:
            rows.append(row_of(command, path, name, percent))
            print(rows[-1], flush=True)
    about = {
        "schema": "thermocline-other-models/1",
        "device": "reference",
        "how": "python integrations/pytorch/reproduction/other_models.py THERMOCLINE_COMMAND FOLDER RESULT.json",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    with open(result, "w", encoding="utf-8") as file:
        file.write(json.dumps(about)[:-1] + ', "rows": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
