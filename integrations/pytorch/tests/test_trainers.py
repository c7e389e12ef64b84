# SPDX-License-Identifier: Apache-2.0
"""The callbacks for Lightning and for Hugging Face's Trainer, with the real packages: training by them leaves the bits of training without."""

import os
import sys
import tempfile
import unittest
import warnings

sys.path.insert(0, os.path.dirname(__file__))
from fit_steps import same  # first: without PyTorch it skips the test

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import thermocline.torch as tt

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="")
try:
    import lightning.pytorch as lightning
except ImportError:
    lightning = None
try:
    import accelerate  # noqa: F401  without it transformers has no Trainer
    import transformers
except ImportError:
    transformers = None
if lightning is None and transformers is None:
    print("neither lightning nor transformers with accelerate is installed for this Python")
    sys.exit(77)

BATCHES = 12


class Rows(Dataset):
    def __len__(self) -> int:
        return BATCHES * 256

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        row = torch.randn(32, generator=torch.Generator().manual_seed(index))
        return {"x": row, "labels": row.sum()}


def body() -> nn.Sequential:
    return nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.1)) for _ in range(10)], nn.Linear(32, 1))


class Checked(unittest.TestCase):
    def check(self, train) -> None:
        """train(callbacks): the parameters that training leaves."""
        plain = train([])
        for budget in ("60%", "80%"):
            callback = self.callback(budget)
            self.assertTrue(same(plain, train([callback])))
            fitted = callback.batches.fitted
            self.assertIsNotNone(fitted.plan)
            self.assertIsNone(fitted.counts.diverged_at)
            self.assertGreater(fitted.counts.dropped, 0)

    def check_error(self, train) -> None:
        """train(callbacks, fails_at): after an error in a batch, PyTorch is as before, and the callback can be used again."""
        callback = self.callback("70%")
        with self.assertRaisesRegex(RuntimeError, "on purpose"):
            train([callback], fails_at=4)
        plain = train([])
        self.assertTrue(same(plain, train([callback])))


@unittest.skipIf(lightning is None, "lightning is not installed")
class Lightning(Checked):
    def callback(self, budget: str):
        return tt.lightning_callback(budget, min_bytes=256, verbose=False)

    def train(self, callbacks, *, fails_at=-1, **options) -> list[torch.Tensor]:
        class Model(lightning.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.body = body()

            def training_step(self, batch, index):
                if index == fails_at:
                    raise RuntimeError("on purpose")
                return (self.body(batch["x"]).squeeze(1) - batch["labels"]).square().mean()

            def validation_step(self, batch, index):
                self.log("loss", self.body(batch["x"]).square().mean())

            def configure_optimizers(self):
                return torch.optim.AdamW(self.parameters(), lr=1e-3)

        torch.manual_seed(3)
        model = Model()
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
        trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", devices=1, callbacks=callbacks, **quiet, **options)
        trainer.fit(model, DataLoader(Rows(), 256), DataLoader(Rows(), 1024))
        return [p.detach().clone() for p in model.parameters()]

    def test_training(self) -> None:
        self.check(self.train)

    def test_accumulated_clipped_and_validated(self) -> None:
        self.check(lambda callbacks: self.train(callbacks, accumulate_grad_batches=2, gradient_clip_val=0.5, val_check_interval=4))

    def test_half_precision(self) -> None:
        self.check(lambda callbacks: self.train(callbacks, precision="bf16-mixed"))

    def test_an_error_in_a_batch(self) -> None:
        self.check_error(self.train)


@unittest.skipIf(transformers is None, "transformers with accelerate is not installed")
class Transformers(Checked):
    def callback(self, budget: str):
        return tt.transformers_callback(budget, min_bytes=256, verbose=False)

    def train(self, callbacks, *, fails_at=-1, **options) -> list[torch.Tensor]:
        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.body = body()
                self.calls = -1

            def forward(self, x, labels):
                self.calls += 1
                if self.calls == fails_at:
                    raise RuntimeError("on purpose")
                return {"loss": (self.body(x).squeeze(1) - labels).square().mean()}

        torch.manual_seed(3)
        model = Model()
        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.TrainingArguments(
                output_dir=folder, per_device_train_batch_size=256, num_train_epochs=1, use_cpu=True, report_to=[], save_strategy="no",
                disable_tqdm=True, seed=3, logging_strategy="no", **options,
            )  # fmt: skip
            transformers.Trainer(model=model, args=arguments, train_dataset=Rows(), callbacks=callbacks).train()
        return [p.detach().clone() for p in model.parameters()]

    def test_training(self) -> None:
        self.check(self.train)

    def test_accumulated(self) -> None:
        self.check(lambda callbacks: self.train(callbacks, gradient_accumulation_steps=2))

    def test_an_error_in_a_batch(self) -> None:
        self.check_error(self.train)

    def test_gpt2(self) -> None:
        def train(callbacks) -> list[torch.Tensor]:
            torch.manual_seed(3)
            shape = transformers.GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=3, n_head=2)
            model = transformers.GPT2LMHeadModel(shape)
            words = [{"input_ids": (tokens := torch.randint(0, 64, (32,))), "labels": tokens} for _ in range(96)]
            with tempfile.TemporaryDirectory() as folder:
                arguments = transformers.TrainingArguments(
                    output_dir=folder, per_device_train_batch_size=8, num_train_epochs=1, use_cpu=True, report_to=[], save_strategy="no",
                    disable_tqdm=True, seed=3, logging_strategy="no",
                )  # fmt: skip
                transformers.Trainer(model=model, args=arguments, train_dataset=words, callbacks=callbacks).train()
            return [p.detach().clone() for p in model.parameters()]

        self.check(train)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.main()
