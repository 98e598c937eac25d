"""
Tensors in weight files: where each lies, and how it is read.

Knows: bytes, dtypes, strides. Does not know: file formats.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError

Weight = NDArray[np.float32]

# By their names in safetensors. numpy has no bf16: its 16 bits are read as they are, the upper half of a float32.
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """The place of a tensor in a file."""

    file: Path
    name: str
    dtype: str  # its name in safetensors; may be one that cannot be read
    shape: tuple[int, ...]
    offset: int  # bytes from the start of the file
    strides: tuple[int, ...] | None = None  # in elements; None: row-major

    def read(self) -> Weight:
        """A copy as float32; raise ModelError for a dtype that cannot be read and for a file that is too short."""
        if self.dtype not in DTYPES:
            raise ModelError(
                f"{self.file} holds {self.name} as {self.dtype}, and only {', '.join(DTYPES)} can be read: take the "
                "checkpoint that was not quantized"
            )
        count = math.prod(self.shape)
        if self.strides is not None and count:
            count = 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        try:
            stored = np.fromfile(self.file, DTYPES[self.dtype], count, offset=self.offset)
        except OSError as error:
            raise ModelError(f"{self.file} cannot be read: {error.strerror}") from error
        if len(stored) != count:
            raise ModelError(f"{self.file} ends within {self.name}: it is incomplete; download it again")
        if self.dtype == "BF16":
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        weight: Weight = stored.astype(np.float32, copy=False)
        if self.strides is None or not count:
            return weight.reshape(self.shape)
        steps = [stride * weight.itemsize for stride in self.strides]
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(weight, self.shape, steps))


_BASE = ("embed_tokens.", "layers.", "shared.", "encoder.")
_HEAD = ("lm_head.", "final_logits_bias")


class StoredWeights(Mapping[str, Weight]):
    """Weights by name. Each access reads one tensor from the disk; none is cached."""

    def __init__(self, tensors: Iterable[StoredTensor]) -> None:
        found = {tensor.name: tensor for tensor in tensors}
        # In a network that was saved without its head, names lack the prefix `model.`; transformers adds it, too.
        is_base = any(name.startswith(_BASE) for name in found) and not any(name.startswith("model.") for name in found)
        self._tensors = {
            f"model.{name}" if is_base and not name.startswith(_HEAD) else name: tensor
            for name, tensor in found.items()
        }

    def __getitem__(self, name: str) -> Weight:
        return self._tensors[name].read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
