# SPDX-License-Identifier: Apache-2.0
"""A store for CPU tensors: copies that PyTorch does not see, so that what is evicted counts as no memory of the step."""

import ctypes

import torch


class HostStore:
    def __init__(self) -> None:
        self.evictions = 0

    def accepts(self, tensor: torch.Tensor) -> bool:
        return True

    def release_copied(self) -> None:
        pass

    def evict(self, alias: torch.Tensor) -> "HostCopy":
        self.evictions += 1
        return HostCopy(alias)

    def host_copy(self, storage: torch.UntypedStorage) -> "HostStateCopy":
        return HostStateCopy(storage)


class HostCopy:
    def __init__(self, alias: torch.Tensor) -> None:
        self.contents = alias.numpy().tobytes()

    def prefetch(self) -> None:
        pass

    def fetch(self) -> torch.UntypedStorage:
        back = torch.empty(len(self.contents), dtype=torch.uint8)
        ctypes.memmove(back.data_ptr(), self.contents, len(self.contents))
        return back.untyped_storage()

    def release(self) -> None:
        pass


class HostStateCopy:
    """The copy of a state on the host. Its copy back is complete when somebody waits for it: until then others find rubbish."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.tensor = torch.empty(storage.nbytes(), dtype=torch.uint8)
        self._coming: torch.UntypedStorage | None = None

    def copy_out(self, storage: torch.UntypedStorage) -> None:
        ctypes.memmove(self.tensor.data_ptr(), storage.data_ptr(), storage.nbytes())

    def prefetch(self, storage: torch.UntypedStorage) -> None:
        ctypes.memset(storage.data_ptr(), 0xAB, storage.nbytes())
        self._coming = storage

    def finish_prefetch(self) -> None:
        ctypes.memmove(self._coming.data_ptr(), self.tensor.data_ptr(), self._coming.nbytes())
        self._coming = None

    def synchronize(self) -> None:
        pass
