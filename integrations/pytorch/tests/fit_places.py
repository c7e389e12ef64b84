# SPDX-License-Identifier: Apache-2.0
"""A place for CPU tensors: copies that PyTorch does not see, so that what is there counts as no memory of the step."""

import ctypes

import torch


class HostCopies:
    def __init__(self) -> None:
        self.left = 0

    def takes(self, tensor: torch.Tensor) -> bool:
        return True

    def settle(self) -> None:
        pass

    def leave(self, alias: torch.Tensor) -> "HostCopy":
        self.left += 1
        return HostCopy(alias)

    def home(self, storage: torch.UntypedStorage) -> "HostHome":
        return HostHome(storage)


class HostCopy:
    def __init__(self, alias: torch.Tensor) -> None:
        self.contents = alias.numpy().tobytes()

    def begin_return(self) -> None:
        pass

    def returned(self) -> torch.UntypedStorage:
        back = torch.empty(len(self.contents), dtype=torch.uint8)
        ctypes.memmove(back.data_ptr(), self.contents, len(self.contents))
        return back.untyped_storage()

    def let_go(self) -> None:
        pass


class HostHome:
    """Of a state. A copy that is on its way back arrives when somebody waits for it: until then others find rubbish."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.tensor = torch.empty(storage.nbytes(), dtype=torch.uint8)
        self._coming: torch.UntypedStorage | None = None

    def copy_out(self, storage: torch.UntypedStorage) -> None:
        ctypes.memmove(self.tensor.data_ptr(), storage.data_ptr(), storage.nbytes())

    def begin_return(self, storage: torch.UntypedStorage) -> None:
        ctypes.memset(storage.data_ptr(), 0xAB, storage.nbytes())
        self._coming = storage

    def finish_return(self) -> None:
        ctypes.memmove(self._coming.data_ptr(), self.tensor.data_ptr(), self._coming.nbytes())
        self._coming = None

    def settle(self) -> None:
        pass
