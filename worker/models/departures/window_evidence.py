"""
Whether a graph's attention has the windows that the configuration asks for.

A window of W lets a token see itself and the W - 1 before it. Up to W tokens it changes nothing, so a graph without it
is right for texts of up to W tokens.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from worker.models.departures.attention_evidence import FUSED
from worker.models.departures.evidence import Departure, Limit
from worker.models.departures.graph_content import Constant, GraphContent, Node
from worker.models.departures.window_probe import windows_are_exact
from worker.models.layout.causal_config import CausalConfig

_LOCAL = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
_COMPARING = ("Sub", "Add", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Div", "Mod")
# Which layers are local where `layer_types` does not say it: all but each one of so many.
_PATTERNS = {"gemma2": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4}
_LARGEST_MASK = 1 << 26  # numbers


def window_departures(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """A window that is asked for and not shown is a limit."""
    for name, window, is_local in asked_windows(config):
        if window < (config.max_position_embeddings or window + 1) and not _shows(content, window, is_local):
            yield Limit(window, f"config.json asks for {name} = {window:,}, which is not seen in the graph")


def asked_windows(config: CausalConfig) -> Iterator[tuple[str, int, Sequence[bool]]]:
    """The name of each kind of window, its size, and which layers have it; no layer is named where that is unknown."""
    said, layers = config.said, config.num_hidden_layers or 0
    kinds = said.get("layer_types")
    if isinstance(kinds, list) and kinds:
        for kind, name in _LOCAL.items():
            if kind in kinds and (window := _size(said.get(name))):
                yield name, window, [one == kind for one in kinds]
    elif said.get("model_type") == "gpt_neo":
        if "local" in str(said.get("attention_layers") or said.get("attention_types")) and (
            window := _size(said.get("window_size"))
        ):
            yield "window_size", window, ()
    elif said.get("model_type") != "llama" and said.get("use_sliding_window", True):
        pattern = _size(said.get("sliding_window_pattern")) or _PATTERNS.get(str(said.get("model_type")))
        first = (_size(said.get("max_window_layers")) or 0) if "use_sliding_window" in said else 0
        if window := _size(said.get("sliding_window")):
            yield (
                "sliding_window",
                window,
                [bool((n + 1) % pattern) if pattern else n >= first for n in range(layers)],
            )


def _shows(content: GraphContent, window: int, is_local: Sequence[bool]) -> bool:
    if fused := content.of(*FUSED):
        return _has_windows(fused, window, is_local)
    return _compares(content, window) or any(_is_band(one, window) for one in content.constants.values())


def _has_windows(fused: Sequence[Node], window: int, is_local: Sequence[bool]) -> bool:
    """Layer by layer, where a kernel counts as the models do."""
    sizes = [int(node.attributes.get("local_window_size", -1)) for node in fused]
    if not is_local or len(is_local) != len(sizes):
        return window in sizes and windows_are_exact()
    wanted = [size == window if local else size < 1 for size, local in zip(sizes, is_local, strict=True)]
    return all(wanted) and windows_are_exact()


def _compares(content: GraphContent, window: int) -> bool:
    """Whether places are compared with the window."""
    for node in content.of(*_COMPARING):
        for name in node.inputs:
            constant = content.constant(name)
            if constant is None or constant.size != 1 or constant.dtype.kind != "i":
                continue
            if abs(int(constant.values().reshape(-1)[0])) in (window, window - 1):
                return True
    return False


def _is_band(constant: Constant, window: int) -> bool:
    """Whether a table (.., Q, K) of what a token sees lets it see a window, as GPT-Neo's does."""
    shape = constant.shape
    if (
        constant.dtype != np.bool_
        or len(shape) < 2
        or not window < shape[-1] == shape[-2]
        or constant.size > _LARGEST_MASK
    ):
        return False
    table = constant.values().reshape(-1, shape[-2], shape[-1])[0]
    return bool((table[window:].sum(axis=1) == window).all())


def _size(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None
