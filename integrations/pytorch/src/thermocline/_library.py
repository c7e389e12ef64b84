# SPDX-License-Identifier: Apache-2.0
"""The C interface (include/thermocline/thermocline.h) by ctypes, looked up in this process first: a second copy of the
library beside a preloaded one would manage nothing. load() opens one where there is none."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

_NAMES = {"thermocline": 0, "pytorch": 1, "tensorflow": 2}
_REASONS = {
    1: "invalid value",
    2: "out of memory",
    600: "there is no room yet",
    801: "the library does not see what is submitted: it was not preloaded",
    3: "no device memory is managed yet, or any more",
    999: "the bookkeeping does not hold",
}
_Visitor = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_void_p)
_OutOfMemory = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)


class NotLoadedError(RuntimeError):
    """The library is not in this process."""

    def __init__(self) -> None:
        super().__init__("libthermocline.so.1 is not in this process; start it with: thermocline run -- python ...")


class NotFoundError(RuntimeError):
    """There is no library to open."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"libthermocline.so.1 is not in this process, and not at {where}: install the wheel that carries it, "
            "or start the program with: thermocline run -- python ..."
        )


class ThermoclineError(RuntimeError):
    """The library refused; ``code`` is a CUresult."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function}: {_REASONS.get(code, 'CUDA error')} ({code})")
        self.code = code


class _Where(ctypes.Structure):
    """Dl_info."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


_found: ctypes.CDLL | None = None


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    library.thermocline_version.restype = ctypes.c_char_p
    library.thermocline_visit_statistics.argtypes = [ctypes.c_int, _Visitor, ctypes.c_void_p]
    library.thermocline_set_out_of_memory_callback.argtypes = [_OutOfMemory, ctypes.c_void_p]
    library.thermocline_raise_with.argtypes = [ctypes.c_void_p]
    library.thermocline_raise_with.restype = None
    library.thermocline_tag_buffer.argtypes = [ctypes.c_uint64, ctypes.c_char_p]
    for name in ("pin", "evict", "prefetch"):
        getattr(library, f"thermocline_{name}").argtypes = [ctypes.c_uint64]
    return library


def _find() -> ctypes.CDLL | None:
    global _found
    if _found is None:
        process = ctypes.CDLL(None)
        _found = _declare(process) if hasattr(process, "thermocline_version") else None
    return _found


def _packaged() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "native", "lib", "libthermocline.so.1")


def load(path: str | None = None) -> ctypes.CDLL:
    """The library: the one in this process, else the one at `path`, else the one that this package carries. Opened so, it
    sees nothing of what is submitted, and moves nothing to the host by itself."""
    global _found
    if _find() is None:
        where = path or _packaged()
        if not os.path.exists(where):
            raise NotFoundError(where)
        _found = _declare(ctypes.CDLL(where))
    return _library()


def path() -> str:
    """The file of the library in this process."""
    where = _Where()
    address = ctypes.cast(_library().thermocline_version, ctypes.c_void_p)
    if ctypes.CDLL(None).dladdr(address, ctypes.byref(where)) == 0:
        raise NotLoadedError
    return os.fsdecode(where.file)


def _library() -> ctypes.CDLL:
    library = _find()
    if library is None:
        raise NotLoadedError
    return library


def _call(name: str, *arguments: object) -> None:
    code = getattr(_library(), name)(*arguments)
    if code != 0:
        raise ThermoclineError(name, code)


def is_loaded() -> bool:
    """Whether the library is in this process."""
    return _find() is not None


def is_active() -> bool:
    """Whether it manages device memory: from the first allocation on."""
    return _find() is not None and _library().thermocline_is_active() == 1


def version() -> str:
    """The library's, such as "0.1.0"."""
    return _library().thermocline_version().decode()


