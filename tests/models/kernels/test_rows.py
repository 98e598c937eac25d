"""FinishRows against the operations that it stands for, in numpy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper

from tests.models.kernels.conftest import FLOAT, REFUSED, UINT8, run_node
from worker.kernels.functions import Kernels
from worker.kernels.library import KERNELS
from worker.kernels.mixing import mix

NO_ACTIVATION, RELU, SILU = range(3)
NO_NORM, LAYER_NORM, RMS_NORM = range(3)
LOWEST = {NO_ACTIVATION: 0.0, RELU: 0.0, SILU: -0.2785}
NAMES = ("x", "factors", "bias", "residual", "weight", "norm_bias")


def finish(
    kernels: Kernels, feed: dict[str, NDArray[np.float32]], *, activation: int = NO_ACTIVATION, norm: int = NO_NORM,
    lowest: float = 0.0, epsilon: float = 1e-5, without: str = "", mixed: int = 0,
) -> dict[str, NDArray[np.generic]]:  # fmt: skip
    """All outputs by name, but for those `without`; without a norm the sums are y."""
    without += " sums" if norm == NO_NORM else ""
    names = ["" if name in without.split() else name for name in ("y", "sums", "quantized", "scales")]
    node = helper.make_node(
        "FinishRows", [name if name in feed else "" for name in NAMES], names,
        domain=KERNELS, activation=activation, norm=norm, epsilon=epsilon, lowest=lowest, mixed=mixed,
    )  # fmt: skip
    kinds = {name: UINT8 if name == "quantized" else FLOAT for name in names if name}
    return dict(zip(kinds, run_node(kernels, node, feed, kinds), strict=True))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 5), size=st.integers(1, 70),
    parts=st.sets(st.sampled_from(["factors", "bias", "residual"])),
    activation=st.sampled_from([NO_ACTIVATION, RELU, SILU]), norm=st.sampled_from([NO_NORM, LAYER_NORM, RMS_NORM]),
)  # fmt: skip
def test_rows_are_what_the_operations_give_one_after_the_other(
    kernels: Kernels, seed: int, rows: int, size: int, parts: set[str], activation: int, norm: int
) -> None:
    """Of any size, also one that no vector divides."""
    if activation != NO_ACTIVATION:
        parts, norm = parts - {"residual"}, NO_NORM  # the graphs have an activation or a residual connection
    rng = np.random.default_rng(seed)
    shapes = {
        "factors": (rows, 1), "bias": (size,), "residual": (rows, size), "weight": (size,), "norm_bias": (size,),
    }  # fmt: skip
    asked = {"x": (rows, size)} | {name: shapes[name] for name in parts}
    if norm != NO_NORM:
        asked["weight"] = shapes["weight"]
    if norm == LAYER_NORM:
        asked["norm_bias"] = shapes["norm_bias"]
    feed = {name: rng.normal(size=shape).astype(np.float32) for name, shape in asked.items()}
    lowest = LOWEST[activation]

    found = finish(kernels, feed, activation=activation, norm=norm, lowest=lowest)

    wanted = feed["x"].astype(np.float64) * feed.get("factors", np.ones(1)) + feed.get("bias", np.zeros(1))
    if activation == RELU:
        wanted = np.maximum(wanted, 0)
    if activation == SILU:
        wanted = wanted / (1 + np.exp(-wanted))
    wanted = wanted + feed.get("residual", np.zeros(1))
    np.testing.assert_allclose(found["y" if norm == NO_NORM else "sums"], wanted, rtol=1e-5, atol=1e-6)
    if norm != NO_NORM:
        centred = wanted - wanted.mean(axis=1, keepdims=True) if norm == LAYER_NORM else wanted
        wanted = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
        wanted = wanted * feed["weight"] + feed.get("norm_bias", np.zeros(1))
    np.testing.assert_allclose(found["y"], wanted, rtol=1e-4, atol=2e-5)

    y, scales = found["y"], found["scales"]
    largest = np.maximum(np.abs(y).max(axis=1, keepdims=True), max(1e-20, -lowest))
    np.testing.assert_allclose(scales, largest / 127, rtol=1e-6)
    # Halfway between two integers a last bit decides.
    exact = y.astype(np.float64) / scales.astype(np.float64) + 128
    assert np.abs(found["quantized"] - exact).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("size", [16, 48, 96, 512, 576, 896, 1536, 4864])
def test_a_mixed_row_has_the_bits_of_the_rule_in_numpy(kernels: Kernels, size: int) -> None:
    """Sums and differences in the same order, with any instruction set; sizes as networks have them. Only the division
    by the scale is rounded otherwise, which moves a number that is halfway between two integers."""
    x = np.random.default_rng(size).normal(size=(3, size)).astype(np.float32)

    found = finish(kernels, {"x": x}, without="y", mixed=1)

    wanted = mix(x)
    np.testing.assert_array_equal(found["scales"], np.abs(wanted).max(axis=1, keepdims=True) * np.float32(1 / 127))
    exact = wanted.astype(np.float64) / found["scales"] + 128
    assert np.abs(found["quantized"] - exact).max() <= 0.5 + 1e-4


def test_what_stands_before_a_mixed_row_is_as_without_mixing(kernels: Kernels) -> None:
    """The row itself, too: another product or the residual connection may read it."""
    feed = dict(
        zip(("x", "residual"), np.random.default_rng(0).normal(size=(2, 3, 48)).astype(np.float32), strict=True)
    )
    feed["weight"] = np.linspace(0.5, 2, 48, dtype=np.float32)

    mixed, plain = (finish(kernels, feed, norm=RMS_NORM, mixed=mixed) for mixed in (1, 0))

    np.testing.assert_array_equal(mixed["y"], plain["y"])
    np.testing.assert_array_equal(mixed["sums"], plain["sums"])
    of_row = finish(kernels, {"x": plain["y"]}, without="y", mixed=1)
    np.testing.assert_array_equal(mixed["quantized"], of_row["quantized"])


def test_a_row_that_has_no_mixing_is_refused(kernels: Kernels) -> None:
    with pytest.raises(REFUSED, match=r"kvjobs: .*together"):
        finish(kernels, {"x": np.zeros((2, 24), np.float32)}, mixed=1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 33])
@pytest.mark.parametrize("mixed", [0, 1])
def test_a_row_that_is_not_finite_gets_a_scale_that_is_not(
    kernels: Kernels, value: float, place: int, mixed: int
) -> None:
    """uint8 has no NaN. The other rows are as they were."""
    x = np.linspace(-1, 1, 96, dtype=np.float32).reshape(2, 48)
    whole = finish(kernels, {"x": x}, mixed=mixed)
    broken = x.copy()
    broken[0, place] = value

    found = finish(kernels, {"x": broken}, mixed=mixed)

    assert not np.isfinite(found["scales"][0, 0])
    np.testing.assert_array_equal(found["quantized"][1], whole["quantized"][1])
    assert found["scales"][1, 0] == whole["scales"][1, 0]


def test_a_row_of_zeros_is_128_everywhere(kernels: Kernels) -> None:
    found = finish(kernels, {"x": np.zeros((1, 20), np.float32)}, activation=NO_ACTIVATION, norm=NO_NORM)

    assert (found["quantized"] == 128).all()
    assert found["scales"][0, 0] > 0


def test_large_negative_numbers_become_zero_behind_silu(kernels: Kernels) -> None:
    x = np.array([[-1e4, -200, -88, -50, 0, 50, 1e4]], np.float32)

    y = finish(kernels, {"x": x}, activation=SILU, norm=NO_NORM, lowest=-0.2785)["y"]

    np.testing.assert_allclose(y, [[0, 0, 0, 0, 0, 50, 1e4]], atol=1e-6)


@pytest.mark.parametrize("name", ["factors", "bias", "residual"])
def test_parts_of_another_size_are_refused(kernels: Kernels, name: str) -> None:
    feed = {"x": np.zeros((2, 20), np.float32), name: np.zeros((1,), np.float32)}

    with pytest.raises(REFUSED, match=r"kvjobs: .*size"):
        finish(kernels, feed, activation=NO_ACTIVATION, norm=NO_NORM)


@pytest.mark.parametrize("attributes", [
    {"activation": -1}, {"activation": 3}, {"activation": 2**32 + 1}, {"norm": -1}, {"norm": 2**32},
    {"norm": 2**63 - 1}, {"epsilon": -1e-5}, {"epsilon": np.nan}, {"lowest": np.nan}, {"lowest": -np.inf},
], ids=str)  # fmt: skip
def test_attributes_that_no_row_has_are_refused(kernels: Kernels, attributes: dict[str, Any]) -> None:
    with pytest.raises(REFUSED, match="kvjobs: "):
        finish(kernels, {"x": np.zeros((2, 20), np.float32)}, **attributes)


@pytest.mark.parametrize(("parts", "asked"), [
    *((part, {}) for part in ("factors", "bias", "residual")),
    ("", {"activation": RELU}), ("weight", {"norm": RMS_NORM, "without": "y sums"}), ("weight", {"norm": RMS_NORM}),
])  # fmt: skip
def test_without_y_nothing_but_the_product_can_be_quantized(
    kernels: Kernels, parts: str, asked: dict[str, Any]
) -> None:
    """A row has no other memory than y for what comes before its quantization."""
    shapes = {"factors": (2, 1), "bias": (20,), "residual": (2, 20), "weight": (20,)}
    x = np.linspace(-1, 1, 40, dtype=np.float32).reshape(2, 20)
    alone, whole = finish(kernels, {"x": x}, without="y"), finish(kernels, {"x": x})
    np.testing.assert_array_equal(alone["quantized"], whole["quantized"])

    with pytest.raises(REFUSED, match=r"kvjobs: .*together"):
        finish(
            kernels, {"x": x} | {part: np.ones(shapes[part], np.float32) for part in parts.split()},
            **({"without": "y"} | asked),
        )  # fmt: skip


@pytest.mark.parametrize("asked", [
    {"without": "quantized"}, {"without": "scales"}, {"norm": LAYER_NORM}, {"norm": RMS_NORM},
], ids=str)  # fmt: skip
def test_rows_that_lack_a_part_are_refused(kernels: Kernels, asked: dict[str, Any]) -> None:
    """Integers without their scales; a norm without its weight."""
    with pytest.raises(REFUSED, match=r"kvjobs: .*together"):
        finish(kernels, {"x": np.zeros((2, 20), np.float32)}, **asked)


def test_no_rows_give_no_results(kernels: Kernels) -> None:
    feed = {"x": np.zeros((0, 20), np.float32), "weight": np.ones(20, np.float32)}

    found = finish(kernels, feed, norm=RMS_NORM)

    assert {name: array.shape for name, array in found.items()} == {
        "y": (0, 20), "sums": (0, 20), "quantized": (0, 20), "scales": (0, 1),
    }  # fmt: skip


def test_rows_without_numbers_are_refused(kernels: Kernels) -> None:
    """They have no largest one."""
    with pytest.raises(REFUSED, match="kvjobs: "):
        finish(kernels, {"x": np.zeros((3, 0), np.float32)})
