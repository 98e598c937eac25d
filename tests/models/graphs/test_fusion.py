"""Native graphs on the compiled kernels compute what they compute on onnxruntime's own operators."""

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from tests.repetition import cover
from tests.seq2seq_checkpoints import FAMILIES as SEQ2SEQ_FAMILIES
from tests.tiny_models import build_kv, decode
from worker.engine.runtime.session import open_session
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.graphs.file_names import DECODER, ENCODER
from worker.graphs.fusion.fuse import fused
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.graphs import rebuild_decoder
from worker.kernels.compiled import compiled_kernels
from worker.kernels.functions import Kernels
from worker.kernels.library import KERNELS
from worker.model_tools.add.add import Request, add_model
from worker.models.json_file import read_json

Arrays = dict[str, NDArray[Any]]
MARIAN = ("tiny-swish-tied", "tiny-relu-tied", "tiny-relu-separate")


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    found = compiled_kernels()
    if found is None:
        pytest.skip("the kernels are not compiled here: install a C compiler, then kvjobs again")
    return found


def built(folder: Path, family: str, precision: Precision) -> Path:
    build_kv(folder, family, precision)
    return folder


def both(file: Path, kernels: Kernels, graph: bytes | None = None) -> tuple[Any, Any]:
    """A session without the kernels, and one with them."""
    plain = file.read_bytes() if graph is None else graph
    return open_session(file, graph=plain), open_session(file, graph=fused(plain), operators=kernels.file)


def feed_of(session: onnxruntime.InferenceSession, beams: int = 1) -> Arrays:
    """Inputs of four sources of up to 9 tokens and of rows at different positions."""
    rng = np.random.default_rng(3)
    axes = {"B": 4, "R": 4 * beams, "S": 9, "C": 7, "T": 5}
    ends = {"positions": 7, "source_lengths": 9}
    feed = {}
    for entry in session.get_inputs():
        shape = [axes.get(axis, axis) for axis in entry.shape]
        if entry.name in ends:
            feed[entry.name] = rng.integers(0, ends[entry.name], shape).astype(np.int32)
        elif entry.name in ("longest", "longest_source"):
            feed[entry.name] = np.array([7 if entry.name == "longest" else 9], np.int32)
        elif entry.type == "tensor(int64)":
            feed[entry.name] = rng.integers(1, 20, shape)
        elif entry.type == "tensor(int8)":
            feed[entry.name] = rng.integers(-100, 100, shape).astype(np.int8)
        else:
            feed[entry.name] = rng.normal(size=shape).astype(np.float32)
    return feed


def assert_alike(plain: Any, own: Any, feed: Arrays, tolerance: float) -> None:
    """Outputs, but for the cache: the caller binds it to memory of its own."""
    names = [entry.name for entry in plain.get_outputs()]
    assert [entry.name for entry in own.get_outputs()] == names
    for name, wanted, found in zip(names, plain.run(names, feed), own.run(names, feed), strict=True):
        assert found.dtype == wanted.dtype
        if name.startswith(("present.", "lent.")):
            continue
        if found.dtype == np.int8:
            assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1, name
        else:
            np.testing.assert_allclose(
                found, wanted, rtol=0, atol=tolerance * max(1, np.abs(wanted).max()), err_msg=name
            )


@pytest.mark.parametrize(
    ("family", "precision", "beams"),
    cover(MARIAN, [Precision.FP32, Precision.FP32, Precision.INT8, Precision.INT8], [1, 4]),
)
def test_a_step_and_a_call_of_the_encoder_give_the_same(
    family: str, precision: Precision, beams: int, kernels: Kernels, tmp_path: Path
) -> None:
    folder = built(tmp_path, family, precision)
    config = read_json(folder / "config.json")
    tolerance = 1e-5 if precision is Precision.FP32 else 2e-2  # a last bit may turn the rounding of an activation

    encoders = both(folder / ENCODER, kernels)
    assert_alike(*encoders, feed_of(encoders[0]), tolerance)
    decoders = both(folder / DECODER, kernels, rebuild_decoder(folder / DECODER, config, precision, beams=beams))
    assert_alike(*decoders, feed_of(decoders[0], beams), tolerance)


