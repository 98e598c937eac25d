"""
A seq2seq network in numpy, computed from the weights of a checkpoint without graph or cache.

The reference for native graphs where transformers is not installed. Written after modeling_marian.py,
modeling_m2m_100.py, modeling_bart.py, modeling_mbart.py and modeling_pegasus.py of transformers.
It shares no code with worker/graphs, so an error there is not repeated here.

Shapes: S source length · T target length · D width · N heads · H head size · V vocabulary.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.models.checkpoint.checkpoint import Checkpoint

Floats = NDArray[np.float32]

_EPSILON = 1e-5  # of layer normalization


class NumpySeq2Seq:
    """Holds all weights in memory, as float32."""

    name = "checkpoint, in numpy"

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, Floats]) -> None:
        """Raises ModelError for an unknown activation."""
        self._weights = dict(weights)
        family = config.get("model_type")
        self._is_m2m100 = family == "m2m_100"
        self._norm_first = family in ("m2m_100", "mbart", "pegasus")
        self._has_table = family in ("bart", "mbart")  # of positions; and a norm behind them
        self._width = int(config["d_model"])
        self._layers = {"encoder": int(config["encoder_layers"]), "decoder": int(config["decoder_layers"])}
        self._heads = {side: int(config[f"{side}_attention_heads"]) for side in ("encoder", "decoder")}
        self._scale = math.sqrt(self._width) if config.get("scale_embedding", self._is_m2m100) else 1.0
        self._first_position = int(config["pad_token_id"]) + 1 if self._is_m2m100 else 0
        activation = str(config["activation_function"])
        if activation not in _ACTIVATIONS:
            raise ModelError(f"activation_function is {activation}; supported are {', '.join(_ACTIVATIONS)}")
        self._activate = _ACTIVATIONS[activation]

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The checkpoint in `folder`; raises ModelError for one that is damaged."""
        checkpoint = Checkpoint.open(folder)
        return cls(checkpoint.config, checkpoint.weights)

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Floats:
        return self._decode(self._encode(source), target)

    def _encode(self, ids: Sequence[int]) -> Floats:
        """(S,) -> hidden states (S, D)."""
        x = self._embed("encoder", ids)
        for layer in range(self._layers["encoder"]):
            name = f"model.encoder.layers.{layer}"
            x = self._self_attention(x, name, "encoder")
            x = self._feed_forward(x, name)
        return self._norm(x, "model.encoder.layer_norm") if self._norm_first else x

    def _decode(self, hidden: Floats, ids: Sequence[int]) -> Floats:
        """(S, D), (T,) -> (T, V)."""
        x = self._embed("decoder", ids)
        for layer in range(self._layers["decoder"]):
            name = f"model.decoder.layers.{layer}"
            x = self._self_attention(x, name, "decoder")
            x = self._cross_attention(x, hidden, name)
            x = self._feed_forward(x, name)
        if self._norm_first:
            x = self._norm(x, "model.decoder.layer_norm")
        head = self._first("lm_head.weight", "model.decoder.embed_tokens.weight", "model.shared.weight")
        logits: Floats = x @ head.T
        return logits + self._weights["final_logits_bias"] if "final_logits_bias" in self._weights else logits

    def _embed(self, side: str, ids: Sequence[int]) -> Floats:
        table = self._first(f"model.{side}.embed_tokens.weight", "model.shared.weight")
        x: Floats = table[list(ids)] * np.float32(self._scale) + self._positions(side, len(ids))
        return self._norm(x, f"model.{side}.layernorm_embedding") if self._has_table else x

    def _positions(self, side: str, length: int) -> Floats:
        """(length, D)."""
        if self._has_table:  # BartLearnedPositionalEmbedding
            return self._weights[f"model.{side}.embed_positions.weight"][2 : 2 + length]
        if (saved := self._weights.get(f"model.{side}.embed_positions.weight")) is not None:  # rounded, maybe
            return saved[:length]
        places, half = np.arange(length)[:, None], self._width // 2
        if self._is_m2m100:  # M2M100SinusoidalPositionalEmbedding, which computes in float32
            step = np.float32(math.log(10_000) / (half - 1))
            angles = (places + self._first_position).astype(np.float32) * np.exp(
                -step * np.arange(half, dtype=np.float32)
            )
        else:
            angles = places / 10_000 ** (2 * np.arange(half) / self._width)
        return np.concatenate((np.sin(angles), np.cos(angles)), axis=1).astype(np.float32)

    def _self_attention(self, x: Floats, name: str, side: str) -> Floats:
        return self._part(
            x,
            f"{name}.self_attn_layer_norm",
            lambda read: self._attend(read, read, f"{name}.self_attn", side, causal=side == "decoder"),
        )

    def _cross_attention(self, x: Floats, hidden: Floats, name: str) -> Floats:
        return self._part(
            x,
            f"{name}.encoder_attn_layer_norm",
            lambda read: self._attend(read, hidden, f"{name}.encoder_attn", "decoder"),
        )

    def _attend(self, x: Floats, to: Floats, name: str, side: str, *, causal: bool = False) -> Floats:
        heads = self._heads[side]
        q, k, v = (
            self._linear(rows, f"{name}.{part}_proj").reshape(len(rows), heads, -1).swapaxes(0, 1)
            for part, rows in (("q", x), ("k", to), ("v", to))
        )  # (N, ..., H)
        scores = q @ k.swapaxes(1, 2) / np.float32(math.sqrt(q.shape[-1]))  # (N, T, S)
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, np.float32(-np.inf))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (shares / shares.sum(axis=-1, keepdims=True)) @ v  # (N, T, H)
        return self._linear(mixed.swapaxes(0, 1).reshape(len(x), -1), f"{name}.out_proj")

    def _feed_forward(self, x: Floats, name: str) -> Floats:
        return self._part(
            x,
            f"{name}.final_layer_norm",
            lambda read: self._linear(self._activate(self._linear(read, f"{name}.fc1")), f"{name}.fc2"),
        )

    def _part(self, x: Floats, norm: str, compute: Callable[[Floats], Floats]) -> Floats:
        """A part of a layer with its residual connection and its norm."""
        if self._norm_first:
            return x + compute(self._norm(x, norm))
        return self._norm(x + compute(x), norm)

    def _linear(self, x: Floats, name: str) -> Floats:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _norm(self, x: Floats, name: str) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(_EPSILON))
        normal: Floats = centred / deviation * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return normal

    def _first(self, *names: str) -> Floats:
        return self._weights[next(name for name in names if name in self._weights)]


def _swish(x: Floats) -> Floats:
    y: Floats = x / (1 + np.exp(-x))
    return y


def _gelu(x: Floats) -> Floats:
    erf = np.frompyfunc(math.erf, 1, 1)  # numpy has none
    y: Floats = x * (1 + erf(x / math.sqrt(2)).astype(np.float32)) / 2
    return y


_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "swish": _swish,
    "silu": _swish,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": _gelu,
}
