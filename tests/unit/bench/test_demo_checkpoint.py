"""The checkpoint that is recovered from an export. What it translates, `--check` compares with the golden ids."""

import json
from pathlib import Path

import numpy as np
import pytest

from jobs.errors import ModelError

onnx = pytest.importorskip("onnx", reason="onnx is not installed (pip install '.[bench]')")
pytest.importorskip("safetensors")

from bench.demo_checkpoint import DEMO, recover  # noqa: E402

GOLDEN = Path(__file__).parents[2] / "golden"


def test_every_weight_of_the_demo_model_is_recovered_under_its_own_name(tmp_path):
    weights = recover(DEMO, tmp_path)

    config = json.loads((tmp_path / "config.json").read_text())
    assert len(weights) == 2 + 16 * config["encoder_layers"] + 26 * config["decoder_layers"]
    assert weights["model.shared.weight"].shape == (config["vocab_size"], config["d_model"])
    assert weights["model.decoder.layers.2.encoder_attn.k_proj.weight"].shape == (128, 128)
    assert weights["model.encoder.layers.0.fc1.weight"].shape == (512, 128)
    assert (tmp_path / "target.spm").is_file()


def test_products_are_turned_to_the_way_that_transformers_writes_them(tmp_path):
    weights = recover(DEMO, tmp_path)

    graph = onnx.load(str(DEMO / "encoder_model.onnx")).graph
    node = next(node for node in graph.node if node.name == "/layers.1/fc2/MatMul")
    factor = next(tensor for tensor in graph.initializer if tensor.name == node.input[1])
    expected = onnx.numpy_helper.to_array(factor).T
    np.testing.assert_array_equal(weights["model.encoder.layers.1.fc2.weight"], expected)


def test_a_model_whose_vocabularies_are_separate_is_refused(tmp_path):
    with pytest.raises(ModelError, match="share their embedding"):
        recover(GOLDEN / "tiny-swish-separate", tmp_path / "out")

    assert not (tmp_path / "out").exists()
