"""
T5 and its kin in numpy, computed from the weights of a checkpoint without graph or cache.

The reference for native graphs where transformers is not installed. Written after modeling_t5.py of transformers. It
shares no code with worker/graphs, so an error there is not repeated here.

Shapes: S source length · T target length · D width · N heads · H head size · V vocabulary.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError

Floats = NDArray[np.float32]


class NumpyT5:
    """Holds all weights in memory, as float32."""

    name = "checkpoint, in numpy"

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, Floats]) -> None:
        """Raises ModelError for an unknown activation."""
        self._weights = dict(weights)
        is_mt5 = config.get("model_type") == "mt5"
        self._width = int(config["d_model"])
        self._heads = int(config["num_heads"])
        layers = int(config["num_layers"])
        self._layers = {"encoder": layers, "decoder": int(config.get("num_decoder_layers") or layers)}
        self._epsilon = np.float32(config.get("layer_norm_epsilon", 1e-6))
        self._buckets = int(config.get("relative_attention_num_buckets", 32))
        self._farthest = int(config.get("relative_attention_max_distance", 128))
        self._is_tied = bool(config.get("tie_word_embeddings", not is_mt5))
        named = str(config.get("feed_forward_proj", "gated-gelu" if is_mt5 else "relu"))
        derived = "gelu_new" if named == "gated-gelu" else named.removeprefix("gated-")
        self._is_gated = bool(config.get("is_gated_act", named.startswith("gated-")))
        activation = str(config.get("dense_act_fn", derived))  # T5Config lets what is written count more
        if activation not in _ACTIVATIONS:
            raise ModelError(f"the activation is {activation}; supported are {', '.join(_ACTIVATIONS)}")
        self._activate = _ACTIVATIONS[activation]

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Floats:
        hidden = self._run("encoder", source, None)
        x = self._run("decoder", target, hidden)
        scale = np.float32(self._width**-0.5 if self._is_tied else 1.0)
        head = self._embeddings() if self._is_tied else self._weights["lm_head.weight"]
        logits: Floats = (x @ head.T) * scale
        return logits

    def _run(self, side: str, ids: Sequence[int], hidden: Floats | None) -> Floats:
        x = self._embeddings()[list(ids)]
        bias = self._bias(side, len(ids))
        for layer in range(self._layers[side]):
            name = f"{side}.block.{layer}.layer"
            read = self._norm(x, f"{name}.0.layer_norm")
            x = x + self._attend(read, read, f"{name}.0.SelfAttention", bias)
            if hidden is not None:
                x = x + self._attend(self._norm(x, f"{name}.1.layer_norm"), hidden, f"{name}.1.EncDecAttention", None)
            last = f"{name}.{1 if hidden is None else 2}"
            x = x + self._feed_forward(self._norm(x, f"{last}.layer_norm"), f"{last}.DenseReluDense")
        return self._norm(x, f"{side}.final_layer_norm")

    def _embeddings(self) -> Floats:
        names = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
        return self._weights[next(name for name in names if name in self._weights)]

    def _bias(self, side: str, length: int) -> Floats:
        """(N, length, length); minus infinity where the decoder must not look."""
        table = self._weights[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        distance = np.arange(length)[None, :] - np.arange(length)[:, None]  # of the key from the query
        if side == "encoder":
            buckets = np.where(distance > 0, self._buckets // 2, 0) + self._bucket(abs(distance), self._buckets // 2)
            found: Floats = table[buckets].transpose(2, 0, 1)
            return found
        bias = table[self._bucket(np.maximum(-distance, 0), self._buckets)].transpose(2, 0, 1)
        return np.where(distance > 0, np.float32(-np.inf), bias)

    def _bucket(self, distance: NDArray[np.int64], buckets: int) -> NDArray[np.int64]:
        exact = buckets // 2
        ratio = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
        scaled = ratio / np.float32(math.log(self._farthest / exact)) * np.float32(buckets - exact)
        far = np.minimum(exact + scaled.astype(np.int64), buckets - 1)
        return np.where(distance < exact, distance, far)

    def _attend(self, x: Floats, to: Floats, name: str, bias: Floats | None) -> Floats:
        q, k, v = (
            (rows @ self._weights[f"{name}.{part}.weight"].T).reshape(len(rows), self._heads, -1).swapaxes(0, 1)
            for part, rows in (("q", x), ("k", to), ("v", to))
        )  # (N, ..., H)
        scores = q @ k.swapaxes(1, 2)  # (N, T, S)
        if bias is not None:
            scores = scores + bias
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (shares / shares.sum(axis=-1, keepdims=True)) @ v  # (N, T, H)
        attended: Floats = mixed.swapaxes(0, 1).reshape(len(x), -1) @ self._weights[f"{name}.o.weight"].T
        return attended

    def _feed_forward(self, x: Floats, name: str) -> Floats:
        if self._is_gated:
            gate = self._activate(x @ self._weights[f"{name}.wi_0.weight"].T)
            inner = gate * (x @ self._weights[f"{name}.wi_1.weight"].T)
        else:
            inner = self._activate(x @ self._weights[f"{name}.wi.weight"].T)
        return inner @ self._weights[f"{name}.wo.weight"].T

    def _norm(self, x: Floats, name: str) -> Floats:
        mean_square = (x * x).mean(axis=-1, keepdims=True)
        normal: Floats = x / np.sqrt(mean_square + self._epsilon) * self._weights[f"{name}.weight"]
        return normal


def _gelu_new(x: Floats) -> Floats:
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3)
    y: Floats = x * (1 + np.tanh(inner)) / 2
    return y


def _silu(x: Floats) -> Floats:
    y: Floats = x / (1 + np.exp(-x))
    return y


_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu_new": _gelu_new,
    "silu": _silu,
    "swish": _silu,
}
