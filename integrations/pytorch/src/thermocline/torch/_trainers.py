# SPDX-License-Identifier: Apache-2.0
"""fit() for trainers that own the loop: callbacks that enter it around forward and backward of each batch, and leave it before the optimizer."""

from __future__ import annotations

from typing import Any

import torch

from ._fit import Fit, fit


class _Batches:
    """The batches of one training run. fitted: made at its first batch."""

    def __init__(self, budget: int | str, options: dict[str, Any]) -> None:
        self._budget, self._options = budget, options
        self._is_entered = False
        self.fitted: Fit | None = None

    def begin(self, model: torch.nn.Module) -> None:
        self.end(RuntimeError("the batch before did not end"))  # of a run that an error ended
        if self.fitted is None:
            self.fitted = fit(model, budget=self._budget, **self._options)
        self.fitted.__enter__()
        self._is_entered = True

    def end(self, error: BaseException | None = None) -> None:
        if self._is_entered:
            self._is_entered = False
            self.fitted.__exit__(type(error) if error else None, error, None)


def lightning_callback(budget: int | str, **options: Any) -> Any:
    """``Trainer(callbacks=[thermocline.torch.lightning_callback("50%")])``. options: as of fit(). `.batches.fitted` is what fit() made."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class ThermoclineCallback(Callback):
        def __init__(self) -> None:
            self.batches = _Batches(budget, options)

        def on_train_batch_start(self, trainer: Any, pl_module: Any, *_rest: Any) -> None:
            self.batches.begin(pl_module)

        def on_before_optimizer_step(self, *_rest: Any) -> None:
            self.batches.end()

        def on_train_batch_end(self, *_rest: Any) -> None:  # where gradients are accumulated, no optimizer runs
            self.batches.end()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self.batches.end(exception)

    return ThermoclineCallback()


def transformers_callback(budget: int | str, **options: Any) -> Any:
    """``Trainer(callbacks=[thermocline.torch.transformers_callback("50%")])``. options: as of fit(). `.batches.fitted` is what fit() made."""
    from transformers import TrainerCallback

    class ThermoclineCallback(TrainerCallback):
        def __init__(self) -> None:
            self.batches = _Batches(budget, options)

        def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_rest: Any) -> None:
            self.batches.begin(model)

        def on_substep_end(self, args: Any, state: Any, control: Any, model: Any = None, **_rest: Any) -> None:
            self.batches.end()
            self.batches.begin(model)  # the next batch of those whose gradients are accumulated

        def on_pre_optimizer_step(self, *_rest: Any, **_named: Any) -> None:
            self.batches.end()

        def on_step_end(self, *_rest: Any, **_named: Any) -> None:
            self.batches.end()

    return ThermoclineCallback()
