"""
A causal network in numpy, computed from the weights of a checkpoint without graph or cache.

The reference for native graphs where transformers is not installed, and for tests. Written after modeling_llama.py,
modeling_mistral.py, modeling_qwen2.py, modeling_qwen3.py and modeling_rope_utils.py of transformers 4.57. It shares no
code with worker/graphs, so an error there is not repeated here.

Shapes: T length · D width · N heads · K key/value heads · H head size · V vocabulary.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.models.checkpoint.checkpoint import Checkpoint

Floats = NDArray[np.float32]
Weights = Mapping[str, Floats]


class NumpyCausal:
    """Runs all sequences layer by layer, with the weights of one layer in memory at a time."""

    name = "checkpoint, in numpy"

    def __init__(self, config: Mapping[str, Any], weights: Weights) -> None:
        """Raises ModelError for an unknown activation or scaling of positions."""
        if (activation := config.get("hidden_act", "silu")) not in ("silu", "swish"):
            raise ModelError(f"hidden_act is {activation}; supported is silu")
        self._config = config
        self._weights = weights
        self._epsilon = np.float32(config.get("rms_norm_eps", 1e-6))
        heads = int(config["num_attention_heads"])
        self._head_size = len(weights["model.layers.0.self_attn.q_proj.weight"]) // heads
        self._frequencies = _frequencies(config, self._head_size)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The checkpoint in `folder`, which may be a GGUF file; raises ModelError for one that is damaged or not known
        here."""
        checkpoint = Checkpoint.open(folder, any_type=True)
        return cls(checkpoint.config, checkpoint.weights)

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """For each sequence (T,), log p of each token but the first, given the tokens before it: (T - 1,)."""
        table = self._weights["model.embed_tokens.weight"]
        hidden = [table[list(ids)] for ids in sequences]
        for layer in range(int(self._config["num_hidden_layers"])):
            name = f"model.layers.{layer}."
            own = {key.removeprefix(name): self._weights[key] for key in self._weights if key.startswith(name)}
            window = self._window(layer)
            hidden = [self._layer(x, own, window) for x in hidden]
        is_tied = self._config.get("tie_word_embeddings") or "lm_head.weight" not in self._weights
        head = table if is_tied else self._weights["lm_head.weight"]
        last = {"norm.weight": self._weights["model.norm.weight"]}
        return [
            _log_probs_of(self._norm(x, last, "norm") @ head.T, ids) for x, ids in zip(hidden, sequences, strict=True)
        ]

    def rotations(self, length: int) -> tuple[Floats, Floats]:
        """Cosines and sines of the rotary positions of a text of `length` tokens, (T, H / 2) each."""
        angles = np.arange(length, dtype=np.float32)[:, None] * self._frequencies
        return np.cos(angles), np.sin(angles)

    def _layer(self, x: Floats, weights: Weights, window: int | None) -> Floats:
        x = x + self._attend(self._norm(x, weights, "input_layernorm"), weights, window)
        normal = self._norm(x, weights, "post_attention_layernorm")
        gate = _linear(normal, weights, "mlp.gate_proj")
        inner = gate / (1 + np.exp(-gate)) * _linear(normal, weights, "mlp.up_proj")
        return x + _linear(inner, weights, "mlp.down_proj")

    def _attend(self, x: Floats, weights: Weights, window: int | None) -> Floats:
        q, k, v = (
            _linear(x, weights, f"self_attn.{part}_proj").reshape(len(x), -1, self._head_size).swapaxes(0, 1)
            for part in ("q", "k", "v")
        )  # (N or K, T, H)
        if "self_attn.q_norm.weight" in weights:
            q, k = self._norm(q, weights, "self_attn.q_norm"), self._norm(k, weights, "self_attn.k_norm")
        cosines, sines = self.rotations(len(x))
        q, k = _rotate(q, cosines, sines), _rotate(k, cosines, sines)
        k, v = (np.repeat(some, len(q) // len(some), axis=0) for some in (k, v))
        scores = q @ k.swapaxes(1, 2) / np.float32(math.sqrt(self._head_size))  # (N, T, T)
        mask = np.tri(len(x), dtype=bool)
        if window is not None:
            mask &= ~np.tri(len(x), k=-window, dtype=bool)
        scores = np.where(mask, scores, np.float32(-np.inf))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (shares / shares.sum(axis=-1, keepdims=True)) @ v
        return _linear(mixed.swapaxes(0, 1).reshape(len(x), -1), weights, "self_attn.o_proj")

    def _window(self, layer: int) -> int | None:
        """The number of tokens that a token of this layer attends to, itself included; None: all before it."""
        config = self._config
        if config.get("model_type") == "mistral":
            window = config.get("sliding_window", 4096)
        elif config.get("use_sliding_window"):
            layer_types = config.get("layer_types")
            is_local = (
                layer_types[layer] == "sliding_attention"
                if layer_types
                else layer >= config.get("max_window_layers", 28)
            )
            window = config.get("sliding_window", 4096) if is_local else None
        else:
            window = None
        return None if window is None else int(window)

    def _norm(self, x: Floats, weights: Weights, name: str) -> Floats:
        scale = np.sqrt((x * x).mean(axis=-1, keepdims=True) + self._epsilon)
        normal: Floats = x / scale * weights[f"{name}.weight"]
        return normal


def _linear(x: Floats, weights: Weights, name: str) -> Floats:
    y: Floats = x @ weights[f"{name}.weight"].T
    return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y


def _log_probs_of(logits: Floats, ids: Sequence[int]) -> Floats:
    """Logits (T, V) -> log-probabilities of the tokens after the first, (T - 1,)."""
    logits = logits[:-1] - logits[:-1].max(axis=1, keepdims=True)
    chosen: Floats = logits[np.arange(len(logits)), list(ids[1:])] - np.log(np.exp(logits).sum(axis=1))
    return chosen


def _rotate(x: Floats, cosines: Floats, sines: Floats) -> Floats:
    """Each number of the first half of a head with its partner in the second half, by their angle at each position."""
    half = x.shape[-1] // 2
    one, other = x[..., :half], x[..., half:]
    rotated: Floats = np.concatenate((one * cosines - other * sines, other * cosines + one * sines), axis=-1)
    return rotated


def _frequencies(config: Mapping[str, Any], head_size: int) -> Floats:
    """Radians per position, (H / 2,)."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    base = scaling.get("rope_theta") or config.get("rope_theta") or 10_000.0
    exponents = np.arange(0, head_size, 2, dtype=np.float32) / np.float32(head_size)
    plain: Floats = np.float32(1) / np.float32(base) ** exponents
    if kind in ("default", "dynamic"):  # dynamic differs beyond the model's positions
        return plain
    if kind == "linear":
        return plain / np.float32(scaling["factor"])
    if kind == "llama3":
        # A pair with more than `high` rotations within the original context keeps its frequency, one with less than
        # `low` has it divided by the factor; between the two, frequencies are interpolated.
        rotations = scaling["original_max_position_embeddings"] * plain / (2 * math.pi)
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        kept: Floats = np.clip((rotations - low) / (high - low), 0, 1).astype(np.float32)
        slowed: Floats = plain / np.float32(scaling["factor"])
        return plain * kept + slowed * (1 - kept)
    raise ModelError(
        f"rope_type is {kind}, which only the reference in transformers supports (of checkpoints, not of GGUF files): "
        "install torch and transformers"
    )
