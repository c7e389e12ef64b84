# SPDX-License-Identifier: Apache-2.0
"""The arguments of fit(), checked before anything runs. The library's command reads budgets and names of devices: here it is asked about a
step of known size, so that a text means the same everywhere."""

from __future__ import annotations

import inspect
import operator
import os
import tempfile
from dataclasses import dataclass
from typing import Any

import torch

from . import _command
from ._states import States

PLANS = ("joint", "recompute", "swap", "sqrt")
# A part of this many bytes is a whole number of them: the command reads percentages to six decimals.
_WHOLE = 10**12
_WRITE = "; write a number of bytes, '12GiB', or '50%' of what the step needs whole"
_STEP = (
    '{"schema":"thermocline-trace/1"}',
    f'{{"e":"alloc","b":0,"n":{_WHOLE}}}',
    '{"e":"op","k":"probe","r":[],"w":[0],"flops":0,"bytes":0}',
    '{"e":"step","i":0}',
)


@dataclass(frozen=True)
class Budget:
    """Bytes, or a part of what a step needs whole."""

    count: int  # of bytes
    of_bytes: int  # the whole that `count` is a part of; 0: `count` is what it is

    def bytes_of(self, whole_peak_bytes: int) -> int:
        return whole_peak_bytes * self.count // self.of_bytes if self.of_bytes else self.count


