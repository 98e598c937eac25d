"""The header of an ONNX file is read without its weights, and equals what the onnx package reads."""

from pathlib import Path

import onnx
import onnxruntime
import pytest

from tests.places import GOLDEN
from worker.models.layout.graph_signature import GraphSignature, read_header

FILES = sorted(GOLDEN.glob("*/*.onnx"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_a_header_equals_what_a_session_and_onnx_report(file: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # ten times faster to open
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    model = onnx.load(file)

    header = read_header(file)

    assert header is not None
    assert header.signature(file) == GraphSignature.of(file, session)
    assert header.ir_version == model.ir_version
    assert header.opsets == {opset.domain: opset.version for opset in model.opset_import}
    assert header.producer == f"{model.producer_name} {model.producer_version}".strip()


@pytest.mark.parametrize("kept", [0, 1, 2, 10, 100, 1_000, 10_000])
def test_a_truncated_graph_has_no_header(tmp_path: Path, kept: int) -> None:
    whole = GOLDEN / "tiny-swish-tied" / "decoder_model.onnx"
    (tmp_path / "part.onnx").write_bytes(whole.read_bytes()[:kept])

    assert read_header(tmp_path / "part.onnx") is None


@pytest.mark.parametrize("content", [b"nonsense", b"\xff" * 100, b"version https://git-lfs.github.com/spec/v1\n"])
def test_a_file_that_is_not_a_graph_has_no_header(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.onnx").write_bytes(content)

    assert read_header(tmp_path / "other.onnx") is None
    assert read_header(tmp_path / "missing.onnx") is None


def test_an_axis_without_a_name_is_variable_too(tmp_path: Path) -> None:
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.BFLOAT16, [None, "length", 3])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "g", [value], [value])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "g.onnx")

    header = read_header(tmp_path / "g.onnx")

    assert header is not None
    assert (header.inputs[0].shape, header.inputs[0].type) == ((None, "length", 3), "tensor(bfloat16)")
