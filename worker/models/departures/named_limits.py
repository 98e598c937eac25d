"""
The limits that a configuration names: text lengths beyond which a causal model may compute differently.

    max_position_embeddings (n_positions, max_seq_len, seq_length ...)    number of positions
    original_max_position_embeddings                                      where rotary scaling may begin
    sliding_window, window_size, attention_chunk_size                     how many tokens a token attends to
    alibi                                                                 Falcon's, where bfloat16 begins to round it

Knows: names of settings. Does not know: whether a graph follows them.
"""

from collections.abc import Mapping

from worker.models.departures.attention_evidence import EXACT_IN_BFLOAT16
from worker.models.layout.causal_config import CausalConfig

_POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "context_length", "seq_length")
_ORIGINAL = "original_max_position_embeddings"
_WINDOWS = ("sliding_window", "window_size", "attention_chunk_size")


def named_limits(config: CausalConfig) -> dict[str, int]:
    """Number of tokens by the name of each limit, the shortest first."""
    settings = config.content
    found = {name: settings.get(name) for name in (*_POSITIONS, _ORIGINAL, *_WINDOWS)}
    for scaling in (settings.get("rope_scaling"), settings.get("rope_parameters")):
        if isinstance(scaling, Mapping):
            found[_ORIGINAL] = found[_ORIGINAL] or scaling.get(_ORIGINAL)
    if settings.get("alibi") and settings.get("model_type") == "falcon":
        found["alibi"] = EXACT_IN_BFLOAT16 + 1
    limits = {name: value for name, value in found.items() if type(value) is int and value > 0}
    return dict(sorted(limits.items(), key=lambda limit: limit[1]))
