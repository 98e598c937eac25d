"""
The weights in a pytorch_model.bin.

Knows: torch, where it is installed. A pickle can run any program, so it is only read in torch's mode for weights.
"""

import pickle
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from jobs.errors import ModelError
from worker.models.checkpoint import SAFETENSORS, Weight
from worker.models.registry import refuse_hollow


class PytorchWeights(Mapping[str, Weight]):
    """Weights in one pytorch_model.bin, memory-mapped where its format allows."""

    def __init__(self, tensors: Mapping[str, Any]):
        self._tensors = tensors

    @classmethod
    def open(cls, file: Path) -> Self:
        """Raise ModelError for a damaged file, and where torch is not installed."""
        refuse_hollow(file)
        try:
            import torch
        except ImportError:
            raise ModelError(
                f"{file} can only be read with torch, which is not installed: run `pip install torch`, or take a "
                f"checkpoint with {SAFETENSORS} (on the hub often the revision refs/pr/N that its conversion bot "
                "made: kvjobs models add OWNER/NAME@refs/pr/N)"
            ) from None
        try:
            # Files from before torch 1.6 are no zip archives and cannot be mapped.
            tensors = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
        except (RuntimeError, EOFError, ValueError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ModelError(f"{file} is damaged, or holds more than weights ({reason}): download it again") from error
        if not isinstance(tensors, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
            raise ModelError(f"{file} holds no weights by name: it is not the checkpoint of a model")
        return cls(tensors)

    def __getitem__(self, name: str) -> Weight:
        array: Weight = self._tensors[name].detach().float().numpy()
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
