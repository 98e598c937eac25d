"""
Sizes that an exported graph and its configuration both may give, and the float type of a tensor.

Knows: the graph decides; a configuration fills what the graph leaves open. Does not know: which tensors a layout has.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobs.errors import ModelError
from worker.models.layout.graph_signature import GraphSignature, Tensor

_FLOATS: dict[str, np.dtype[Any]] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(float16)": np.dtype(np.float16),
}


@dataclass(frozen=True, slots=True)
class ConfiguredSize:
    """A size in a configuration."""

    file: str  # of the configuration, for messages
    key: str
    value: int | None  # None: not given


def axis_size(graph: GraphSignature, tensor: Tensor, axis: int, configured: ConfiguredSize) -> int:
    """The size of an axis: as the graph gives it, else as configured. Raises ModelError if neither does."""
    size = tensor.shape[axis]
    if isinstance(size, int):
        return size
    if configured.value is None:
        raise ModelError(
            f"neither {graph.file} ({tensor.name} is {list(tensor.shape)}) nor {configured.file} ({configured.key}) "
            "gives the size: export the model again, with its config.json"
        )
    return int(configured.value)


def agreed_axis_size(graph: GraphSignature, tensor: Tensor, axis: int, configured: ConfiguredSize) -> int:
    """As `axis_size`. Raises ModelError also if the graph and the configuration give different sizes."""
    size = tensor.shape[axis]
    if isinstance(size, int) and configured.value is not None and configured.value != size:
        raise ModelError(
            f"{graph.file} has {tensor.name} as {list(tensor.shape)}, but {configured.file} says {configured.key} = "
            f"{configured.value}: the files belong to different models"
        )
    return axis_size(graph, tensor, axis, configured)


def check_layers(graph: GraphSignature, layers: Collection[int], configured: ConfiguredSize) -> None:
    """Raise ModelError unless `layers`, those that the graph takes a past of, are all from 0 on, and as many as the
    configuration says."""
    if {*layers} != {*range(len(layers))}:
        missing = min({*range(max(layers))} - {*layers})
        raise ModelError(f"{graph.file} has past inputs for layer {max(layers)}, but none for layer {missing}")
    if configured.value not in (None, len(layers)):
        raise ModelError(
            f"{graph.file} has past inputs for {len(layers)} layers, but {configured.file} says {configured.key} = "
            f"{configured.value}: the files belong to different models"
        )


def float_type(graph: GraphSignature, tensor: Tensor) -> np.dtype[Any]:
    """The type of a tensor; raises ModelError for any but float and float16."""
    if tensor.type not in _FLOATS:
        raise ModelError(f"{graph.file} has {tensor.name} as {tensor.type}; supported are float and float16")
    return _FLOATS[tensor.type]
