"""Nodes and constants of an ONNX file."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from jobs.errors import ModelError
from worker.models.departures.graph_content import GraphContent


@pytest.mark.parametrize("place", ["in the graph", "in a file of its own"])
def test_large_constants_are_read_on_demand(tmp_path, place):
    large = np.random.default_rng(0).normal(size=(600, 512)).astype(np.float32)  # 1.2 MB
    floats = helper.make_tensor("floats", TensorProto.FLOAT, large.shape, large.ravel())  # no raw bytes
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "large"], ["y"])],
        "large",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(large, "large"), floats],
    )
    external = {"save_as_external_data": True, "location": "w.data"} if place == "in a file of its own" else {}
    onnx.save(helper.make_model(graph), tmp_path / "model.onnx", **external)

    content = GraphContent.read(tmp_path / "model.onnx")

    for name in ("large", "floats"):
        assert content.constants[name].shape == (600, 512)
        np.testing.assert_array_equal(content.constants[name].values(), large)
    if external:
        (tmp_path / "w.data").write_bytes(b"short")
        with pytest.raises(ModelError, match=r"w\.data .*large"):
            content.constants["large"].values()


@pytest.mark.parametrize("content", [b"", b"nonsense", json.dumps({}).encode()])
def test_a_file_that_is_not_a_graph_is_refused(tmp_path, content):
    (tmp_path / "model.onnx").write_bytes(content)

    with pytest.raises(ModelError, match=r"model\.onnx .*ONNX graph"):
        GraphContent.read(tmp_path / "model.onnx")
