"""Graphs of a few nodes, written as exporters write a setting; they are analysed and never run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.causal_exports import BASE, PAIRS, POSITIONS
from worker.models.departures.departures import Departures, find_departures
from worker.models.layout.causal_config import CausalConfig

PLAIN = BASE ** (-np.arange(PAIRS) / PAIRS)

SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3, "max_position_embeddings": POSITIONS}

SOFTMAX = ("Softmax", ["scores"], {})


def find(tmp_path: Path, nodes: Sequence[tuple[str, list[Any], dict[str, Any]]], **config: Any) -> Departures:
    """Departures found in a graph of these nodes: (operator, inputs, attributes); an input is a name or a constant."""
    initializers, made = [], []
    for place, (op, inputs, attributes) in enumerate(nodes):
        names = []
        for value in inputs:
            if not isinstance(value, str):
                initializers.append(numpy_helper.from_array(np.asarray(value), f"constant.{len(initializers)}"))
                value = initializers[-1].name
            names.append(value)
        made.append(helper.make_node(op, names, [f"out.{place}"], **attributes))
    output = helper.make_tensor_value_info("out.0", TensorProto.FLOAT, None)
    file = tmp_path / "model.onnx"
    onnx.save(helper.make_model(helper.make_graph(made, "some", [], [output], initializers)), file)
    return find_departures(file, CausalConfig.of(SIZES | config, "config.json"))


def rotary_nodes(frequencies: np.ndarray, factor: float = 1.0) -> list[tuple[str, list[Any], dict[str, Any]]]:
    """The nodes that Optimum writes for rotary embeddings: angles are calculated in the graph, factor as a product."""
    return [
        ("MatMul", [frequencies.astype(np.float32)[:, None], "positions"], {}),
        ("Transpose", ["out.0"], {}),
        ("Concat", ["out.1", "out.1"], {"axis": -1}),
        ("Cos", ["out.2"], {}),
        ("Mul", ["out.3", np.float32(factor)], {}),
    ]


def rotary_tables(frequencies: np.ndarray, factor: float = 1.0) -> list[tuple[str, list[Any], dict[str, Any]]]:
    """The node that onnxruntime-genai writes for rotary embeddings: cosines and sines are tables, factor included."""
    angles = np.outer(np.arange(POSITIONS), frequencies)
    tables = [(factor * function(angles)).astype(np.float16) for function in (np.cos, np.sin)]
    return [("GroupQueryAttention", ["q", "k", "v", "", "", "ends", "longest", *tables], {})]
