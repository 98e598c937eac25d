"""Which files hold the weights of a graph, by the graph itself."""

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from worker.models.external_data import external_files


def outside(name: str, location: str) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", "16")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def write_graph(file: Path, *locations: str, in_branch: str | None = None) -> None:
    """A graph whose weights lie at these locations, and those of a branch of it at another."""
    inner = [outside("inner", in_branch)] if in_branch else []
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    branch = helper.make_graph([helper.make_node("Identity", ["inner"], ["y"])], "branch", [], [output], inner)
    graph = helper.make_graph(
        [helper.make_node("If", ["x"], ["z"], then_branch=branch, else_branch=branch)],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [4])],
        [outside(f"w{place}", location) for place, location in enumerate(locations)],
    )
    file.write_bytes(helper.make_model(graph).SerializeToString())


@pytest.mark.parametrize("name", ["weights", ".hidden", "a b.bin", "ж" * 100])
def test_a_file_of_any_name_is_found(tmp_path: Path, name: str) -> None:
    write_graph(tmp_path / "model.onnx", name, in_branch="branch.bin")
    (tmp_path / name).touch()
    (tmp_path / "branch.bin").touch()
    (tmp_path / "beside.bin").touch()

    assert {file.name for file in external_files(tmp_path / "model.onnx")} == {name, "branch.bin"}


def test_a_graph_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    for name in ("one", "another"):
        (tmp_path / name).touch()
        write_graph(tmp_path / "model.onnx", name)
        assert [file.name for file in external_files(tmp_path / "model.onnx")] == [name]


def test_files_outside_of_the_folder_and_missing_ones_are_none_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "secret").touch()
    write_graph(tmp_path / "m" / "model.onnx", "../secret", str(tmp_path / "secret"), "missing", "")

    assert external_files(tmp_path / "m" / "model.onnx") == []


@pytest.mark.parametrize("content", [b"", b"model.onnx", b"\x3a\xff\xff\xff\xff\x0f", b"version https://git-lfs"])
def test_what_is_no_graph_names_no_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)

    assert external_files(tmp_path / "model.onnx") == []
