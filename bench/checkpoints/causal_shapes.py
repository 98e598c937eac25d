"""The sizes of the random causal models.

Knows: numbers. Does not know: torch.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalShape:
    """The sizes of a model of the Qwen2 family."""

    layers: int
    width: int  # D
    heads: int  # N
    kv_heads: int  # K
    ffn: int
    vocab_size: int
    max_positions: int
    spread: float = 0.02  # standard deviation of the weights

    @property
    def head_size(self) -> int:
        return self.width // self.heads

    def config(self) -> dict[str, Any]:
        """The contents of config.json; what the shape leaves open is as in the published Qwen2.5-0.5B."""
        return {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "num_hidden_layers": self.layers,
            "hidden_size": self.width,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "intermediate_size": self.ffn,
            "vocab_size": self.vocab_size,
            "max_position_embeddings": self.max_positions,
            "max_window_layers": self.layers,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_theta": 1e6,
            "tie_word_embeddings": True,
            "use_sliding_window": False,
            "initializer_range": self.spread,
            "torch_dtype": "float32",
        }


CAUSAL_SHAPES = {
    # Qwen2.5-0.5B
    "qwen-shaped": CausalShape(
        layers=24, width=896, heads=14, kv_heads=2, ffn=4864, vocab_size=151_936, max_positions=32_768
    ),
    # Its first quarter, with a fifth of the vocabulary: for engines that take long to tune.
    "qwen-quarter": CausalShape(
        layers=6, width=896, heads=14, kv_heads=2, ffn=4864, vocab_size=32_000, max_positions=32_768
    ),
    # To try a benchmark in seconds.
    "qwen-tiny": CausalShape(layers=2, width=64, heads=4, kv_heads=2, ffn=128, vocab_size=1_024, max_positions=2_048),
}
