"""Sliding windows: which are found in a graph, and which limit the length of texts."""

from typing import Any

import numpy as np
import pytest

from tests.causal_exports import POSITIONS
from tests.messages import line_with
from tests.models.departures.node_graphs import SOFTMAX, find
from worker.models.departures import window_evidence
from worker.models.departures.departures import Departures

MISTRAL = {"model_type": "mistral", "sliding_window": 16}

COMPARED = [("Sub", ["places", np.int64(16)], {}), SOFTMAX]

BAND = np.tri(POSITIONS, dtype=bool) & ~np.tri(POSITIONS, k=-16, dtype=bool)


@pytest.mark.parametrize(
    "asked",
    [
        MISTRAL,
        {"model_type": "gemma2", "sliding_window": 16},
        {"model_type": "qwen2", "sliding_window": 16, "use_sliding_window": True, "max_window_layers": 1},
        {"model_type": "new", "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]},
        {"model_type": "new", "attention_chunk_size": 16, "layer_types": ["chunked_attention", "full_attention"]},
        {"model_type": "gpt_neo", "window_size": 16, "attention_layers": ["global", "local"]},
    ],
)
def test_a_window_that_the_graph_lacks_limits_the_length_of_texts(tmp_path, asked):
    limit = find(tmp_path, [("Add", ["heads", np.int64(16 * 16)], {}), SOFTMAX], **asked).limit

    assert limit is not None
    assert limit.positions == 16
    assert line_with(limit.text, " = 16", "not seen")
    assert find(tmp_path, COMPARED, **asked) == Departures()
    assert find(tmp_path, [("Slice", [BAND[None, None]], {}), SOFTMAX], **asked) == Departures()
    assert find(tmp_path, [("Slice", [np.tri(POSITIONS, dtype=bool)], {}), SOFTMAX], **asked).limit


@pytest.mark.parametrize(
    "asked",
    [
        {"model_type": "llama", "sliding_window": 16},
        {"model_type": "qwen2", "sliding_window": 16, "use_sliding_window": False},
        {"model_type": "new", "sliding_window": 16, "layer_types": ["full_attention", "full_attention"]},
        {"model_type": "gpt_neo", "window_size": 16, "attention_layers": ["global", "global"]},
        {"model_type": "mistral", "sliding_window": None},
        {"model_type": "mistral", "sliding_window": POSITIONS},
    ],
)
def test_a_window_that_no_layer_uses_is_no_limit(tmp_path, asked):
    assert find(tmp_path, [SOFTMAX], **asked) == Departures()


@pytest.mark.parametrize("is_exact", [True, False])
def test_windows_of_fused_attention_are_read_layer_by_layer(tmp_path, monkeypatch, is_exact):
    """They count only if onnxruntime's windows have the length that models mean."""
    monkeypatch.setattr(window_evidence, "windows_are_exact", lambda: is_exact)

    def is_limited(asked: dict[str, Any], *windows: int) -> bool:
        nodes = [("GroupQueryAttention", ["q"], {"local_window_size": window}) for window in windows]
        return find(tmp_path, nodes, **asked).limit is not None

    gemma = {"model_type": "gemma2", "sliding_window": 16}  # every second layer has no window
    assert is_limited(MISTRAL, 16, 16, 16) is not is_exact
    assert is_limited(gemma, 16, -1, 16) is not is_exact
    assert is_limited(gemma, -1, 16, -1)
    assert is_limited(MISTRAL, 16, -1, 16)
    assert is_limited(MISTRAL, 8, 8, 8)
