"""
Lengths at which a causal model may begin to read texts in another way: what a configuration names as a limit.

    max_position_embeddings (n_positions, max_seq_len, seq_length ...)    positions that there are, or were trained
    original_max_position_embeddings                                      where rotary scaling may begin
    sliding_window, window_size, attention_chunk_size                     how far a token sees
    alibi                                                                 Falcon's, where bfloat16 begins to round it

Knows: names. Does not know: whether a graph keeps to them.
"""

from collections.abc import Mapping

from worker.models.departures.attention_evidence import EXACT_IN_BFLOAT16
from worker.models.layout.causal_config import CausalConfig

_POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "context_length", "seq_length")
_ORIGINAL = "original_max_position_embeddings"
_WINDOWS = ("sliding_window", "window_size", "attention_chunk_size")


def named_limits(config: CausalConfig) -> dict[str, int]:
    """Tokens by the name of each limit, the shortest first."""
    said = config.said
    found = {name: said.get(name) for name in (*_POSITIONS, _ORIGINAL, *_WINDOWS)}
    for scaling in (said.get("rope_scaling"), said.get("rope_parameters")):
        if isinstance(scaling, Mapping):
            found[_ORIGINAL] = found[_ORIGINAL] or scaling.get(_ORIGINAL)
    if said.get("alibi") and said.get("model_type") == "falcon":
        found["alibi"] = EXACT_IN_BFLOAT16 + 1
    limits = {name: value for name, value in found.items() if type(value) is int and value > 0}
    return dict(sorted(limits.items(), key=lambda limit: limit[1]))
