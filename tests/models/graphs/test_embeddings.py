"""A table of embeddings in int8: each row within half a step, and a head of the same weight takes no more bytes."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.causal_checkpoints import write_causal_checkpoint, write_kv_model
from worker.graphs import embeddings
from worker.graphs.embeddings import add_embeddings
from worker.graphs.file_names import BODY, HEAD
from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.precision import Precision
from worker.graphs.weights import WeightsFile
from worker.kernels.mixing import mix

ROWS = 9000  # more than are rounded at once


@pytest.fixture(autouse=True)
def small_tables_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "LEAST", 0)


def gather(
    folder: Path, table: np.ndarray, *ids: list[int], channel_scales: np.ndarray | None = None
) -> list[np.ndarray]:
    """The rows of each list of ids, of a table in int8."""
    with WeightsFile(folder / "weights.data") as store:
        net = GraphBuilder("gather", store)
        tokens = net.input("ids", np.int64, ["M"])
        rows = add_embeddings(
            net, tokens, "table", table.shape, lambda: table, Precision.INT8, channel_scales, result="rows"
        )
        net.output(rows, "rows", np.float32, ["M", table.shape[1]])
    (folder / "gather.onnx").write_bytes(net.model().SerializeToString())
    session = onnxruntime.InferenceSession(folder / "gather.onnx")
    return [session.run(["rows"], {"ids": np.array(some_ids)})[0] for some_ids in ids]


@pytest.mark.parametrize("width", [48, 40])
def test_each_row_is_within_half_a_step(tmp_path: Path, width: int) -> None:
    """A step is that of the row, mixed where its width allows it."""
    table = np.random.default_rng(width).normal(size=(ROWS, width)).astype(np.float32)
    table[:, 3] *= 100
    ids = [0, 1, 4095, 4096, ROWS - 1, 1]

    (found,) = gather(tmp_path, table, ids)

    found, wanted = (mix(rows) if width == 48 else rows for rows in (found, table[ids]))
    steps = np.abs(wanted).max(axis=1, keepdims=True) / 127
    assert (np.abs(found - wanted) <= 0.501 * steps).all()


@pytest.mark.parametrize("width", [48, 40])
def test_a_row_of_a_table_with_scaled_channels_is_divided_again(tmp_path: Path, width: int) -> None:
    table = np.random.default_rng(width).normal(size=(300, width)).astype(np.float32)
    table[:, 3] *= 100
    scales = (1 / np.abs(table).max(axis=0)).astype(np.float32)

    (found,) = gather(tmp_path, table, list(range(300)), channel_scales=scales)

    found, wanted = (mix(rows * scales) if width == 48 else rows * scales for rows in (found, table))
    steps = np.abs(wanted).max(axis=1, keepdims=True) / 127
    assert (np.abs(found - wanted) <= 0.501 * steps).all()


def test_a_row_gets_the_same_bits_gathered_alone_and_among_others(tmp_path: Path) -> None:
    table = np.random.default_rng(1).normal(size=(ROWS, 96)).astype(np.float32)

    alone, among = gather(tmp_path, table, [17], [*range(16), 17, *range(30, 70)])

    np.testing.assert_array_equal(alone[0], among[16])


@pytest.mark.parametrize("tied", [True, False])
def test_a_head_has_bytes_of_its_own_only_where_it_is_not_tied(tmp_path: Path, tied: bool) -> None:
    write_causal_checkpoint(tmp_path / "checkpoint", "llama", tied=tied)
    folder = write_kv_model(tmp_path / "checkpoint", tmp_path / "kv", Precision.INT8)

    body, head = (places(folder / name) for name in (BODY, HEAD))

    assert (head <= body) == tied


def places(graph: Path) -> set[str]:
    """The offsets of a graph's weights in the file; one block of a head has the offsets of the whole head."""
    tensors = onnx.load(graph, load_external_data=False).graph.initializer
    return {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "offset"}
