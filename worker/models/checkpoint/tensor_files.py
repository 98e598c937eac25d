"""
Tensors in weight files: where each lies, and how it is read.

Knows: bytes, dtypes, strides. Does not know: file formats.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
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


# A network that was saved without its head lacks a prefix in all names; transformers adds it, too. By how some name of
# such a network begins: the prefix. The first that applies counts.
_PREFIXES = {
    "embed_in.": "gpt_neox.",
    "wte.": "transformer.",
    "word_embeddings.": "transformer.",
    "embed_tokens.": "model.",
    "layers.": "model.",
    "shared.": "model.",
    "encoder.": "model.",
    "decoder.": "model.",
}
_HEAD = ("lm_head.", "embed_out.", "final_logits_bias")


# What the parameters of a norm were called in TensorFlow, in old checkpoints of BERT; transformers renames them, too.
_OLD_ENDS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
_T5_BLOCKS = {"encoder.block", "decoder.block"}  # T5's names have no prefix


class StoredWeights(Mapping[str, Weight]):
    """Weights by name. Each access reads one tensor from the disk; none is cached."""

    def __init__(self, tensors: Iterable[StoredTensor]) -> None:
        found = {_new_name(tensor.name): tensor for tensor in tensors}
        prefix = _missing_prefix(found)
        self._tensors = {
            name if name.startswith(_HEAD) else f"{prefix}{name}": tensor for name, tensor in found.items()
        }

    def __getitem__(self, name: str) -> Weight:
        return self._tensors[name].read()

    def __contains__(self, name: object) -> bool:  # Mapping's own reads the tensor
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def _new_name(name: str) -> str:
    for old, new in _OLD_ENDS.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _missing_prefix(names: Collection[str]) -> str:
    """The beginning that all names lack, except the names of the head's tensors; empty: they lack none."""
    beginnings = {f"{name.partition('.')[0]}." for name in names}
    if _T5_BLOCKS & {name.partition(".0.")[0] for name in names}:
        return ""
    prefix = next((prefix for beginning, prefix in _PREFIXES.items() if beginning in beginnings), "")
    return "" if prefix in beginnings else prefix
