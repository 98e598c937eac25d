"""How far products in int8 are from those in float32: by rounding to 127 steps each way, and no further."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from worker.engine.runtime import native_session
from worker.engine.runtime.native_session import open_native_session
from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.matrix_products import Int8Products
from worker.graphs.precision import Precision
from worker.graphs.weights import WeightsFile
from worker.kernels.compiled import compiled_kernels

Array = NDArray[np.float32]
Multiply = Callable[..., Array]
ROWS, SIZE = 64, 96


@pytest.fixture(params=["by onnxruntime alone", "with the kernels"])
def multiply(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Multiply:
    """x W^T of a graph that is opened as models are; with a lower bound of x, or none; with mixed rows, or without."""
    if request.param == "by onnxruntime alone":
        monkeypatch.setattr(native_session, "compiled_kernels", lambda: None)
    elif compiled_kernels() is None:
        pytest.skip("the kernels are not compiled here: install a C compiler, then kvjobs again")

    def product(x: Array, weight: Array, lowest: float | None, *, mixed: bool = False) -> Array:
        (tmp_path / "weights.data").unlink(missing_ok=True)
        with WeightsFile(tmp_path / "weights.data") as store:
            net = GraphBuilder("product", store)
            name = net.input("x", np.float32, ["M", weight.shape[1]])
            y = Int8Products(mixed=mixed).linear(net, name, "product", lambda: weight, None, lowest=lowest)
            net.output(y, "y", np.float32, ["M", weight.shape[0]])
        file = tmp_path / "product.onnx"
        file.write_bytes(net.model().SerializeToString())
        found: Array = open_native_session(file, Precision.INT8).run(["y"], {"x": x})[0]
        return found

    return product


@pytest.mark.parametrize("lowest", [None, 0.0, -0.25])
def test_an_activation_is_off_by_half_a_127th_of_the_largest_of_its_row_at_most(
    multiply: Multiply, lowest: float | None
) -> None:
    """The weights are multiples of their scales, so nothing else is rounded."""
    x = np.random.default_rng(0).normal(size=(ROWS, SIZE)).astype(np.float32)
    x = x if lowest is None else np.maximum(x, np.float32(lowest))

    errors = np.abs(multiply(x, np.eye(SIZE, dtype=np.float32), lowest) - x) / np.abs(x).max(axis=1, keepdims=True)

    assert 0.49 / 127 < errors.max() < 0.501 / 127


def test_the_error_of_a_product_is_that_of_127_steps_on_both_sides(multiply: Multiply) -> None:
    """Activations in 126 steps would give 0.00881, in 100 steps 0.00998."""
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(2, ROWS, SIZE)).astype(np.float32)
    exact = x.astype(np.float64) @ weight.T.astype(np.float64)

    error = np.linalg.norm(multiply(x, weight, None) - exact) / np.linalg.norm(exact)

    assert error == pytest.approx(0.00869, rel=0.005)


def test_mixed_rows_keep_what_a_channel_a_hundred_times_as_large_takes_from_the_rest(multiply: Multiply) -> None:
    """The relative error of a product whose weights hardly read that channel, as trained networks have them."""
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(2, ROWS, SIZE)).astype(np.float32)
    x[:, 7] *= 100
    weight[:, 7] /= 100
    exact = x.astype(np.float64) @ weight.T.astype(np.float64)

    plain, mixed = (
        np.linalg.norm(multiply(x, weight, None, mixed=mixed) - exact) / np.linalg.norm(exact)
        for mixed in (False, True)
    )

    assert plain > 0.2
    assert mixed < 0.1


def test_a_row_gets_the_same_bits_mixed_alone_and_among_others(multiply: Multiply) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(2, ROWS, SIZE)).astype(np.float32)

    together = multiply(x, weight, None, mixed=True)
    alone = np.concatenate([multiply(x[row : row + 1], weight, None, mixed=True) for row in range(0, ROWS, 9)])

    np.testing.assert_array_equal(alone, together[::9])
