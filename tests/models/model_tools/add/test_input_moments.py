"""What the products of a causal model read, layer by layer."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from safetensors.numpy import load_file

from tests.causal_checkpoints import write_causal_checkpoint
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.graphs import body_graph
from worker.graphs.causal.weights import CausalWeights
from worker.graphs.file_names import BODY, WEIGHTS
from worker.graphs.matrix_products import ReadProducts
from worker.graphs.precision import Precision
from worker.graphs.rounding import inverse_factor
from worker.graphs.weights import WeightsFile
from worker.kernels.mixing import mix
from worker.model_tools.add import input_moments, int8_drift
from worker.models.json_file import read_json

TEXTS = [[5, 6, 7, 8, 9, 10, 11], [12, 13, 14], [200, 100, 50, 25, 12]]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_causal_checkpoint(tmp_path / "tiny", "qwen2", layers=3)


def test_a_layer_at_a_time_reads_what_the_whole_body_reads(checkpoint, tmp_path):
    config, weights = read_json(checkpoint / "config.json"), load_file(checkpoint / "model.safetensors")
    sizes, products = read_sizes(config), ReadProducts()
    moments = input_moments.InputMoments(sizes, CausalWeights(weights, sizes), TEXTS, tmp_path)
    with WeightsFile(tmp_path / WEIGHTS) as store:
        net = body_graph(sizes, store, CausalWeights(weights, sizes), Precision.FP32, products=products)
    products.show(net)
    (tmp_path / BODY).write_bytes(net.model().SerializeToString())
    body = onnxruntime.InferenceSession(tmp_path / BODY)
    read = products.inputs | {"head": "hidden"}
    past = {
        one.name: np.zeros((1, sizes.kv_heads, 0, sizes.head_size), np.float32)
        for one in body.get_inputs()
        if one.name.startswith("past.")
    }
    rows = [
        body.run(list(read.values()), {"ids": np.array(text)} | input_moments.one_row(len(text)) | past)
        for text in TEXTS
    ]

    for product, of_texts in zip(read, zip(*rows, strict=True), strict=True):
        x = mix(np.concatenate(of_texts))
        expected = inverse_factor(x.T @ x)
        np.testing.assert_allclose(moments.factor(product), expected, rtol=0, atol=2e-3 * np.abs(expected).max())
    assert {product.split(".")[-1] for product in read} == {"qkv", "out", "gate_proj", "up_proj", "down_proj", "head"}


def test_the_drift_is_measured_on_other_texts_than_weights_are_rounded_on():
    rounded, measured = (
        {json.loads(line)["text"] for line in file.read_text(encoding="utf-8").splitlines()}
        for file in (input_moments.TEXTS, int8_drift.SAMPLE)
    )

    assert rounded
    assert measured
    assert not rounded & measured