def quantity(count: int, one: str, many: str = "") -> str:
    """'1 kernel', '2 kernels'. Without `many`: `one` with an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def checked_budget(budget: Any, device: str) -> Budget:
    """Raises TypeError and ValueError in a line that says what to write instead; FileNotFoundError without the command."""
    if not isinstance(device, str):
        raise TypeError(f"device: the name of a profile (`thermocline devices` lists them), not {type(device).__name__}")
    text = budget.strip() if isinstance(budget, str) else str(_whole_number(budget))
    if not text:
        raise ValueError(f"budget: the text is empty{_WRITE}")
    if isinstance(budget, str) and text.isdecimal() and int(text):
        meant = f"'{text}%' of what the step needs whole, '{text}GiB', or the int {text} for bytes"
        raise ValueError(f"budget: '{text}' has no unit; write {meant}")
    with tempfile.TemporaryDirectory(prefix="thermocline-fit-") as folder:
        trace = os.path.join(folder, "step.jsonl")
        with open(trace, "w", encoding="utf-8") as file:
            file.write("\n".join(_STEP) + "\n")
        # With "=": a text that begins with "-" is a budget, too, and no option.
        try:
            answer = _command.plan(trace, f"--budget={text}", f"--device={device}")
        except ValueError as error:
            raise ValueError(str(error) if "budget: " not in str(error) else f"{str(error).partition('; write')[0]}{_WRITE}") from None
    is_part = "%" in text and not text.lower().endswith("device")
    return Budget(answer["budget_bytes"], _WHOLE if is_part else 0)


def _whole_number(budget: Any) -> int:
    if not isinstance(budget, (bool, torch.Tensor)):
        try:
            count = operator.index(budget)
        except TypeError:
            pass
        else:
            if count <= 0:
                raise ValueError(f"budget: more than 0 bytes are needed, not {count}")
            return count
    raise TypeError(f"budget: bytes, or a text such as '12GiB' or '50%' of what the step needs whole; not {type(budget).__name__}")


def check_step(step_or_model: Any, has_inputs: bool, loss: Any) -> None:
    """Raises TypeError and ValueError for what is no step, and for a loss that nobody would call."""
    is_module = isinstance(step_or_model, torch.nn.Module)
    if isinstance(step_or_model, type):
        raise TypeError(f"step_or_model: {step_or_model.__name__} is a class; give an instance of it, or a function that does a step")
    if not callable(step_or_model):
        raise TypeError(f"step_or_model: a torch.nn.Module, or a function that does a step, not {type(step_or_model).__name__}")
    if loss is None:
        return
    if not callable(loss):
        raise TypeError(f"loss: a function of (outputs, *inputs), not {type(loss).__name__}")
    if not is_module or not has_inputs:
        given = "inputs are not given" if is_module else "a step function has its own"
        raise ValueError(f"loss: only the trial of a module with its inputs asks for it, and {given}; leave it out")


def check_keywords(step_or_model: Any, keywords: dict[str, Any]) -> None:
    """Raises TypeError for a name that is neither an option of fit() nor an input."""
    if not keywords:
        return
    function = step_or_model.forward if isinstance(step_or_model, torch.nn.Module) else step_or_model
    try:
        taken = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return  # a callable that does not say
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken):
        return
    names = {parameter.name for parameter in taken if parameter.kind is not parameter.POSITIONAL_ONLY}
    for name in keywords:
        if name not in names:
            of = f"{type(step_or_model).__name__}.forward" if isinstance(step_or_model, torch.nn.Module) else "the step"
            takes = ", ".join(sorted(names)) or "none by name"
            raise TypeError(f"{name}: neither an option of thermocline.torch.fit nor an input of {of}, which takes {takes}")


def check_plans(plans: Any, store: Any, min_bytes: Any) -> None:
    """Raises TypeError and ValueError. store: None where there is no memory to offload to."""
    if plans not in PLANS:
        raise ValueError(f"plans: {plans!r} is none of {', '.join(PLANS)}")
    if store is None and plans in ("joint", "swap"):
        why = "there is nowhere to offload to (PyTorch finds no GPU)"
        raise ValueError(f"plans: '{plans}' offloads, and {why}; write 'recompute', or give a store")
    missing = [name for name in ("accepts", "evict", "release_copied") if store is not None and not callable(getattr(store, name, None))]
    if missing:
        raise TypeError(f"store: an object such as thermocline.torch.PinnedStore(); {type(store).__name__} has no {missing[0]}()")
    if isinstance(min_bytes, bool) or not isinstance(min_bytes, int):
        raise TypeError(f"min_bytes: a number of bytes as an int, not {type(min_bytes).__name__}")
    if min_bytes < 0:
        raise ValueError(f"min_bytes: no less than 0, not {min_bytes}")


def checked_states(states: Any, store: Any, plans: str, min_bytes: int, *, cpu_step: bool | str) -> States | None:
    """Raises TypeError and ValueError. None: nothing is to move."""
    if cpu_step not in (False, True, "auto"):
        raise ValueError(f"cpu_step: {cpu_step!r} is none of False, True, 'auto'")
    sources = [states] if isinstance(states, (torch.nn.Module, torch.optim.Optimizer, torch.Tensor)) else states
    if not isinstance(sources, (tuple, list)):
        raise TypeError(f"states: a module, an optimizer or a tensor, or a list of such, not {type(states).__name__}")
    for source in sources:
        if not isinstance(source, (torch.nn.Module, torch.optim.Optimizer, torch.Tensor)):
            raise TypeError(f"states: a module, an optimizer or a tensor, or a list of such; it has a {type(source).__name__}")
    if cpu_step == "auto" and not any(isinstance(source, torch.optim.Optimizer) for source in sources):
        raise ValueError("cpu_step: 'auto' chooses where an optimizer's step runs, and `states` names no optimizer; write states=[model, optimizer]")
    if not sources and cpu_step:
        raise ValueError("cpu_step: the optimizer finds in host memory what `states` names, and it names nothing; write states=model")
    if not sources:
        return None
    if plans not in ("joint", "swap"):
        raise ValueError(f"states: they move to host memory, and plans='{plans}' moves nothing; write 'joint' or 'swap'")
    if not callable(getattr(store, "host_copy", None)):
        raise TypeError(f"states: a store that has host_copy(), such as thermocline.torch.PinnedStore(); {type(store).__name__} has none")
    return States(list(sources), store, min_bytes, cpu_step=cpu_step)
