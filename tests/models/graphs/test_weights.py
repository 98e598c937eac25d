"""The weights file: alignment, the same bytes for the same tensors, and sharing between graphs."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import ModelError
from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.weights import WeightsFile, WrittenWeights

PAGE = 4096
SHAPES = st.lists(st.lists(st.integers(1, 40), min_size=0, max_size=3), min_size=1, max_size=6)
DTYPES = st.sampled_from([np.float32, np.float16, np.int8, np.uint8, np.int64])


def drawn(shapes: list[list[int]], dtype: type) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        f"weight {index}": np.asarray(rng.normal(size=shape) * 9).astype(dtype) for index, shape in enumerate(shapes)
    }


def write(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays to a weights file, and beside it a graph that refers to all of them."""
    with WeightsFile(file) as weights:
        net = GraphBuilder("all of them", weights)
        for name, array in arrays.items():
            net.weight(name, lambda array=array: array)
        file.with_suffix(".onnx").write_bytes(net.model().SerializeToString())


@given(shapes=SHAPES, dtype=DTYPES)
def test_tensors_are_read_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[list[int]], dtype: type
) -> None:
    folder, arrays = tmp_path_factory.mktemp("weights"), drawn(shapes, dtype)
    write(folder / "weights.data", arrays)

    read = onnx.load(str(folder / "weights.onnx")).graph.initializer
    written = WrittenWeights.read(folder / "weights.onnx")

    assert [tensor.name for tensor in read] == list(arrays)
    for tensor, array in zip(read, arrays.values(), strict=True):
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), array)
        assert tensor.name in written
        np.testing.assert_array_equal(written.map(tensor.name, folder), array)


def test_every_tensor_begins_at_a_page(tmp_path: Path) -> None:
    """mmap requires it; otherwise onnxruntime would copy each tensor into memory."""
    write(tmp_path / "weights.data", drawn([[3, 5], [1], [4096], [4097]], np.int8))

    tensors = onnx.load(str(tmp_path / "weights.onnx"), load_external_data=False).graph.initializer
    places = [{entry.key: entry.value for entry in tensor.external_data} for tensor in tensors]

    assert [int(location["offset"]) for location in places] == [0, PAGE, 2 * PAGE, 3 * PAGE]
    assert [int(location["length"]) for location in places] == [15, 1, 4096, 4097]
    assert {location["location"] for location in places} == {"weights.data"}
    assert (tmp_path / "weights.data").stat().st_size == 3 * PAGE + 4097


def test_the_same_tensors_give_the_same_bytes(tmp_path: Path) -> None:
    arrays = drawn([[30, 7], [5], [2, 3, 4]], np.float32)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "weights.data", arrays)

    for file in ("weights.data", "weights.onnx"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_a_tensor_that_two_graphs_use_is_stored_once(tmp_path: Path) -> None:
    array, asked = np.arange(1000, dtype=np.float32), []

    def load() -> np.ndarray:
        asked.append(1)
        return array

    with WeightsFile(tmp_path / "weights.data") as weights:
        for name in ("encoder", "decoder"):
            GraphBuilder(name, weights).weight("shared", load)

    assert asked == [1]
    assert (tmp_path / "weights.data").read_bytes() == array.tobytes()


def test_an_existing_weights_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "weights.data").write_bytes(b"of another program")

    with pytest.raises(FileExistsError):
        WeightsFile(tmp_path / "weights.data")
    assert (tmp_path / "weights.data").read_bytes() == b"of another program"


@pytest.mark.parametrize("content", [None, b"\xff\xff no graph"])
def test_an_unreadable_graph_is_refused_with_one_sentence(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "decoder.onnx").write_bytes(content)

    with pytest.raises(ModelError, match=r"decoder\.onnx"):
        WrittenWeights.read(tmp_path / "decoder.onnx")