@pytest.fixture(scope="module", params=SEQ2SEQ_FAMILIES)
def wide(request: pytest.FixtureRequest, kernels: Kernels, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose heads are whole vectors, as in published models."""
    root = tmp_path_factory.mktemp(request.param)
    sizes = {"d_kv": 32} if request.param in ("t5", "mt5") else {}
    checkpoint = SEQ2SEQ_FAMILIES[request.param](root / "checkpoint", width=64, heads=(2, 2), **sizes)
    return Path(add_model(Request(source=str(checkpoint), name="model"), root / "models").path)


def test_all_attention_and_all_norms_of_a_step_are_on_the_kernels(wide: Path, kernels: Kernels) -> None:
    graph = (wide / DECODER).read_bytes()
    before, after = kinds(graph), kinds(fused(graph))

    assert after["AttendToCache"] == before["GroupQueryAttention"]
    assert not after["GroupQueryAttention"] + after["LayerNormalization"] + after["SimplifiedLayerNormalization"]
    decoders = both(wide / DECODER, kernels)
    assert_alike(*decoders, feed_of(decoders[0]), 1e-5)


@pytest.mark.parametrize(("wide", "beams"), cover(SEQ2SEQ_FAMILIES, [4, 1]), indirect=["wide"])
def test_translations_are_those_without_a_cache(wide: Path, beams: int) -> None:
    """Which read whole prefixes, with onnxruntime's attention."""
    model = NativeSeq2Seq.open(wide)
    rng = np.random.default_rng(0)
    sources = [[*rng.integers(10, 60, length).tolist(), model.generation.eos_id] for length in (3, 9, 17, 9, 5, 30, 1)]
    rules = dataclasses.replace(model.generation, num_beams=beams)

    found, wanted = (decode(model, sources, rules, rows=3, cache=cache) for cache in ("on", "off"))

    assert [[hypothesis.ids for hypothesis in best] for best in found] == [
        [hypothesis.ids for hypothesis in best] for best in wanted
    ]
    for mine, theirs in zip(found, wanted, strict=True):
        assert [hypothesis.log_prob for hypothesis in mine] == pytest.approx(
            [hypothesis.log_prob for hypothesis in theirs], abs=1e-4
        )


def test_heads_whose_size_no_vector_divides_stay_as_they_are(kernels: Kernels, tmp_path: Path) -> None:
    file = built(tmp_path, "tiny-swish-tied", Precision.FP32) / DECODER
    model = onnx.load(file, load_external_data=False)

    found = kinds(fused(model.SerializeToString()))  # heads of 8

    assert found["GroupQueryAttention"] == kinds(model.SerializeToString())["GroupQueryAttention"]
    assert not found["AttendToCache"]


@pytest.mark.parametrize("precision", [Precision.FP16])
def test_half_precision_stays_as_it_is(precision: Precision, tmp_path: Path) -> None:
    folder = built(tmp_path, "tiny-swish-tied", precision)

    for name in (ENCODER, DECODER):
        graph = (folder / name).read_bytes()
        assert kinds(fused(graph)) == kinds(graph)


def kinds(graph: bytes) -> Counter[str]:
    """How many nodes of each kind."""
    return Counter(node.op_type for node in onnx.load_from_string(graph).graph.node)


def test_a_graph_inside_a_node_still_finds_what_it_reads() -> None:
    """An If reads tensors around it by name, which nothing else may read."""
    helper = onnx.helper

    def branch(name: str, reads: str) -> Any:
        output = helper.make_tensor_value_info(f"{name}.y", onnx.TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node("Neg", [reads], [f"{name}.y"])], name, [], [output])

    nodes = [
        helper.make_node("Abs", ["x"], ["positive"]),
        helper.make_node("Sign", ["x"], ["sign"]),
        helper.make_node(
            "If", ["is_true"], ["y"], then_branch=branch("then", "positive"), else_branch=branch("else", "sign")
        ),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N"])
    flag = helper.make_tensor_value_info("is_true", onnx.TensorProto.BOOL, [])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N"])
    graph = helper.make_graph(nodes, "branches", [x, flag], [y])

    found = onnx.load_from_string(fused(helper.make_model(graph).SerializeToString()))

    assert [node.op_type for node in found.graph.node] == ["Abs", "Sign", "If"]
    assert KERNELS in {opset.domain for opset in found.opset_import}


def test_what_is_no_graph_stays_as_it_is() -> None:
    """Whoever opens it says what is wrong, and in which file."""
    assert fused(b"<html>please log in</html>") == b"<html>please log in</html>"


def test_nodes_that_wait_for_each_other_are_left_to_onnxruntime() -> None:
    helper = onnx.helper
    nodes = [helper.make_node("Neg", ["b"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    a = helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, ["N"])
    graph = helper.make_model(helper.make_graph(nodes, "cycle", [], [a])).SerializeToString()

    assert kinds(fused(graph)) == {"Neg": 2}
