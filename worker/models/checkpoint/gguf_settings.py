"""
The settings of the network in a GGUF file: the keys of its metadata that begin with the name of its architecture.

Knows: the form of values. Does not know: what an architecture computes.
"""

import math
from typing import Any

import numpy as np

from jobs.errors import ModelError
from worker.models.checkpoint.gguf_file import GgufFile

_MAX_SIZE = 1 << 32
_NUM_SHOWN = 3  # names in an error message


class NoGraphsError(ModelError):
    """The file may be whole and sound, but no graphs are built of such a model."""


class GgufSettings:
    """Settings by their keys without the architecture. Methods raise ModelError for a value that is missing or of
    another form."""

    def __init__(self, file: GgufFile) -> None:
        """Raises ModelError where the file holds no whole model."""
        self.file = file
        self.architecture = _whole_architecture(file)
        self._prefix = f"{self.architecture}."
        self._read: set[str] = set()

    def get(self, key: str) -> Any:
        """The value, None where there is none."""
        self._read.add(key)
        return self.file.metadata.get(self._prefix + key)

    def optional_size(self, key: str) -> int | None:
        """A size above 0, or one for each layer that are all the same."""
        value = self.get(key)
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if value is not None and (type(value) is not int or not 0 < value < _MAX_SIZE):
            raise self._wrong(key, value, "a size")
        return value

    def size(self, key: str, default: int | None = None) -> int:
        value = self.optional_size(key)
        if value is None and default is None:
            raise ModelError(f"{self.file.path} has no {self._prefix}{key}: it is damaged; download it again")
        return value or default or 0

    def per_layer(self, key: str) -> list[int]:
        """A count for all layers, or one for each, which may be 0; empty where the file has none."""
        value = self.get(key)
        counts = value if isinstance(value, list) else [value]
        if value is None:
            return []
        if not counts or not all(type(count) is int and 0 <= count < _MAX_SIZE for count in counts):
            raise self._wrong(key, value, "a size")
        return counts

    def number(self, key: str, default: float | None = None) -> float:
        """A number above 0."""
        value = self.get(key)
        value = default if value is None else value
        if type(value) is not float or not 0 < value < math.inf:
            raise self._wrong(key, value, "a positive number")
        return float(str(np.float32(value)))  # 1e-06 instead of 9.999999974752427e-07: the same float32

    def has(self, tensor: str) -> bool:
        """Whether the file has a tensor of this name."""
        return tensor in self.file.tensors

    def begins(self, *keys: str) -> bool:
        """Whether there is a key that begins with one of `keys`."""
        return any(key.startswith(tuple(self._prefix + start for start in keys)) for key in self.file.metadata)

    def refuse_unread(self, harmless: dict[str, Any]) -> None:
        """Raise NoGraphsError for settings that nobody has read. `harmless`: values that change nothing; None: any."""
        found = {
            key.removeprefix(self._prefix): value
            for key, value in self.file.metadata.items()
            if key.startswith(self._prefix)
        }
        unknown = sorted(
            f"{self._prefix}{key} = {value!r:.40}"
            for key, value in found.items()
            if key not in self._read and (key not in harmless or harmless[key] not in (None, value))
        )
        if unknown:
            raise NoGraphsError(
                f"{self.file.path} has settings that are not supported ({listed(unknown)}), and may compute something "
                "else than the graph would: add the checkpoint that it was made from"
            )

    def _wrong(self, key: str, value: Any, what: str) -> ModelError:
        return ModelError(f"{self.file.path} says {self._prefix}{key} = {value!r:.60}, which is not {what}")


def listed(names: list[str]) -> str:
    """The first few, and how many more there are."""
    more = len(names) - _NUM_SHOWN
    return ", ".join(names[:_NUM_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _whole_architecture(file: GgufFile) -> str:
    """The architecture of a file that holds a whole model."""
    kind = file.metadata.get("general.type", "model")
    if kind != "model":
        raise ModelError(f"{file.path} holds no whole model (general.type is {kind!r:.40}): name the file of the model")
    if (num_files := file.metadata.get("split.count", 0)) not in (0, 1):
        raise ModelError(
            f"{file.path} is one of {num_files!r:.40} parts of a model: join them with `llama-gguf-split --merge`, and "
            "add the result"
        )
    architecture = file.metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture.isprintable() or not 0 < len(architecture) <= 64:
        raise ModelError(f"{file.path} names no architecture (general.architecture): it is damaged; download it again")
    if "token_embd.weight" not in file.tensors:
        raise ModelError(f"{file.path} has no tensor token_embd.weight: it holds no whole model (a vocabulary alone?)")
    return architecture
