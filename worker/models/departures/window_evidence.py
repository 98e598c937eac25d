"""
Whether a graph's attention has the sliding windows that the configuration asks for.

With a window of W, a token attends to itself and to the W - 1 before it. Up to W tokens that changes nothing, so a
graph without the window is right for texts of up to W tokens.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from worker.models.departures.attention_evidence import FUSED
from worker.models.departures.evidence import Departure, Limit
from worker.models.departures.graph_content import ConstantTensor, GraphContent, Node
from worker.models.departures.window_probe import windows_are_exact
from worker.models.layout.causal_config import CausalConfig

_LOCAL = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
_COMPARING = ("Sub", "Add", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Div", "Mod")
# The layers without a window, where `layer_types` is missing: every n-th.
_PATTERNS = {"gemma2": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4}
_LARGEST_MASK = 1 << 26  # numbers


def window_departures(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """A limit for each window that the graph does not show."""
    for name, window, is_local in configured_windows(config):
        if window < (config.max_position_embeddings or window + 1) and not _shows(content, window, is_local):
            yield Limit(window, f"config.json asks for {name} = {window:,}, which is not seen in the graph")


def configured_windows(config: CausalConfig) -> Iterator[tuple[str, int, Sequence[bool]]]:
    """The name of each window, its size, and whether each layer has it; the last is empty where that is unknown."""
    settings, layers = config.content, config.num_hidden_layers or 0
    kinds = settings.get("layer_types")
    if isinstance(kinds, list) and kinds:
        for kind, name in _LOCAL.items():
            if kind in kinds and (window := _size(settings.get(name))):
                yield name, window, [layer_kind == kind for layer_kind in kinds]
    elif settings.get("model_type") == "gpt_neo":
        if "local" in str(settings.get("attention_layers") or settings.get("attention_types")) and (
            window := _size(settings.get("window_size"))
        ):
            yield "window_size", window, ()
    elif settings.get("model_type") != "llama" and settings.get("use_sliding_window", True):
        pattern = _size(settings.get("sliding_window_pattern")) or _PATTERNS.get(str(settings.get("model_type")))
        first = (_size(settings.get("max_window_layers")) or 0) if "use_sliding_window" in settings else 0
        if window := _size(settings.get("sliding_window")):
            yield (
                "sliding_window",
                window,
                [bool((n + 1) % pattern) if pattern else n >= first for n in range(layers)],
            )


def _shows(content: GraphContent, window: int, is_local: Sequence[bool]) -> bool:
    if fused := content.nodes_of(*FUSED):
        return _has_windows(fused, window, is_local)
    return _compares(content, window) or any(_is_band(constant, window) for constant in content.constants.values())


def _has_windows(fused: Sequence[Node], window: int, is_local: Sequence[bool]) -> bool:
    """Whether each fused node has the window of its layer, and onnxruntime counts windows as the models do."""
    sizes = [int(node.attributes.get("local_window_size", -1)) for node in fused]
    if not is_local or len(is_local) != len(sizes):
        return window in sizes and windows_are_exact()
    wanted = [size == window if local else size < 1 for size, local in zip(sizes, is_local, strict=True)]
    return all(wanted) and windows_are_exact()


def _compares(content: GraphContent, window: int) -> bool:
    """Whether positions are compared with the window."""
    for node in content.nodes_of(*_COMPARING):
        for name in node.inputs:
            constant = content.constant(name)
            if constant is None or constant.size != 1 or constant.dtype.kind != "i":
                continue
            if abs(int(constant.values().reshape(-1)[0])) in (window, window - 1):
                return True
    return False


def _is_band(constant: ConstantTensor, window: int) -> bool:
    """Whether a constant (.., Q, K) is a mask with this window, as GPT-Neo's."""
    shape = constant.shape
    if (
        constant.dtype != np.bool_
        or len(shape) < 2
        or not window < shape[-1] == shape[-2]
        or constant.size > _LARGEST_MASK
    ):
        return False
    mask = constant.values().reshape(-1, shape[-2], shape[-1])[0]
    return bool((mask[window:].sum(axis=1) == window).all())


def _size(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None
