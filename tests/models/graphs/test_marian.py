"""Building Marian graphs: the same bytes each time, and missing weights are refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file

from jobs.errors import ModelError
from tests.places import GOLDEN
from worker.graphs.file_names import DECODER, ENCODER, WEIGHTS
from worker.graphs.graph_builder import IR_VERSION, OPSET
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.graphs import rebuild_decoder, write_seq2seq
from worker.models.json_file import read_json

FAMILIES = ("tiny-swish-tied", "tiny-relu-tied", "tiny-swish-separate", "tiny-relu-separate")


def config_of(family: str) -> dict[str, Any]:
    return read_json(GOLDEN / family / "config.json")


def weights_of(family: str) -> dict[str, Any]:
    weights: dict[str, Any] = load_file(GOLDEN / f"{family}.safetensors")
    return weights


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("precision", Precision)
def test_the_same_weights_give_the_same_bytes(tmp_path: Path, family: str, precision: Precision) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_seq2seq(tmp_path / name, config_of(family), weights_of(family), precision=precision)

    for file in (ENCODER, DECODER, WEIGHTS):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("precision", Precision)
def test_graphs_are_valid_and_use_versions_that_old_runtimes_read(
    tmp_path: Path, family: str, precision: Precision
) -> None:
    write_seq2seq(tmp_path, config_of(family), weights_of(family), precision=precision)

    for file in (ENCODER, DECODER):
        model = onnx.load(str(tmp_path / file), load_external_data=False)
        assert model.ir_version == IR_VERSION == 10
        assert {opset.domain: opset.version for opset in model.opset_import}[""] == OPSET == 21
        assert len({node.name for node in model.graph.node}) == len(model.graph.node), "needed for profiles"
        assert {"encoder": 1, "decoder": 9}[model.graph.name] <= len(model.graph.input)


@pytest.mark.parametrize("precision", Precision)
def test_a_decoder_for_beams_needs_no_new_weights(tmp_path: Path, precision: Precision) -> None:
    """The graph for single rows is rebuilt as it was written; the one for four beams refers to the same tensors."""
    config = config_of("tiny-relu-separate")
    write_seq2seq(tmp_path, config, weights_of("tiny-relu-separate"), precision=precision)
    size = (tmp_path / WEIGHTS).stat().st_size

    single, four = (rebuild_decoder(tmp_path / "decoder.onnx", config, precision, beams=beams) for beams in (1, 4))

    assert single == (tmp_path / DECODER).read_bytes()
    external = [
        {tensor.name for tensor in onnx.load_from_string(graph).graph.initializer if tensor.external_data}
        for graph in (single, four)
    ]
    assert external[0] == external[1]
    assert (tmp_path / WEIGHTS).stat().st_size == size


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    weights = weights_of("tiny-swish-tied")
    del weights["model.decoder.layers.1.encoder_attn.k_proj.bias"]

    with pytest.raises(ModelError, match=r"model\.decoder\.layers\.1\.encoder_attn\.k_proj\.bias"):
        write_seq2seq(tmp_path, config_of("tiny-swish-tied"), weights, precision=Precision.FP32)


def test_int8_keeps_the_largest_number_of_each_column_and_zeros_exactly(tmp_path: Path) -> None:
    weights = weights_of("tiny-relu-separate")
    weights["model.decoder.layers.0.fc1.weight"][3] = 0
    write_seq2seq(tmp_path, config_of("tiny-relu-separate"), weights, precision=Precision.INT8)

    tensors = {tensor.name: tensor for tensor in onnx.load(str(tmp_path / DECODER)).graph.initializer}
    stored = onnx.numpy_helper.to_array(tensors["decoder.layers.0.fc1.int8"])  # (K, N)
    scales = onnx.numpy_helper.to_array(tensors["decoder.layers.0.fc1.scales"])  # (N,)

    whole = weights["model.decoder.layers.0.fc1.weight"].T
    assert np.abs(stored).max(axis=0).tolist() == [0 if column == 3 else 127 for column in range(len(scales))]
    assert (abs(stored * scales - whole) <= scales / 2 * 1.0001).all()
