"""Mixed rows: an orthogonal matrix, the same by sums and differences and by nodes of ONNX."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.mixing import add_mixing, add_mixing_back
from worker.graphs.weights import WeightsFile
from worker.kernels.mixing import can_be_mixed, mix

SIZES = st.integers(1, 40).map(lambda count: 16 * count)


@given(size=SIZES)
def test_mixing_keeps_products(size: int) -> None:
    matrix = mix(np.eye(size, dtype=np.float32)).astype(np.float64)

    np.testing.assert_allclose(matrix @ matrix.T, np.eye(size), atol=1e-5)


@given(size=SIZES)
def test_no_channel_keeps_its_size(size: int) -> None:
    """The largest number of a mixed unit vector; evenly spread it were 1 / sqrt(size)."""
    assert np.abs(mix(np.eye(size, dtype=np.float32))).max() <= 2.7 / np.sqrt(size)


@pytest.mark.parametrize("size", [16, 48, 96, 512, 576, 896, 1536, 2048])
def test_nodes_mix_as_sums_and_differences_do_and_back(tmp_path: Path, size: int) -> None:
    x = np.random.default_rng(size).normal(size=(3, size)).astype(np.float32)
    with WeightsFile(tmp_path / "weights.data") as store:
        net = GraphBuilder("mixing", store)
        mixed = add_mixing(net, net.input("x", np.float32, ["M", size]), size)
        net.output(mixed, "mixed", np.float32, ["M", size])
        net.output(add_mixing_back(net, mixed, size, name="back"), "back", np.float32, ["M", size])
    (tmp_path / "mixing.onnx").write_bytes(net.model().SerializeToString())

    found, back = onnxruntime.InferenceSession(tmp_path / "mixing.onnx").run(["mixed", "back"], {"x": x})

    np.testing.assert_allclose(found, mix(x), atol=5e-6)
    np.testing.assert_allclose(back, x, atol=5e-6)


def test_sizes_that_sixteen_does_not_divide_stay_as_they_are() -> None:
    assert [size for size in (8, 16, 24, 1000, 1008) if can_be_mixed(size)] == [16, 1008]
