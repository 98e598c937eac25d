"""Causal graphs: the same bytes each time, a tied head is stored once, weights that do not fit are refused."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import orjson
import pytest
from safetensors.numpy import load_file

from jobs.errors import ModelError
from tests.causal_checkpoints import ARCHITECTURES, write_causal_checkpoint
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.graphs import write_causal
from worker.graphs.causal.head import BLOCK, rebuild_head
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.file_names import BODY, HEAD, WEIGHTS
from worker.graphs.graph_builder import IR_VERSION, OPSET
from worker.graphs.precision import Precision
from worker.models.json_file import read_json


@pytest.mark.parametrize("family", ARCHITECTURES)
@pytest.mark.parametrize("precision", Precision)
def test_the_same_weights_give_the_same_bytes(tmp_path: Path, family: str, precision: Precision) -> None:
    checkpoint = write_causal_checkpoint(tmp_path / "checkpoint", family)
    weights = load_file(checkpoint / "model.safetensors")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_causal(tmp_path / name, read_json(checkpoint / "config.json"), weights, precision=precision)

    for file in (BODY, HEAD, WEIGHTS):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    for file in (BODY, HEAD):
        model = onnx.load(str(tmp_path / "one" / file), load_external_data=False)
        assert model.ir_version == IR_VERSION
        assert {opset.domain: opset.version for opset in model.opset_import}[""] == OPSET
        assert len({node.name for node in model.graph.node}) == len(model.graph.node), "needed for profiles"


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("precision", Precision)
def test_the_head_over_written_weights_is_the_written_head(tmp_path: Path, precision: Precision, tied: bool) -> None:
    sizes = write_with_head_of(2 * BLOCK + 5, tmp_path, precision, tied)
    assert rebuild_head(tmp_path, sizes, precision) == (tmp_path / HEAD).read_bytes()


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8])
def test_a_block_of_logits_is_read_before_the_next_is_computed(tmp_path: Path, precision: Precision) -> None:
    """Else all of them are in memory at once: 150 MB for 256 tokens and 150,000 ids."""
    write_with_head_of(2 * BLOCK + 5, tmp_path, precision, tied=True)
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(str(tmp_path / HEAD), options, providers=["CPUExecutionProvider"])
    session.run(None, {"hidden": np.ones((2, 32), np.float32), "targets": np.array([1, BLOCK])})
    events = orjson.loads(Path(session.end_profiling()).read_bytes())
    kernels = [event["args"]["op_name"] for event in events if event["name"].endswith("_kernel_time")]
    products = ("Gemm", "MatMulIntegerToFloat")
    reads = ("LogSoftmax", "GatherElements")
    order = "".join("p" if kind in products else "r" for kind in kernels if kind in (*products, *reads))
    assert order == "prr" * 3 + "r"  # the last one chooses among the blocks


def test_a_tied_head_of_several_blocks_is_not_stored_twice(tmp_path: Path) -> None:
    size = 2 * BLOCK + 5
    sizes = {}
    for tied in (True, False):
        write_with_head_of(size, tmp_path / f"{tied}", Precision.FP32, tied)
        sizes[tied] = (tmp_path / f"{tied}" / WEIGHTS).stat().st_size
    assert sizes[False] - sizes[True] >= size * 32 * 4


def write_with_head_of(vocab_size: int, folder: Path, precision: Precision, tied: bool) -> CausalSizes:
    """Write the graphs of a small model with such a vocabulary."""
    checkpoint = write_causal_checkpoint(folder, "qwen2", vocab_size=vocab_size, tied=tied)
    config = read_json(checkpoint / "config.json")
    write_causal(folder, config, load_file(checkpoint / "model.safetensors"), precision=precision)
    return read_sizes(config)


def test_a_checkpoint_that_does_not_fit_its_config_is_refused(tmp_path: Path) -> None:
    checkpoint = write_causal_checkpoint(tmp_path / "checkpoint", "llama")
    weights = load_file(checkpoint / "model.safetensors")
    config = read_json(checkpoint / "config.json")
    for name, changed, message in (
        (
            "one",
            {"vocab_size": 299},
            r"embed_tokens.weight has the shape \(300, 32\), and config.json gives",
        ),
        ("two", {"attention_bias": True}, "lacks the tensor model.layers.0.self_attn.q_proj.bias"),
        ("three", {"tie_word_embeddings": False}, "lacks the tensor lm_head.weight"),
    ):
        (tmp_path / name).mkdir()
        with pytest.raises(ModelError, match=message):
            write_causal(tmp_path / name, config | changed, weights, precision=Precision.FP32)
