"""Scaled channels: a model computes what it computed, and no other scales change a product less."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from tests.causal_checkpoints import ARCHITECTURES, write_causal_checkpoint
from tests.causal_families import FAMILIES, write_family
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.graphs import body_graph
from worker.graphs.causal.head import HEAD_PRODUCT
from worker.graphs.causal.scaled_weights import ScaledWeights, channel_scales
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.weights import CausalWeights
from worker.graphs.file_names import BODY, WEIGHTS
from worker.graphs.precision import Precision
from worker.graphs.weights import WeightsFile
from worker.model_tools.add.input_moments import one_row, read_scales
from worker.models.json_file import read_json

TEXT = [5, 6, 7, 8, 9, 10, 11, 200, 100, 50, 25, 12]


@pytest.mark.parametrize("family", [*ARCHITECTURES, *FAMILIES])
def test_the_hidden_states_of_scaled_weights_are_the_scaled_hidden_states(tmp_path: Path, family: str) -> None:
    """In float32, of every family; so the division is undone wherever a product, and nothing else, reads it."""
    write = write_causal_checkpoint if family in ARCHITECTURES else write_family
    checkpoint = write(tmp_path / "checkpoint", family)
    sizes = read_sizes(read_json(checkpoint / "config.json"))
    weights = load_file(checkpoint / "model.safetensors")
    scales = read_scales(sizes, weights, [TEXT], tmp_path)
    scaled = ScaledWeights(weights, sizes, scales)

    exact = hidden_states(tmp_path / "exact", sizes, CausalWeights(weights, sizes))
    found = hidden_states(tmp_path / "scaled", sizes, scaled)

    # Behind a norm of sums, which also goes on as the residual, the hidden states are not scaled.
    d = scales[HEAD_PRODUCT] if sizes.block.last_norm else 1
    np.testing.assert_allclose(found * d, exact, rtol=0, atol=2e-4 * np.abs(exact).max())
    assert sum((values.max() > 1.5 * values.min()) for values in scales.values()) > sizes.layers, "scales are of use"
    expected = CausalWeights(weights, sizes).head() * d
    np.testing.assert_allclose(scaled.head(), expected, rtol=1e-6)


def hidden_states(folder: Path, sizes: CausalSizes, weights: CausalWeights) -> np.ndarray:
    folder.mkdir()
    with WeightsFile(folder / WEIGHTS) as store:
        net = body_graph(sizes, store, weights, Precision.FP32)
    (folder / BODY).write_bytes(net.model().SerializeToString())
    body = onnxruntime.InferenceSession(folder / BODY)
    no_past = np.zeros((1, sizes.kv_heads, 0, sizes.head_size), np.float32)
    past = {tensor.name: no_past for tensor in body.get_inputs() if tensor.name.startswith("past.")}
    found: np.ndarray = body.run(["hidden"], {"ids": np.array(TEXT)} | one_row(len(TEXT)) | past)[0]
    return found


@given(st.integers(0, 2**32 - 1), st.sampled_from([(1, 1), (4, 2), (4, 4), (6, 1)]))
def test_no_other_scales_change_a_product_less(seed: int, heads: tuple[int, int]) -> None:
    """By (sum of d^2 w^2) (sum of x^2 / d^2), among those that are the same in all query heads of a group."""
    random = np.random.default_rng(seed)
    size = heads[0] * 5
    squares, weights = (np.exp(random.normal(0, 3, size)) for _ in "xw")
    d = channel_scales(squares, weights, heads).astype(np.float64)
    group = heads[0] // heads[1]
    change = np.exp(random.normal(0, 0.3, (heads[1], 1, 5))).repeat(group, axis=1).reshape(-1)

    assert (d.reshape(heads[1], group, 5) == d.reshape(heads[1], group, 5)[:, :1]).all()
    assert error(squares, weights, d) <= error(squares, weights, d * change) * (1 + 1e-6)


def error(squares: np.ndarray, weights: np.ndarray, d: np.ndarray) -> float:
    return float((d**2 * weights).sum() * (squares / d**2).sum())


@pytest.mark.parametrize("used", [0, 3])
@pytest.mark.parametrize("last", [0, np.inf, np.nan])
def test_channels_that_are_zero_or_not_finite_get_a_finite_scale(used: int, last: float) -> None:
    squares, weights = np.zeros(8), np.zeros(8)
    squares[:used], weights[: used + 1] = 1, 1
    squares[-1] = last

    d = channel_scales(squares, weights)

    assert np.isfinite(d).all()
    assert (d > 0).all()
