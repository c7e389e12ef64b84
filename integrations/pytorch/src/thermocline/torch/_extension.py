# SPDX-License-Identifier: Apache-2.0
"""Builds extension.cc against the installed PyTorch, once for each version of both, and puts it in charge. Needs a C++ compiler
and CUDA's headers, which come with PyTorch's CUDA wheels; no nvcc, and no GPU to build."""

from __future__ import annotations

import ctypes
import glob
import hashlib
import os
import shlex
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import torch

from .. import _library

_HERE = Path(__file__).resolve().parent


def _cuda_headers() -> str:
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    # The wheels that PyTorch's CUDA build depends on, beside it; then the toolkit.
    beside = glob.glob(str(Path(torch.__file__).parent.parent / "nvidia" / "cu*"))
    for home in [*filter(None, homes), *sorted(beside, reverse=True), "/usr/local/cuda"]:
        folder = Path(home) / "include"
        if (folder / "cuda_runtime_api.h").exists() and (folder / "cusparse.h").exists():
            return str(folder)
    raise RuntimeError("CUDA's headers (cuda_runtime_api.h, cusparse.h) were not found; CUDA_HOME names their folder")


def _interface() -> str:
    for folder in (_HERE.parent / "native" / "include", *(parent / "include" for parent in _HERE.parents)):
        if (folder / "thermocline" / "thermocline.h").exists():
            return str(folder)
    raise RuntimeError("thermocline/thermocline.h was not found beside this package")


def _command(library: str) -> list[str]:
    root = Path(torch.__file__).parent
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    includes = [root / "include", root / "include" / "torch" / "csrc" / "api" / "include", _cuda_headers(), _interface()]
    return [
        *compiler,
        "-std=c++20",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        *[f"-isystem{folder}" for folder in includes],
        f"-isystem{sysconfig.get_path('include')}",
        str(_HERE / "extension.cc"),
        library,
        f"-L{root / 'lib'}",
        "-lc10",
        "-lc10_cuda",
        "-ltorch_cpu",
        "-ltorch_cuda",
        f"-Wl,-rpath,{root / 'lib'}",
        f"-Wl,-rpath,{os.path.dirname(library)}",
    ]


def build_extension(
    folder: str | os.PathLike[str] | None = None, *, verbose: bool = False, before_building: Callable[[], None] | None = None
) -> str:
    """The path of the compiled extension. It is built where it is not there yet, which takes a minute or two; kept in
    `folder`, else in $XDG_CACHE_HOME/thermocline or ~/.cache/thermocline. enable(extension=True) calls this.
    before_building: called where it has to be built."""
    if torch.version.cuda is None:
        raise RuntimeError(f"this PyTorch ({torch.__version__}) is built without CUDA")
    _library.load()
    command = _command(_library.path())
    known = "\n".join([*command, torch.__version__, (_HERE / "extension.cc").read_text(encoding="utf-8")])
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    where = Path(folder) if folder is not None else Path(cache) / "thermocline"
    built = where / f"torch-extension-{hashlib.sha256(known.encode()).hexdigest()[:16]}.so"
    if built.exists():
        return str(built)
    if before_building is not None:
        before_building()
    where.mkdir(parents=True, exist_ok=True)
    unfinished = built.with_suffix(f".{os.getpid()}")
    if verbose:
        print(shlex.join([*command, "-o", str(unfinished)]), flush=True)
    result = subprocess.run([*command, "-o", str(unfinished)], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"the extension could not be compiled against PyTorch {torch.__version__}:\n{result.stderr}")
    unfinished.rename(built)
    return str(built)


def use_extension(path: str) -> None:
    """Puts it in charge; raises what PyTorch says against that."""
    library = ctypes.CDLL(path)
    library.thermocline_use_extension.restype = ctypes.c_char_p
    reason = library.thermocline_use_extension()
    if reason is not None:
        raise RuntimeError(reason.decode())
