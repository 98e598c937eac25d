"""
The tensors of a causal checkpoint by their role, in the form that the graphs take.

Knows: shapes, padding of heads, what is folded into a weight. Does not know: families, graphs.

Folded: the residual scale into the last product of attention and feed-forward, the logit scale into the last norm,
projections of the embeddings to another width into the embeddings and the head.

Shapes: V vocabulary · D width · F inner width · N heads · K key/value heads · H head size.
"""

import functools

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.graphs.causal.block import HeadNorm
from worker.graphs.causal.rope import Rope
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.tensor_names import (
    AFTER_ATTENTION,
    AFTER_INNER,
    BEFORE_ATTENTION,
    BEFORE_INNER,
    DOWN,
    FUSED_GATE_UP,
    FUSED_QKV,
    GATE,
    KEY_NORM,
    KEYS,
    OUT,
    QUERIES,
    QUERY_NORM,
    UP,
    VALUES,
    Fused,
)
from worker.graphs.checkpoint_weights import Weights

Array = NDArray[np.float32]


def tensor_names(sizes: CausalSizes) -> frozenset[str]:
    """The tensors of a checkpoint of these sizes, a tied head under both of its names."""
    return frozenset(tensor_shapes(sizes))


def tensor_shapes(sizes: CausalSizes) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of a checkpoint of these sizes, by name."""
    names, block, roles = sizes.tensors, sizes.block, role_shapes(sizes)
    embedded = sizes.embedding_width or sizes.width
    shapes: dict[str, tuple[int, ...]] = {}

    def add(module: str, shape: tuple[int, ...], *, weight: bool = True, bias: bool = False) -> None:
        if weight:
            shapes[f"{module}.weight"] = shape
        if bias:
            shapes[f"{module}.bias"] = shape[:1]

    add(names.embeddings, (sizes.vocab_size, embedded))
    add(names.head, (sizes.vocab_size, embedded), bias=block.head_bias)
    if block.last_norm:
        add(names.norm, (sizes.width,), weight=block.norm_weight, bias=block.norm_bias)
    if names.project_in:
        add(names.project_in, (sizes.width, embedded))
        add(names.project_out, (embedded, sizes.width))
    if names.positions:
        add(names.positions, (sizes.position_offset + sizes.max_positions, sizes.width))
    if block.embedding_norm:
        add(names.embedding_norm, (sizes.width,), bias=block.norm_bias)
    in_layers = names.of_layer(block)
    for layer in range(sizes.layers):
        for role, (has_weight, has_bias) in in_layers.items():
            for module in sizes.modules(layer, role):
                add(module, roles[role], weight=has_weight, bias=has_bias)
    return shapes


def role_shapes(sizes: CausalSizes) -> dict[str, tuple[int, ...]]:
    """The shape of a weight in a layer by its role; of a product (outputs, inputs), also where the checkpoint has it
    the other way round."""
    width, inner, size = sizes.width, sizes.inner_width, sizes.own_head_size
    queries, keys = sizes.heads * size, sizes.kv_heads * size
    of_all = sizes.block.head_norm is HeadNorm.PROJECTION
    norms = dict.fromkeys((BEFORE_ATTENTION, AFTER_ATTENTION, BEFORE_INNER, AFTER_INNER), (width,))
    return norms | {
        QUERIES: (queries, width),
        KEYS: (keys, width),
        VALUES: (keys, width),
        FUSED_QKV: (queries + 2 * keys, width),
        OUT: (width, queries),
        GATE: (inner, width),
        UP: (inner, width),
        FUSED_GATE_UP: (2 * inner, width),
        DOWN: (width, inner),
        QUERY_NORM: (queries if of_all else size,),
        KEY_NORM: (keys if of_all else size,),
    }


class CausalWeights:
    """The tensors of a checkpoint, by their role. Heads are padded with zeros, which do not change any result."""

    def __init__(self, weights: Weights, sizes: CausalSizes) -> None:
        self._weights = weights
        self._sizes = sizes
        self._names = sizes.tensors

    def qkv(self, layer: int) -> Array:
        """The projections to queries, keys and values, stacked: ((N + 2 K) x H, D)."""
        return np.concatenate([self._padded(part, 0) for part in self._centered_parts(layer, "weight")])

    def qkv_bias(self, layer: int) -> Array:
        """((N + 2 K) x H,). With ALiBi, the last element of each query is what turns the last one of each key, by the
        scale of the scores, into the key's bias."""
        sizes = self._sizes
        if not sizes.block.qkv_bias:
            bias = np.zeros((sizes.heads + 2 * sizes.kv_heads) * sizes.head_size, np.float32)
        else:
            bias = np.concatenate([self._padded(part, 0) for part in self._centered_parts(layer, "bias")])
        if sizes.alibi is not None:
            factor = 1 if sizes.alibi.is_scaled else 1 / sizes.attention_scale(layer)
            bias[: sizes.attention_width].reshape(sizes.heads, -1)[:, -1] = factor
        return bias

    def out(self, layer: int) -> Array:
        """(D, N x H)."""
        sizes = self._sizes
        weight = self._product(layer, OUT, sizes.width, sizes.heads * sizes.own_head_size)
        return self._scaled(self._padded(weight, 1))

    def out_bias(self, layer: int) -> Array:
        """(D,)."""
        return self._scaled(self._get(f"{self._names.module(layer, OUT)}.bias", self._sizes.width))

    def inner(self, layer: int, role: str) -> Array:
        """gate_proj or up_proj (F, D), or down_proj (D, F)."""
        width, inner = self._sizes.width, self._sizes.inner_width
        if role == DOWN:
            return self._scaled(self._product(layer, role, width, inner))
        if self._names.fuses_gate_up:
            both = self._product(layer, FUSED_GATE_UP, 2 * inner, width)
            return both[:inner] if role == GATE else both[inner:]
        return self._product(layer, role, inner, width)

    def inner_bias(self, layer: int, role: str) -> Array:
        """(F,), or of down_proj (D,)."""
        name = f"{self._names.module(layer, role)}.bias"
        if role == DOWN:
            return self._scaled(self._get(name, self._sizes.width))
        return self._get(name, self._sizes.inner_width)

    def norm(self, layer: int, role: str) -> Array:
        """The factors of a normalization in a layer (D,)."""
        return self._factors(self._names.module(layer, role), self._sizes.width)

    def norm_bias(self, layer: int, role: str) -> Array:
        """The bias of a normalization in a layer (D,)."""
        return self._addends(self._names.module(layer, role))

    def last_norm(self) -> Array:
        """The factors of the normalization behind the last layer (D,), times the scale of the logits."""
        return self._to_logits(self._factors(self._names.norm, self._sizes.width))

    def last_norm_bias(self) -> Array:
        """The bias of the normalization behind the last layer (D,), times the scale of the logits."""
        return self._to_logits(self._addends(self._names.norm))

    def embedding_norm(self) -> Array:
        """(D,)."""
        return self._get(f"{self._names.embedding_norm}.weight", self._sizes.width)

    def embedding_norm_bias(self) -> Array:
        """(D,)."""
        return self._addends(self._names.embedding_norm)

    def head_norm(self, layer: int, role: str) -> Array:
        """The factors of the normalization of queries or keys: of any head (H,), or of all (N x H,) or (K x H,).

        The graph takes the mean of the squares over all elements, padding included; the ratio of the sizes corrects
        that here.
        """
        sizes = self._sizes
        of_all = sizes.heads if role == QUERY_NORM else sizes.kv_heads
        size = sizes.own_head_size * (of_all if sizes.block.head_norm is HeadNorm.PROJECTION else 1)
        own = np.concatenate([self._factors(module, size) for module in sizes.modules(layer, role)])
        return self._padded(own * np.float32((sizes.own_head_size / sizes.head_size) ** 0.5), 0)

    def head_norm_bias(self, layer: int, role: str) -> Array:
        """The bias of the normalization of queries or keys, for each head (H,)."""
        return self._padded(self._get(f"{self._names.module(layer, role)}.bias", self._sizes.own_head_size), 0)

    def embeddings(self) -> Array:
        """(V, D)."""
        own, sizes = self._own_embeddings(), self._sizes
        if sizes.embedding_width is None:
            return own
        return own @ self._get(f"{self._names.project_in}.weight", sizes.width, sizes.embedding_width).T

    def head(self) -> Array:
        """(V, D)."""
        sizes = self._sizes
        width = sizes.embedding_width or sizes.width
        if sizes.tied_head:
            own = self._own_embeddings()
        else:
            own = self._get(f"{self._names.head}.weight", sizes.vocab_size, width)
        if sizes.embedding_width is None:
            return own
        return own @ self._get(f"{self._names.project_out}.weight", width, sizes.width)

    def table_scales(self) -> Array | None:
        """The factor of each channel of the embeddings in a table that is stored in int8 (D,); None: all are 1."""
        return None

    def head_bias(self) -> Array:
        """The bias of the head (V,)."""
        return self._get(f"{self._names.head}.bias", self._sizes.vocab_size)

    def learned_positions(self) -> Array:
        """(max_positions, D)."""
        sizes = self._sizes
        rows = sizes.position_offset + sizes.max_positions
        return self._get(f"{self._names.positions}.weight", rows, sizes.width)[sizes.position_offset :]

    def alibi(self, num_positions: int) -> Array:
        """The bias of each key, by its position and head (num_positions, K)."""
        assert self._sizes.alibi is not None
        return self._sizes.alibi.biases(self._sizes.kv_heads, num_positions)

    def rotations(self, rope: Rope, num_positions: int) -> tuple[Array, Array]:
        """Cosines and sines (num_positions, H / 2): 1 and 0 for elements that are not rotated, zeros for padding."""
        sizes = self._sizes
        cosines, sines = rope.rotations(num_positions)
        rest, padding = (sizes.own_head_size - sizes.rotated) // 2, (sizes.head_size - sizes.own_head_size) // 2
        cosines = np.pad(cosines, ((0, 0), (0, rest)), constant_values=1)
        missing = ((0, 0), (0, padding))
        return np.pad(cosines, missing), np.pad(sines, ((0, 0), (0, rest + padding)))

    def _own_embeddings(self) -> Array:
        """The embeddings of the checkpoint. A file may have tied tensors under either name."""
        names = [f"{self._names.embeddings}.weight"] + [f"{self._names.head}.weight"] * self._sizes.tied_head
        name = next((name for name in names if name in self._weights), names[0])
        return self._get(name, self._sizes.vocab_size, self._sizes.embedding_width or self._sizes.width)

    def _centered_parts(self, layer: int, kind: str) -> list[Array]:
        """`_qkv_parts`, of queries and keys without the mean of each head where `CausalSizes.centers_heads`."""
        queries, keys, values = self._qkv_parts(layer, kind)
        if self._sizes.centers_heads:
            queries, keys = self._centered(queries), self._centered(keys)
        return [queries, keys, values]

    def _centered(self, tensor: Array) -> Array:
        heads = tensor.reshape(-1, self._sizes.own_head_size, *tensor.shape[1:])
        centered: Array = (heads - heads.mean(axis=1, keepdims=True)).reshape(tensor.shape)
        return centered

    def _qkv_parts(self, layer: int, kind: str) -> list[Array]:
        """The weights or biases of queries (N x H, …), keys (K x H, …) and values, without padding."""
        sizes, size = self._sizes, self._sizes.own_head_size
        rows = [sizes.heads * size, sizes.kv_heads * size, sizes.kv_heads * size]
        if self._names.fused is None:
            roles = (QUERIES, KEYS, VALUES)
            return [self._rows(layer, role, kind, count) for role, count in zip(roles, rows, strict=True)]
        fused = self._rows(layer, FUSED_QKV, kind, sum(rows))
        if self._names.fused is Fused.STACKED:
            return np.split(fused, [rows[0], rows[0] + rows[1]])
        groups = fused.reshape(sizes.kv_heads, sizes.heads // sizes.kv_heads + 2, size, *fused.shape[1:])
        return [part.reshape(-1, *fused.shape[1:]) for part in (groups[:, :-2], groups[:, -2], groups[:, -1])]

    def _rows(self, layer: int, role: str, kind: str, rows: int) -> Array:
        if kind == "bias":
            return self._get(f"{self._names.module(layer, role)}.bias", rows)
        return self._product(layer, role, rows, self._sizes.width)

    def _product(self, layer: int, role: str, outputs: int, inputs: int) -> Array:
        """The weight of a product (outputs, inputs)."""
        name = f"{self._names.module(layer, role)}.weight"
        if self._names.is_transposed:
            return self._get(name, inputs, outputs).T
        return self._get(name, outputs, inputs)

    def _factors(self, module: str, size: int) -> Array:
        if not self._sizes.block.norm_weight:
            return np.ones(size, np.float32)
        weight = self._get(f"{module}.weight", size)
        return weight + np.float32(1) if self._sizes.block.norm_adds_one else weight

    def _addends(self, module: str) -> Array:
        width = self._sizes.width
        return self._get(f"{module}.bias", width) if self._sizes.block.norm_bias else np.zeros(width, np.float32)

    def _scaled(self, weight: Array) -> Array:
        """A weight or bias of the last product of attention or feed-forward, times the residual scale."""
        scale = self._sizes.block.residual_scale
        return weight if scale == 1 else weight * np.float32(scale)

    def _to_logits(self, values: Array) -> Array:
        scale = self._sizes.block.logit_scale
        return values if scale == 1 else values * np.float32(scale)

    def _padded(self, tensor: Array, axis: int) -> Array:
        """Reorder and pad the elements of each head (`CausalSizes.head_places`); padding is zero."""
        sizes, places = self._sizes, self._places
        if len(places) == sizes.own_head_size and (places == np.arange(len(places))).all():
            return tensor
        shape = tensor.shape
        heads = tensor.reshape(*shape[:axis], -1, sizes.own_head_size, *shape[axis + 1 :])
        taken = np.take(heads, places, axis=axis + 1)  # -1: the last element, replaced by 0
        taken[(slice(None),) * (axis + 1) + (places < 0,)] = 0
        return taken.reshape(*shape[:axis], -1, *shape[axis + 1 :])

    @functools.cached_property
    def _places(self) -> NDArray[np.int64]:
        return self._sizes.head_places

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