def statistics(names: str = "thermocline") -> dict[str, int]:
    """Every number of one moment, by name: the library's own, or those that "pytorch" (torch.cuda.memory_stats) or
    "tensorflow" (AllocatorStats) give the same thing. Bytes and counts."""
    if names not in _NAMES:
        raise ValueError(f"names: '{names}' is none of {', '.join(_NAMES)}")
    found: dict[str, int] = {}

    def visit(name: bytes, value: int, _user: int | None) -> None:
        found[name.decode()] = value

    _call("thermocline_visit_statistics", _NAMES[names], _Visitor(visit), None)
    return found


def reset_peaks() -> None:
    """Every peak becomes what is so now."""
    _call("thermocline_reset_peaks")


def sees_operations() -> bool:
    """Whether copies and launches pass through the library: it was preloaded. Otherwise it moves nothing by itself."""
    return _find() is not None and _library().thermocline_sees_operations() == 1


def evict(device_address: int) -> None:
    """Nobody uses the buffer at the address for a while: it leaves as soon as its uses have passed, and its memory goes
    to whoever needs some. The next use brings it back."""
    _call("thermocline_evict", device_address)


def prefetch(device_address: int) -> bool:
    """It is used again soon, and begins to come back. False: there is no room yet."""
    code = _library().thermocline_prefetch(device_address)
    if code not in (0, 600):
        raise ThermoclineError("thermocline_prefetch", code)
    return code == 0


def step() -> None:
    """A step of the program's iteration ends here. Never needed: equal steps are recognized without it."""
    _call("thermocline_step")


def trim() -> None:
    """Gives device and host memory that is held but not used back to the driver."""
    _call("thermocline_trim")


class _SleepReport(ctypes.Structure):
    """thermocline_sleep_report."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("device_bytes_before", ctypes.c_uint64),
        ("device_bytes", ctypes.c_uint64),
        ("pinned_bytes", ctypes.c_uint64),
        ("external_bytes", ctypes.c_uint64),
        ("in_use_bytes", ctypes.c_uint64),
        ("no_host_bytes", ctypes.c_uint64),
        ("other_bytes", ctypes.c_uint64),
        ("asleep_bytes", ctypes.c_uint64),
        ("copied_bytes", ctypes.c_uint64),
        ("untagged_bytes", ctypes.c_uint64),
    ]


def _sleep_or_wake(name: str, tag: str | None) -> dict[str, int]:
    report = _SleepReport(size=ctypes.sizeof(_SleepReport))
    if tag is None:
        _call(name, ctypes.byref(report))
    else:
        _call(f"{name}_tag", tag.encode(), ctypes.byref(report))
    return {field: getattr(report, field) for field, _ in report._fields_[1:]}


def tag(name: str | None) -> None:
    """Names what this thread allocates from now on, for recordings and for sleep: "weights", "kv". None removes the name."""
    _call("thermocline_tag", (name or "").encode())


def tag_buffer(device_address: int, name: str | None) -> None:
    """Names the buffer at the address until it is freed, for sleep. None removes its name."""
    _call("thermocline_tag_buffer", device_address, (name or "").encode())


def sleep(tag: str | None = None) -> dict[str, int]:
    """Gives the device memory to others while the program does nothing: whatever may leave the device does, after the
    work submitted so far; with a tag, only what has it. Each use brings back what it needs. The numbers say what stays,
    and why."""
    return _sleep_or_wake("thermocline_sleep", tag)


def wake(tag: str | None = None) -> dict[str, int]:
    """Brings back what is asleep, as far as there is free memory, and waits for it; with a tag, only what has it."""
    return _sleep_or_wake("thermocline_wake", tag)


def pin(device_address: int) -> None:
    """Brings the buffer at the address to the device and keeps it there until it is freed: for memory that is used
    in ways that the library can not see, such as from another process."""
    _call("thermocline_pin", device_address)


_callback: object = None  # the library keeps the address only


def on_out_of_memory(callback: Callable[[str], None] | None) -> None:
    """Calls ``callback(report)`` whenever something is refused for want of memory, on the thread that asked; None
    takes it back. What it raises is printed, and goes no further."""
    global _callback
    function = _OutOfMemory(lambda report, _user: callback(report.decode())) if callback else _OutOfMemory()
    _call("thermocline_set_out_of_memory_callback", function, None)
    _callback = function
