"""
A causal network in numpy, computed from the weights of a checkpoint without graph or cache.

The reference for native graphs where transformers is not installed, and for tests. It computes what the description of
the network (worker/graphs/causal/families.py) says, rotary frequencies and ALiBi biases included, and takes each tensor
as the checkpoint has it. It shares no other code with the graphs, so an error in those is not repeated here. Written
after modeling_*.py of transformers 4.57.

Shapes: T length · D width · N heads · K key/value heads · H head size · R rotated elements of a head · V vocabulary.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from worker.graphs.causal import tensor_names as roles
from worker.graphs.causal.block import HeadNorm, Norm
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.rope import Rope
from worker.graphs.causal.tensor_names import Fused
from worker.model_tools.verify.numpy_parts import ACTIVATIONS, Floats, Weights
from worker.models.checkpoint.checkpoint import Checkpoint


class NumpyCausal:
    """Runs all sequences layer by layer, with the weights of one layer in memory at a time."""

    name = "checkpoint, in numpy"

    def __init__(self, config: Mapping[str, Any], weights: Weights) -> None:
        """Raises ModelError for a configuration that no graph is built for."""
        self._sizes = read_sizes(config)
        self._block = self._sizes.block
        self._names = self._sizes.tensors
        self._weights = weights

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The checkpoint in `folder`, which may be a GGUF file; raises ModelError for one that is damaged or not known
        here."""
        checkpoint = Checkpoint.open(folder)
        return cls(checkpoint.config, checkpoint.weights)

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """For each sequence (T,), log p of each token but the first, given the tokens before it: (T - 1,)."""
        sizes, names = self._sizes, self._names
        table = self._weights[f"{names.embeddings}.weight"]
        outside = {key: self._weights[key] for key in self._weights if not key.startswith(f"{names.layer}.")}
        hidden = [self._embed(table[list(ids)], outside) for ids in sequences]
        for layer in range(sizes.layers):
            prefix = f"{names.layer}.{layer}."
            own = {key: self._weights[key] for key in self._weights if key.startswith(prefix)}
            hidden = [self._layer(x, own, layer) for x in hidden]
        is_tied = sizes.tied_head or f"{names.head}.weight" not in self._weights
        head = table if is_tied else outside[f"{names.head}.weight"]
        last = (
            [self._norm(x, outside, names.norm, self._block.norm_bias) for x in hidden]
            if self._block.last_norm
            else hidden
        )
        if names.project_out:
            last = [self._linear(x, outside, names.project_out) for x in last]
        return [_log_probs_of(self._capped(x @ head.T, outside), ids) for x, ids in zip(last, sequences, strict=True)]

    def rotations(self, rope: Rope, length: int) -> tuple[Floats, Floats]:
        """Cosines and sines of the rotary positions of a text of `length` tokens, (T, R / 2) each."""
        return rope.rotations(length)

    def _embed(self, x: Floats, weights: Weights) -> Floats:
        if self._names.project_in:
            x = self._linear(x, weights, self._names.project_in)
        x = x * np.float32(self._block.embedding_scale)
        if self._sizes.has_learned_positions:
            first = self._sizes.position_offset
            x = x + weights[f"{self._names.positions}.weight"][first : first + len(x)]
        return (
            self._norm(x, weights, self._names.embedding_norm, self._block.norm_bias)
            if self._block.embedding_norm
            else x
        )

    def _capped(self, logits: Floats, weights: Weights) -> Floats:
        """The logits, from the products of the states with the head."""
        block = self._block
        logits *= np.float32(block.logit_scale)
        if block.head_bias:
            logits += weights[f"{self._names.head}.bias"]
        return logits if block.logit_cap is None else _soft_cap(logits, block.logit_cap)

    def _layer(self, x: Floats, weights: Weights, layer: int) -> Floats:
        block, scale = self._block, np.float32(self._block.residual_scale)

        def norm(x: Floats, role: str, is_there: bool) -> Floats:
            return self._norm(x, weights, self._names.module(layer, role), block.norm_bias) if is_there else x

        normal = norm(x, roles.BEFORE_ATTENTION, block.norms_before)
        attended = norm(self._attend(normal, weights, layer), roles.AFTER_ATTENTION, block.norms_after)
        y: Floats = norm(x + scale * attended, roles.AFTER_ATTENTION, block.norms_of_sums)
        if not block.shares_norm:
            normal = norm(x if block.is_parallel else y, roles.BEFORE_INNER, block.norms_before)
        inner = norm(self._feed_forward(normal, weights, layer), roles.AFTER_INNER, block.norms_after)
        return norm(y + scale * inner, roles.AFTER_INNER, block.norms_of_sums)

    def _feed_forward(self, x: Floats, weights: Weights, layer: int) -> Floats:
        def linear(x: Floats, role: str) -> Floats:
            return self._linear(x, weights, self._names.module(layer, role))

        activate = ACTIVATIONS[self._block.activation]
        if not self._block.is_gated:
            return linear(activate(linear(x, roles.UP)), roles.DOWN)
        if self._names.fuses_gate_up:
            gate, up = np.split(linear(x, roles.FUSED_GATE_UP), 2, axis=-1)
        else:
            gate, up = linear(x, roles.GATE), linear(x, roles.UP)
        return linear(activate(gate) * up, roles.DOWN)

    def _attend(self, x: Floats, weights: Weights, layer: int) -> Floats:
        sizes, block = self._sizes, self._block
        q, k, v = self._projected(x, weights, layer)  # (T, N or K, H)
        if block.head_norm is not None:
            q = self._normalized(q, weights, sizes.modules(layer, roles.QUERY_NORM))
            k = self._normalized(k, weights, sizes.modules(layer, roles.KEY_NORM))
        q, k, v = (some.swapaxes(0, 1) for some in (q, k, v))
        if (rope := sizes.ropes[layer]) is not None:
            cosines, sines = self.rotations(rope, len(x))
            q, k = _rotate(q, cosines, sines), _rotate(k, cosines, sines)
        k, v = (np.repeat(some, len(q) // len(some), axis=0) for some in (k, v))
        scale = np.float32(sizes.attention_scale(layer))
        scores = q @ k.swapaxes(1, 2) * scale  # (N, T, T)
        if block.attention_cap is not None:
            scores = _soft_cap(scores, block.attention_cap)
        if sizes.alibi is not None:
            biases = sizes.alibi.biases(len(q), len(x)).T[:, None]
            scores = scores + (biases * scale if sizes.alibi.is_scaled else biases)
        mask = np.tri(len(x), dtype=bool)
        if (window := sizes.windows[layer]) is not None:
            mask &= ~np.tri(len(x), k=-window, dtype=bool)
        scores = np.where(mask, scores, np.float32(-np.inf))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (shares / shares.sum(axis=-1, keepdims=True)) @ v
        joined = mixed.swapaxes(0, 1).reshape(len(x), -1)
        return self._linear(joined, weights, self._names.module(layer, roles.OUT))

    def _projected(self, x: Floats, weights: Weights, layer: int) -> tuple[Floats, Floats, Floats]:
        """Queries (T, N, H), keys and values (T, K, H)."""
        sizes, names, size = self._sizes, self._names, self._sizes.own_head_size
        if names.fused is None:
            parts = [
                self._linear(x, weights, names.module(layer, role)).reshape(len(x), -1, size)
                for role in (roles.QUERIES, roles.KEYS, roles.VALUES)
            ]
        else:
            fused = self._linear(x, weights, names.module(layer, roles.FUSED_QKV))
            if names.fused is Fused.STACKED:
                heads = fused.reshape(len(x), -1, size)
                parts = np.split(heads, [sizes.heads, sizes.heads + sizes.kv_heads], axis=1)
            else:
                groups = fused.reshape(len(x), sizes.kv_heads, -1, size)
                parts = [groups[:, :, :-2].reshape(len(x), -1, size), groups[:, :, -2], groups[:, :, -1]]
        if (limit := self._block.clip_qkv) is not None:
            parts = [np.clip(part, -limit, limit) for part in parts]
        q, k, v = parts
        return q, k, v

    def _normalized(self, heads: Floats, weights: Weights, modules: Sequence[str]) -> Floats:
        """Queries or keys (T, N, H). `modules`: their one norm, or the norm of each head."""
        shape, has_bias = heads.shape, self._block.head_norm_bias
        if self._block.head_norm is HeadNorm.EACH_HEAD:
            heads = heads.swapaxes(0, 1)
            normal = [self._norm(head, weights, module, has_bias) for head, module in zip(heads, modules, strict=True)]
            return np.stack(normal, axis=1)
        if self._block.head_norm is HeadNorm.PROJECTION:
            heads = heads.reshape(len(heads), -1)
        return self._norm(heads, weights, modules[0], has_bias).reshape(shape)

    def _norm(self, x: Floats, weights: Weights, module: str, has_bias: bool) -> Floats:
        block = self._block
        if block.norm is Norm.LAYER:
            x = x - x.mean(axis=-1, keepdims=True)
        scale = np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(block.epsilon))
        normal: Floats = x / scale * self._factors(weights, module)
        return normal + weights[f"{module}.bias"] if has_bias else normal

    def _factors(self, weights: Weights, module: str) -> Floats | np.float32:
        if not self._block.norm_weight:
            return np.float32(1)
        weight = weights[f"{module}.weight"]
        return weight + np.float32(1) if self._block.norm_adds_one else weight

    def _linear(self, x: Floats, weights: Weights, module: str) -> Floats:
        weight = weights[f"{module}.weight"]
        y: Floats = x @ (weight if self._names.is_transposed else weight.T)
        return y + weights[f"{module}.bias"] if f"{module}.bias" in weights else y


def _soft_cap(x: Floats, cap: float) -> Floats:
    y: Floats = np.float32(cap) * np.tanh(x / np.float32(cap))
    return y


def _log_probs_of(logits: Floats, ids: Sequence[int]) -> Floats:
    """Logits (T, V) -> log-probabilities of the tokens after the first, (T - 1,)."""
    logits = logits[:-1] - logits[:-1].max(axis=1, keepdims=True)
    chosen: Floats = logits[np.arange(len(logits)), list(ids[1:])] - np.log(np.exp(logits).sum(axis=1))
    return chosen


def _rotate(x: Floats, cosines: Floats, sines: Floats) -> Floats:
    """Each number of the first half of the rotated part with its partner in the second half, by their angle at each
    position."""
    half = cosines.shape[-1]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    rotated: Floats = np.concatenate(
        (first * cosines - second * sines, second * cosines + first * sines, rest), axis=-1
    )
    return rotated
