"""
A cross-encoder in numpy, computed from the weights of a checkpoint, one pair at a time.

The reference for native graphs where transformers is not installed, and for tests. Written after modeling_bert.py,
modeling_roberta.py and modeling_modernbert.py of transformers 4.57. It shares no code with worker/graphs, so an error
there is not repeated here.

Shapes: T length · D width · F inner width · N heads · H head size.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from jobs.errors import ModelError
from worker.model_tools.verify.numpy_parts import ACTIVATIONS, Floats, Weights
from worker.models.checkpoint.checkpoint import Checkpoint


class NumpyCrossEncoder:
    """Logits of pairs."""

    name = "checkpoint, in numpy"

    def __init__(self, config: Mapping[str, Any], weights: Weights) -> None:
        self._config = config
        self._weights = weights
        self._heads = int(config["num_attention_heads"])
        self._epsilon = float(config.get("layer_norm_eps", config.get("norm_eps", 1e-5)))

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The checkpoint in `folder`; raises ModelError for one that is damaged."""
        checkpoint = Checkpoint.open(folder)
        return cls(checkpoint.config, checkpoint.weights)

    def logit(self, ids: Sequence[int], types: Sequence[int]) -> float:
        """The logit of a pair (T,)."""
        if self._config["model_type"] == "modernbert":
            return self._modernbert(ids)
        return self._bert(ids, types)

    def _bert(self, ids: Sequence[int], types: Sequence[int]) -> float:
        config, weights = self._config, self._weights
        body = "bert" if config["model_type"] == "bert" else "roberta"
        first = 0 if body == "bert" else int(config.get("pad_token_id", 1)) + 1
        tables = f"{body}.embeddings."
        x = weights[f"{tables}word_embeddings.weight"][list(ids)]
        x = x + weights[f"{tables}token_type_embeddings.weight"][list(types)]
        x = x + weights[f"{tables}position_embeddings.weight"][first : first + len(ids)]
        x = self._norm(x, f"{tables}LayerNorm")
        activate = self._activation(config.get("hidden_act", "gelu"))
        for layer in range(int(config["num_hidden_layers"])):
            name = f"{body}.encoder.layer.{layer}."
            q, k, v = (self._linear(x, f"{name}attention.self.{part}") for part in ("query", "key", "value"))
            attended = self._linear(self._attend(q, k, v, None), f"{name}attention.output.dense")
            x = self._norm(x + attended, f"{name}attention.output.LayerNorm")
            inner = activate(self._linear(x, f"{name}intermediate.dense"))
            x = self._norm(x + self._linear(inner, f"{name}output.dense"), f"{name}output.LayerNorm")
        dense, out = (
            ("bert.pooler.dense", "classifier") if body == "bert" else ("classifier.dense", "classifier.out_proj")
        )
        return float(self._linear(np.tanh(self._linear(x[:1], dense)), out)[0, 0])

    def _modernbert(self, ids: Sequence[int]) -> float:
        config = self._config
        x = self._norm(self._weights["model.embeddings.tok_embeddings.weight"][list(ids)], "model.embeddings.norm")
        activate = self._activation(config.get("hidden_activation", "gelu"))
        every, window = int(config.get("global_attn_every_n_layers", 3)), int(config.get("local_attention", 128)) // 2
        theta, local = config.get("global_rope_theta", 160_000.0), config.get("local_rope_theta", 10_000.0)
        for layer in range(int(config["num_hidden_layers"])):
            name, is_local = f"model.layers.{layer}.", layer % every != 0
            read = self._norm(x, f"{name}attn_norm") if layer else x
            q, k, v = np.split(self._linear(read, f"{name}attn.Wqkv"), 3, axis=1)
            base = float(local if is_local and local is not None else theta)
            attended = self._attend(self._rotate(q, base), self._rotate(k, base), v, window if is_local else None)
            x = x + self._linear(attended, f"{name}attn.Wo")
            inner, gate = np.split(self._linear(self._norm(x, f"{name}mlp_norm"), f"{name}mlp.Wi"), 2, axis=1)
            x = x + self._linear(activate(inner) * gate, f"{name}mlp.Wo")
        x = self._norm(x, "model.final_norm")
        pooled = x[:1] if config.get("classifier_pooling", "cls") == "cls" else x.mean(axis=0, keepdims=True)
        dense = self._activation(config.get("classifier_activation", "gelu"))(self._linear(pooled, "head.dense"))
        return float(self._linear(self._norm(dense, "head.norm"), "classifier")[0, 0])

    def _attend(self, q: Floats, k: Floats, v: Floats, window: int | None) -> Floats:
        """(T, D) each -> (T, D)."""
        length, width = q.shape
        q, k, v = (x.reshape(length, self._heads, -1).transpose(1, 0, 2) for x in (q, k, v))  # (N, T, H)
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(width // self._heads)
        if window is not None:
            positions = np.arange(length)
            scores = np.where(np.abs(positions[:, None] - positions) <= window, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return np.asarray((weights @ v).transpose(1, 0, 2).reshape(length, width), np.float32)

    def _rotate(self, x: Floats, base: float) -> Floats:
        """Rotary positions: (T, D) -> (T, D)."""
        by_head = x.reshape(len(x), self._heads, -1)  # (T, N, H)
        half = by_head.shape[2] // 2
        angles = np.arange(len(x))[:, None] * base ** (-np.arange(half) / half)
        cosines, sines = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]  # (T, 1, H / 2)
        first, second = by_head[..., :half], by_head[..., half:]
        rotated = np.concatenate((first * cosines - second * sines, second * cosines + first * sines), axis=2)
        return np.asarray(rotated.reshape(x.shape), np.float32)

    def _linear(self, x: Floats, name: str) -> Floats:
        product = x @ self._weights[f"{name}.weight"].T
        return product + self._weights[f"{name}.bias"] if f"{name}.bias" in self._weights else product

    def _norm(self, x: Floats, name: str) -> Floats:
        x = x - x.mean(axis=-1, keepdims=True)
        scaled = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self._epsilon) * self._weights[f"{name}.weight"]
        return np.asarray(scaled + self._weights.get(f"{name}.bias", np.float32(0)), np.float32)

    def _activation(self, name: Any) -> Callable[[Floats], Floats]:
        if name not in ACTIVATIONS:
            raise ModelError(f"the activation {name!r} is not known in numpy")
        return ACTIVATIONS[name]
