"""ONNX files that cannot be opened, and the message for the user."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from jobs.errors import ModelError
from worker.engine.runtime.session import open_session


@pytest.fixture
def graph(golden_folder: Path) -> bytes:
    return (golden_folder / "tiny-swish-tied" / "encoder_model.onnx").read_bytes()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"encoder_model\.onnx"):
        open_session(tmp_path / "encoder_model.onnx")


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", b"hello" * 100])
def test_a_file_that_is_not_a_graph_is_to_be_downloaded_again(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(content)

    with pytest.raises(ModelError, match=rf"{file} .*{len(content)} bytes"):
        open_session(file)


def test_a_truncated_graph_is_to_be_downloaded_again(tmp_path: Path, graph: bytes) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(graph[: len(graph) // 2])

    with pytest.raises(ModelError, match=r"only .*part"):
        open_session(file)


def test_a_git_lfs_pointer_is_recognized(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n")

    with pytest.raises(ModelError, match="git lfs pull"):
        open_session(file)


def test_an_ir_version_that_is_too_new_is_reported_with_what_to_upgrade(tmp_path: Path, graph: bytes) -> None:
    assert graph[:2] == b"\x08\x08", "field 1, IR version 8"
    file = tmp_path / "model.onnx"
    file.write_bytes(b"\x08\x63" + graph[2:])

    with pytest.raises(ModelError, match=r"IR version 99 .* \d+"):
        open_session(file)


def test_an_unknown_operator_is_named(tmp_path: Path, graph: bytes) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(graph.replace(b"\x22\x07Softmax", b"\x22\x07Softmix"))

    with pytest.raises(ModelError, match=r"Softmix"):
        open_session(file)


def test_a_folder_is_not_a_graph(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        open_session(tmp_path)


def test_a_session_runs_with_the_threads_it_was_given(golden_folder: Path) -> None:
    session = open_session(golden_folder / "tiny-swish-tied" / "encoder_model.onnx", threads=2)

    options = session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (2, 1)
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_a_broken_graph_fails_when_the_model_is_opened(tmp_path: Path, golden_folder: Path) -> None:
    from worker.engine.seq2seq.exported.model import ExportedSeq2Seq

    for file in ("config.json", "generation_config.json", "encoder_model.onnx"):
        shutil.copy(golden_folder / "tiny-swish-tied" / file, tmp_path / file)
    (tmp_path / "decoder_model_merged.onnx").write_bytes(b"")

    with pytest.raises(ModelError, match=r"decoder_model_merged\.onnx"):
        ExportedSeq2Seq.open(tmp_path)


@pytest.mark.parametrize("place", ["../weights.data", "linked.data", "/weights.data"])
def test_weights_outside_of_the_folder_of_the_graph_are_not_read(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    np.arange(4, dtype=np.float32).tofile(tmp_path / "weights.data")
    (folder / "linked.data").symlink_to("../weights.data")
    place = str(tmp_path / "weights.data") if place.startswith("/") else place
    weights = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[4], raw_data=bytes(16))
    onnx.external_data_helper.set_external_data(weights, place)
    weights.ClearField("raw_data")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy")
    add = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weights])
    opsets = [onnx.helper.make_opsetid("", 17)]
    (folder / "model.onnx").write_bytes(
        onnx.helper.make_model(add, ir_version=8, opset_imports=opsets).SerializeToString()
    )

    with pytest.raises(ModelError, match=r"model\.onnx .*outside"):
        open_session(folder / "model.onnx")
