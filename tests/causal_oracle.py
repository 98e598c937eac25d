"""A causal language model in plain numpy, one sequence at a time, in float64: slow, and short enough to be believed.

Written from transformers 4.57 modeling_llama.py, modeling_qwen2.py and modeling_qwen3.py; plain rotary positions alone.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from worker.engine.causal.protocol import Group
from worker.models.json_file import read_json

Array = NDArray[np.float64]


class Oracle:
    """The checkpoint of a folder."""

    def __init__(self, checkpoint: Path) -> None:
        self._config: Mapping[str, Any] = read_json(checkpoint / "config.json")
        loaded = load_file(checkpoint / "model.safetensors")
        self._weights = {name: tensor.astype(np.float64) for name, tensor in loaded.items()}

    def of_group(self, group: Group) -> list[Array]:
        """What `Reader.read` says of a group."""
        return [self.log_probs([*group.prefix, *suffix], max(1, len(group.prefix))) for suffix in group.suffixes]

    def log_probs(self, ids: Sequence[int], first: int) -> Array:
        """Of each token from the `first` on."""
        logits = self._hidden(ids) @ self._head().T  # (S, V)
        largest = logits.max(axis=1, keepdims=True)
        log_probs = logits - largest - np.log(np.exp(logits - largest).sum(axis=1, keepdims=True))
        return log_probs[np.arange(first - 1, len(ids) - 1), list(ids[first:])]

    def _head(self) -> Array:
        return self._weights.get("lm_head.weight", self._weights["model.embed_tokens.weight"])

    def _hidden(self, ids: Sequence[int]) -> Array:
        x = self._weights["model.embed_tokens.weight"][list(ids)]
        for layer in range(self._config["num_hidden_layers"]):
            name = f"model.layers.{layer}"
            x = x + self._attention(self._norm(x, f"{name}.input_layernorm"), f"{name}.self_attn")
            inner = self._norm(x, f"{name}.post_attention_layernorm")
            gate = self._linear(inner, f"{name}.mlp.gate_proj")
            gated = gate / (1 + np.exp(-gate)) * self._linear(inner, f"{name}.mlp.up_proj")
            x = x + self._linear(gated, f"{name}.mlp.down_proj")
        return self._norm(x, "model.norm")

    def _attention(self, x: Array, name: str) -> Array:
        heads, groups = self._config["num_attention_heads"], self._config["num_key_value_heads"]
        q, k, v = (
            self._linear(x, f"{name}.{part}_proj").reshape(len(x), count, -1)
            for part, count in (("q", heads), ("k", groups), ("v", groups))
        )  # (S, N or K, H)
        if f"{name}.q_norm.weight" in self._weights:
            q, k = self._norm(q, f"{name}.q_norm"), self._norm(k, f"{name}.k_norm")
        q, k = self._turn(q), self._turn(k)
        distance = np.arange(len(x))[:, None] - np.arange(len(x))
        is_seen = distance >= 0
        if window := self._config.get("sliding_window"):
            is_seen &= distance < window
        attended = np.empty_like(q)
        for head in range(heads):
            of = head * groups // heads
            scores = np.where(is_seen, q[:, head] @ k[:, of].T * q.shape[2] ** -0.5, -np.inf)
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            attended[:, head] = shares / shares.sum(axis=1, keepdims=True) @ v[:, of]
        return self._linear(attended.reshape(len(x), -1), f"{name}.o_proj")

    def _turn(self, x: Array) -> Array:
        half = x.shape[2] // 2
        angles = np.arange(len(x))[:, None] * self._config["rope_theta"] ** (-np.arange(half) / half)  # (S, H / 2)
        cosines, sines = np.cos(angles)[:, None], np.sin(angles)[:, None]
        one, other = x[..., :half], x[..., half:]
        return np.concatenate((one * cosines - other * sines, other * cosines + one * sines), axis=2)

    def _norm(self, x: Array, name: str) -> Array:
        mean = (x**2).mean(axis=-1, keepdims=True)
        return x / np.sqrt(mean + self._config["rms_norm_eps"]) * self._weights[f"{name}.weight"]

    def _linear(self, x: Array, name: str) -> Array:
        return x @ self._weights[f"{name}.weight"].T + self._weights.get(f"{name}.bias", 0.0)
