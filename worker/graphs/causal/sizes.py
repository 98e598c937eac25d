"""
The description of a causal network: its sizes, and the choices of its blocks.

Knows: how sizes depend on each other, and what onnxruntime's attention asks of a head. Does not know: config.json.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.graphs.causal.alibi import Alibi
from worker.graphs.causal.block import CausalBlock, HeadNorm, Norm
from worker.graphs.causal.rope import Rope
from worker.graphs.causal.tensor_names import KEY_NORM, QUERY_NORM, CausalTensorNames

# GroupQueryAttention takes heads of a multiple of these sizes, with and without rotation.
_ROTATED_MULTIPLE = 16
_PLAIN_MULTIPLE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalSizes:
    """The sizes of a causal network, the description of its blocks, and the names of its tensors."""

    family: str  # model_type of one of `FAMILIES`
    width: int  # D
    heads: int  # N
    kv_heads: int  # K
    own_head_size: int  # H of the checkpoint
    layers: int  # L
    inner_width: int  # F
    vocab_size: int  # V: rows of the embeddings; a tokenizer may use fewer
    max_positions: int
    rotated: int  # the first elements of a head, which are rotated
    ropes: tuple[Rope | None, ...]  # by layer; None: the layer does not rotate
    windows: tuple[int | None, ...]  # by layer: a token attends to itself and the window - 1 before it; None: to all
    tied_head: bool  # the checkpoint's head is its embeddings
    embedding_width: int | None = None  # of the checkpoint's embeddings and head; None: D
    layer_scales: tuple[float, ...] = ()  # by layer: a further factor of its scores; empty: 1
    position_offset: int = 0  # of learned positions: the row of the first one
    alibi: Alibi | None = None
    block: CausalBlock
    tensors: CausalTensorNames

    @property
    def head_size(self) -> int:
        """H: padded with zeros to a size that GroupQueryAttention takes. ALiBi needs an element more."""
        multiple = _ROTATED_MULTIPLE if any(self.ropes) else _PLAIN_MULTIPLE
        own = self.own_head_size + (self.alibi is not None)
        return -(-own // multiple) * multiple

    @property
    def has_learned_positions(self) -> bool:
        """Whether a row of a table is added to each embedding."""
        return bool(self.tensors.positions)

    @property
    def head_norms(self) -> dict[str, int]:
        """How many norms of their own heads have, by role; empty where they share one, or have none."""
        if self.block.head_norm is not HeadNorm.EACH_HEAD:
            return {}
        return {QUERY_NORM: self.heads, KEY_NORM: self.kv_heads}

    @property
    def centers_heads(self) -> bool:
        """Whether the means of queries and keys are taken off the weights: a layer norm would take the padding in."""
        is_centered = self.block.head_norm is not None and self.block.norm is Norm.LAYER
        return is_centered and self.head_size != self.own_head_size

    @property
    def attention_width(self) -> int:
        """N x H: the elements of all heads."""
        return self.heads * self.head_size

    @property
    def shares_table(self) -> bool:
        """Whether embeddings and head of the graphs are one table: not where each has its own projection in it."""
        return self.tied_head and self.embedding_width is None

    @property
    def has_qkv_bias(self) -> bool:
        """Whether the graph adds a bias to queries, keys and values: the checkpoint's, or ALiBi's constant."""
        return self.block.qkv_bias or self.alibi is not None

    @property
    def has_window(self) -> bool:
        """Whether some layer has a sliding window."""
        return any(window is not None for window in self.windows)

    @property
    def distinct_ropes(self) -> tuple[Rope, ...]:
        """The rotations of all layers, each once, in the order of the first layer that has it."""
        return tuple(dict.fromkeys(rope for rope in self.ropes if rope is not None))

    def modules(self, layer: int, role: str) -> list[str]:
        """The modules of a role in a layer, without `.weight`: a single one, or one for each head."""
        return self.tensors.modules(layer, role, self.head_norms)

    def attention_scale(self, layer: int) -> float:
        """The factor of the products of queries and keys, by the head size without padding."""
        given = self.block.attention_scale
        scale = float(self.own_head_size**-0.5 if given is None else given)
        return scale * self.layer_scales[layer] if self.layer_scales else scale

    @property
    def head_places(self) -> NDArray[np.int64]:
        """The checkpoint's element at each index of a padded head (H,), -1 for padding.

        An element and its partner in the rotation have the same index in the two halves of the head. Elements that are
        not rotated share the rest of both halves; there, the cosine is 1 and the sine 0.

            rotated 4 of 6, padded to 8    0 1 4 -1   2 3 5 -1
        """
        size, rotated, half = self.own_head_size, self.rotated, self.head_size // 2
        places = np.full(self.head_size, -1)
        if not rotated:
            places[:size] = np.arange(size)
            return places
        rest = (size - rotated) // 2
        for start, first, first_unrotated in ((0, 0, rotated), (half, rotated // 2, rotated + rest)):
            places[start : start + rotated // 2] = np.arange(first, first + rotated // 2)
            places[start + rotated // 2 : start + size // 2] = np.arange(first_unrotated, first_unrotated + rest)
        return places
