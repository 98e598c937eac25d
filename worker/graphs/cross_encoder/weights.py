"""
The tensors of a cross-encoder by their role, checked against the sizes of its network.

Knows: the tensor names of its family. Does not know: graphs.

Shapes: V vocabulary · D width · F inner width · H head size.
"""

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.graphs.checkpoint_weights import Weights
from worker.graphs.cross_encoder.families import names_of
from worker.graphs.cross_encoder.network import EncoderNetwork

Array = NDArray[np.float32]


class CrossEncoderWeights:
    """Each method loads its tensors from the checkpoint."""

    def __init__(self, weights: Weights, network: EncoderNetwork) -> None:
        self._weights = weights
        self._network = network
        self._names = names_of(network)

    def tokens(self) -> Array:
        """(V, D)."""
        return self._get(f"{self._names.tokens}.weight", self._network.vocab_size, self._network.width)

    def positions(self) -> Array:
        """(max_positions, D): the rows of the table for positions 0, 1, 2 ..."""
        network, first = self._network, self._network.first_position or 0
        table = self._get(f"{self._names.positions}.weight", first + network.max_positions, network.width)
        return np.ascontiguousarray(table[first:])

    def types(self) -> Array:
        """(types, D)."""
        return self._get(f"{self._names.types}.weight", self._network.token_types, self._network.width)

    def norm(self, name: str) -> tuple[Array, Array | None]:
        """Scale and bias (D,) of a normalization; None: it has no bias. `name`: of the checkpoint."""
        width, has_bias = self._network.width, self._network.norm_bias
        return self._get(f"{name}.weight", width), self._get(f"{name}.bias", width) if has_bias else None

    def qkv(self, block: int) -> tuple[Array, Array | None]:
        """(3 D, D) and (3 D,): queries, keys and values."""
        width, names = self._network.width, [name.format(block) for name in self._names.qkv]
        rows = 3 * width // len(names)
        maps = [self.linear(name, rows, width, has_bias=self._network.attention_bias) for name in names]
        biases = [bias for _, bias in maps if bias is not None]
        return np.concatenate([weight for weight, _ in maps]), np.concatenate(biases) if biases else None

    def linear(self, name: str, rows: int, columns: int, *, has_bias: bool) -> tuple[Array, Array | None]:
        """Weight (rows, columns) and bias (rows,) of a map; None: it has no bias. `name`: of the checkpoint."""
        weight = self._get(f"{name}.weight", rows, columns)
        return weight, self._get(f"{name}.bias", rows) if has_bias else None

    def rotations(self, theta: float) -> tuple[Array, Array]:
        """Cosines and sines (max_positions, H / 2) of the rotary positions with this base, in float32 as transformers
        computes them (modeling_rope_utils.py, `_compute_default_rope_parameters`)."""
        size = self._network.head_size
        powers = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
        frequencies = (1.0 / np.power(np.float32(theta), powers)).astype(np.float32)
        angles = np.arange(self._network.max_positions, dtype=np.float32)[:, None] * frequencies
        return np.cos(angles), np.sin(angles)

    def _get(self, name: str, *shape: int) -> Array:
        if name not in self._weights:
            raise ModelError(f"the checkpoint lacks the tensor {name}: its files do not belong together")
        tensor = np.asarray(self._weights[name], np.float32)
        if tensor.shape != shape:
            raise ModelError(
                f"the tensor {name} has the shape {tensor.shape}, and config.json gives {shape}: the files do not "
                "belong together"
            )
        return tensor
