"""
A seq2seq network in numpy, computed from the weights of a checkpoint without graph or cache.

The reference for native graphs where transformers is not installed. Written after modeling_marian.py,
modeling_m2m_100.py, modeling_bart.py, modeling_mbart.py, modeling_pegasus.py and modeling_t5.py of transformers.
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
from worker.model_tools.verify.numpy_parts import ACTIVATIONS, Floats, Weights
from worker.models.checkpoint.checkpoint import Checkpoint

_EPSILON = 1e-5  # of layer normalization


class NumpySeq2Seq:
    """Holds all weights in memory, as float32."""

    name = "checkpoint, in numpy"

    def __init__(self, config: Mapping[str, Any], weights: Weights) -> None:
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
        if activation not in ACTIVATIONS:
            raise ModelError(f"activation_function is {activation}; supported are {', '.join(ACTIVATIONS)}")
        self._activate = ACTIVATIONS[activation]

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The checkpoint in `folder`; raises ModelError for one that is damaged."""
        checkpoint = Checkpoint.open(folder)
        return cls(checkpoint.config, checkpoint.weights)

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Floats:
        """The logits (T, V) of the id that follows each position of a target (T,), the start token first."""
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
        positions, half = np.arange(length)[:, None], self._width // 2
        if self._is_m2m100:  # M2M100SinusoidalPositionalEmbedding, which computes in float32
            step = np.float32(math.log(10_000) / (half - 1))
            angles = (positions + self._first_position).astype(np.float32) * np.exp(
                -step * np.arange(half, dtype=np.float32)
            )
        else:
            angles = positions / 10_000 ** (2 * np.arange(half) / self._width)
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


class NumpyT5:
    """T5 and its kin. Holds all weights in memory, as float32."""

    name = "checkpoint, in numpy"

    def __init__(self, config: Mapping[str, Any], weights: Weights) -> None:
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
        activation = str(config.get("dense_act_fn", derived))  # in T5Config a written dense_act_fn has precedence
        if activation not in ACTIVATIONS:
            raise ModelError(f"the activation is {activation}; supported are {', '.join(ACTIVATIONS)}")
        self._activate = ACTIVATIONS[activation]

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Floats:
        """The logits (T, V) of the id that follows each position of a target (T,), the start token first."""
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
