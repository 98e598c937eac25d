"""A size comes from the graph; from the configuration only where the graph leaves it open."""

import numpy as np
import pytest

from jobs.errors import ModelError
from worker.models.layout.configured_sizes import ConfiguredSize, agreed_axis_size, axis_size, float_type
from worker.models.layout.graph_signature import GraphSignature, Tensor

GRAPH = GraphSignature("model.onnx", {}, {})
LOGITS = Tensor("logits", "tensor(float16)", ("batch", "length", 100))
KEY = Tensor("past.0.key", "tensor(float)", ("batch", "heads", "past", None))


def configured(value: int | None) -> ConfiguredSize:
    return ConfiguredSize("config.json", "vocab_size", value)


@pytest.mark.parametrize("value", [None, 100, 99])
def test_the_graph_decides_where_it_gives_a_size(value: int | None) -> None:
    assert axis_size(GRAPH, LOGITS, 2, configured(value)) == 100


def test_the_configuration_fills_what_the_graph_leaves_open() -> None:
    assert axis_size(GRAPH, KEY, 3, configured(64)) == agreed_axis_size(GRAPH, KEY, 1, configured(64)) == 64


def test_a_size_that_nothing_gives_is_refused() -> None:
    with pytest.raises(ModelError, match=r"model\.onnx \(past\.0\.key .*config\.json \(vocab_size\)"):
        agreed_axis_size(GRAPH, KEY, 3, configured(None))


def test_sizes_that_must_agree_and_differ_are_refused() -> None:
    with pytest.raises(ModelError, match=r"config\.json .*vocab_size = 99"):
        agreed_axis_size(GRAPH, LOGITS, 2, configured(99))


def test_only_float_types_are_supported() -> None:
    assert float_type(GRAPH, LOGITS) == np.float16
    with pytest.raises(ModelError, match=r"ids .*tensor\(int64\).*float.*float16"):
        float_type(GRAPH, Tensor("ids", "tensor(int64)", ("batch",)))
