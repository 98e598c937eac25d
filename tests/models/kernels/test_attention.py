"""AttendToCache, AttendToInt8Cache and AttendWithin against attention in numpy, in float64."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper

from tests.models.kernels.conftest import FLOAT, INT8, REFUSED, run_node
from worker.kernels.functions import Kernels
from worker.kernels.library import KERNELS

Array = NDArray[np.float32]
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def attention(q: Array, key: Array, value: Array, scale: float, bias: Array | None = None) -> NDArray[np.float64]:
    """q (N, Q, H), key and value (N, T, H), bias (N, T) -> (N, Q, H)."""
    scores = np.einsum("nqh,nth->nqt", q.astype(np.float64), key.astype(np.float64)) * scale
    if bias is not None:
        scores += bias[:, None]
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    return np.einsum("nqt,nth->nqh", weights, value.astype(np.float64))


@QUICK
@given(
    seed=st.integers(0, 2**32 - 1), sources=st.integers(1, 4), beams=st.sampled_from([1, 2, 4, 5]),
    heads=st.integers(1, 3), head_size=st.sampled_from([16, 32, 48, 64, 128, 256]), capacity=st.integers(1, 40),
    in_int8=st.booleans(), has_bias=st.booleans(),
)  # fmt: skip
def test_rows_attend_to_the_positions_of_their_source_alone(
    kernels: Kernels, seed: int, sources: int, beams: int, heads: int, head_size: int, capacity: int,
    in_int8: bool, has_bias: bool,
) -> None:  # fmt: skip
    """Beyond the last position of a source is garbage, NaN where there can be one."""
    rng = np.random.default_rng(seed)
    width, appends = heads * head_size, beams == 1
    last = rng.integers(0, capacity, sources).astype(np.int32)
    shape = (sources, heads, capacity, head_size)
    rows = rng.normal(size=(sources * beams, 3 * width if appends else width)).astype(np.float32)
    bias = rng.normal(size=(sources, heads, 1, capacity)).astype(np.float32)
    scales = rng.uniform(0.01, 0.03, (2, heads, head_size)).astype(np.float32)
    if in_int8:
        key, value = rng.integers(-127, 128, (2, *shape)).astype(np.int8)
    else:
        key, value = rng.normal(size=(2, *shape)).astype(np.float32)
        for source, end in enumerate(last):
            key[source, :, end + 1 :] = value[source, :, end + 1 :] = np.nan

    feed = {"rows": rows, "key": key, "value": value, "last": last}
    if has_bias:
        feed["bias"] = bias
    if in_int8:
        feed |= {"key_scale": scales[0][None, :, None], "value_scale": scales[1][None, :, None]}
    names = [
        name if name in feed else "" for name in ("rows", "key", "value", "last", "bias", "key_scale", "value_scale")
    ]
    node = helper.make_node(
        "AttendToInt8Cache" if in_int8 else "AttendToCache", names, ["attended", "new_key", "new_value"],
        domain=KERNELS, heads=heads, beams=beams, appends=int(appends), scale=0.3,
    )  # fmt: skip
    kind = INT8 if in_int8 else FLOAT
    attended, *present = run_node(kernels, node, feed, {"attended": FLOAT, "new_key": kind, "new_value": kind})

    if appends:
        new = rows.reshape(sources, 3, heads, head_size)
        for part, cached in enumerate((key, value)):
            for source, end in enumerate(last):
                numbers = new[source, 1 + part]
                cached[source, :, end] = np.clip(np.rint(numbers / scales[part]), -128, 127) if in_int8 else numbers
    for found, wanted in zip(present, (key, value), strict=True):
        np.testing.assert_array_equal(found, wanted)
    if in_int8:
        key, value = (cached * scales[part][None, :, None] for part, cached in enumerate((key, value)))
    queries = rows[:, :width].reshape(sources, beams, heads, head_size).transpose(0, 2, 1, 3)
    for source, end in enumerate(last):
        wanted = attention(
            queries[source], key[source, :, : end + 1], value[source, :, : end + 1], 0.3,
            bias[source, :, 0, : end + 1] if has_bias else None,
        )  # fmt: skip
        mine = attended.reshape(sources, beams, heads, head_size)[source].transpose(1, 0, 2)
        np.testing.assert_allclose(mine, wanted, rtol=0, atol=2e-5 * max(1, np.abs(wanted).max()))


@QUICK
@given(
    seed=st.integers(0, 2**32 - 1), sentences=st.integers(1, 4), length=st.integers(1, 37), heads=st.integers(1, 3),
    head_size=st.sampled_from([16, 32, 80, 64]),
)  # fmt: skip
def test_tokens_of_a_sentence_attend_to_all_of_it(
    kernels: Kernels, seed: int, sentences: int, length: int, heads: int, head_size: int
) -> None:
    rng = np.random.default_rng(seed)
    width = heads * head_size
    packed = rng.normal(size=(sentences * length, 3 * width)).astype(np.float32)
    node = helper.make_node(
        "AttendWithin", ["packed", "shape"], ["attended"], domain=KERNELS, heads=heads, scale=head_size**-0.5
    )
    feed = {"packed": packed, "shape": np.array([sentences, length, -1])}
    (attended,) = run_node(kernels, node, feed, {"attended": FLOAT})

    split = packed.reshape(sentences, length, 3, heads, head_size).transpose(2, 0, 3, 1, 4)
    for sentence, (q, key, value) in enumerate(zip(*split, strict=True)):
        wanted = attention(q, key, value, head_size**-0.5).transpose(1, 0, 2).reshape(length, width)
        np.testing.assert_allclose(attended.reshape(sentences, length, width)[sentence], wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("beams", [1, 4])
def test_a_row_has_the_bits_that_it_gets_alone(kernels: Kernels, beams: int) -> None:
    """Whatever stands beside it, and whatever the capacity is."""
    rng = np.random.default_rng(0)
    last = np.array([6, 0, 11], np.int32)
    key, value = rng.normal(size=(2, 3, 2, 12, 32)).astype(np.float32)
    rows = rng.normal(size=(3 * beams, 64)).astype(np.float32)

    def attend(sources: slice, capacity: int) -> NDArray[np.generic]:
        feed = {
            "rows": rows.reshape(3, beams, 64)[sources].reshape(-1, 64), "last": last[sources],
            "key": np.ascontiguousarray(key[sources, :, :capacity]),
            "value": np.ascontiguousarray(value[sources, :, :capacity]),
        }  # fmt: skip
        node = helper.make_node(
            "AttendToCache", ["rows", "key", "value", "last"], ["attended", "new_key", "new_value"], domain=KERNELS,
            heads=2, beams=beams, appends=0, scale=0.2,
        )  # fmt: skip
        return run_node(kernels, node, feed, {"attended": FLOAT})[0]

    together = attend(slice(None), 12)

    np.testing.assert_array_equal(attend(slice(0, 1), 7), together[:beams])
    np.testing.assert_array_equal(attend(slice(1, 2), 1), together[beams : 2 * beams])


def test_a_query_that_is_not_finite_gives_nan(kernels: Kernels) -> None:
    rows = np.full((1, 16), np.nan, np.float32)
    cache = np.ones((1, 1, 3, 16), np.float32)
    node = helper.make_node(
        "AttendToCache", ["rows", "key", "value", "last"], ["attended", "new_key", "new_value"], domain=KERNELS,
        heads=1, beams=1, appends=0, scale=1.0,
    )  # fmt: skip

    feed = {"rows": rows, "key": cache, "value": cache, "last": np.array([2], np.int32)}
    (attended,) = run_node(kernels, node, feed, {"attended": FLOAT})

    assert np.isnan(attended).all()


@pytest.mark.parametrize("broken", ["last", "key", "value", "rows", "bias"])
def test_operands_that_do_not_fit_are_refused(kernels: Kernels, broken: str) -> None:
    """A graph may come from anywhere: no memory beyond an operand is read or written."""
    cache = np.zeros((2, 1, 3, 16), np.float32)
    feed: dict[str, NDArray[Any]] = {
        "rows": np.zeros((2, 48), np.float32), "key": cache, "value": cache, "last": np.array([2, 0], np.int32),
        "bias": np.zeros((2, 1, 1, 3), np.float32),
    }  # fmt: skip
    node = helper.make_node(
        "AttendToCache", [*feed], ["attended", "new_key", "new_value"], domain=KERNELS,
        heads=1, beams=1, appends=1, scale=1.0,
    )  # fmt: skip
    run_node(kernels, node, feed, {"attended": FLOAT})
    wrong = {
        "last": np.array([2, 3], np.int32), "key": np.zeros((2, 2, 3, 16), np.float32),
        "value": cache[:, :, :2].copy(), "rows": np.zeros((2, 47), np.float32),
        "bias": np.zeros((2, 1, 1, 2), np.float32),
    }  # fmt: skip

    with pytest.raises(REFUSED, match="kvjobs: "):
        run_node(kernels, node, feed | {broken: wrong[broken]}, {"attended": FLOAT})


@pytest.mark.parametrize("last", [-1, 3, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("appends", [0, 1])
def test_positions_that_the_cache_lacks_are_refused(kernels: Kernels, last: int, appends: int) -> None:
    cache = np.zeros((2, 1, 3, 16), np.float32)
    feed = {
        "rows": np.zeros((2, 48 if appends else 16), np.float32), "key": cache, "value": cache,
        "last": np.array([2, last], np.int32),
    }  # fmt: skip
    node = helper.make_node(
        "AttendToCache", [*feed], ["attended", "new_key", "new_value"], domain=KERNELS, heads=1, beams=1,
        appends=appends, scale=1.0,
    )  # fmt: skip

    with pytest.raises(REFUSED, match="kvjobs: "):
        run_node(kernels, node, feed, {"attended": FLOAT})


@pytest.mark.parametrize("attributes", [
    {"beams": -(2**63)}, {"beams": 2**62 + 1}, {"beams": 0}, {"beams": -1}, {"beams": 2**63 - 1},
    {"beams": 0, "appends": 1}, {"beams": 4, "appends": 1}, {"beams": 2**62 + 1, "appends": 1},
    {"heads": -(2**63)}, {"heads": 2**62 + 1}, {"heads": 0}, {"heads": -1}, {"heads": 2**60 + 1},
    {"appends": 2}, {"appends": -1}, {"appends": 2**32}, {"scale": np.nan}, {"scale": -np.inf},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("sources", [2, 4])
def test_attributes_that_do_not_fit_are_refused(kernels: Kernels, attributes: dict[str, float], sources: int) -> None:
    """Also those of which a product with a size is another size, modulo 2 to the power of 64."""
    settings = {"heads": 1, "beams": 1, "appends": 0, "scale": 1.0} | attributes
    num_rows = int(sources * settings["beams"]) % 2**64
    cache = np.zeros((sources, 1, 3, 16), np.float32)
    feed: dict[str, NDArray[Any]] = {
        "rows": np.zeros((num_rows if num_rows < 99 else sources, 48 if settings["appends"] else 16), np.float32),
        "key": cache, "value": cache, "last": np.full(sources, 2, np.int32),
    }  # fmt: skip
    node = helper.make_node("AttendToCache", [*feed], ["attended", "new_key", "new_value"], domain=KERNELS, **settings)

    with pytest.raises(REFUSED, match="kvjobs: "):
        run_node(kernels, node, feed, {"attended": FLOAT})


@pytest.mark.parametrize("attributes", [
    {"heads": 0}, {"heads": -1}, {"heads": -(2**63)}, {"heads": 2**62 + 1}, {"scale": np.inf},
], ids=str)  # fmt: skip
def test_attributes_that_do_not_fit_a_sentence_are_refused(kernels: Kernels, attributes: dict[str, float]) -> None:
    node = helper.make_node(
        "AttendWithin", ["packed", "shape"], ["attended"], domain=KERNELS, **({"heads": 1, "scale": 1.0} | attributes)
    )
    feed = {"packed": np.zeros((4, 48), np.float32), "shape": np.array([2, 2, -1])}

    with pytest.raises(REFUSED, match="kvjobs: "):
        run_node(kernels, node, feed, {"attended": FLOAT})


@pytest.mark.parametrize("length", [3, 5, 0, -1, -(2**63), 2**62])
def test_a_length_that_does_not_divide_the_tokens_is_refused(kernels: Kernels, length: int) -> None:
    node = helper.make_node("AttendWithin", ["packed", "shape"], ["attended"], domain=KERNELS, heads=1, scale=1.0)
    feed = {"packed": np.zeros((4, 48), np.float32), "shape": np.array([1, length, -1])}

    with pytest.raises(REFUSED, match="kvjobs: "):
        run_node(kernels, node, feed, {"attended": FLOAT})


@pytest.mark.parametrize("left_out", ["key", "value", "last", "attended", "new_key", "new_value"])
def test_attention_without_an_operand_or_a_result_is_refused(kernels: Kernels, left_out: str) -> None:
    cache = np.zeros((2, 1, 3, 16), np.float32)
    feed = {"rows": np.zeros((2, 16), np.float32), "key": cache, "value": cache, "last": np.array([2, 0], np.int32)}
    inputs, outputs = (
        ["" if name == left_out else name for name in names] for names in (feed, ("attended", "new_key", "new_value"))
    )
    node = helper.make_node(
        "AttendToCache", inputs, outputs, domain=KERNELS, heads=1, beams=1, appends=0, scale=1.0
    )  # fmt: skip

    with pytest.raises(REFUSED):
        run_node(kernels, node, feed, {next(filter(None, outputs)): FLOAT})


def test_no_sources_and_no_tokens_give_no_results(kernels: Kernels) -> None:
    cache = np.zeros((0, 1, 3, 16), np.float32)
    feed = {"rows": np.zeros((0, 48), np.float32), "key": cache, "value": cache, "last": np.zeros(0, np.int32)}
    node = helper.make_node(
        "AttendToCache", [*feed], ["attended", "new_key", "new_value"], domain=KERNELS, heads=1, beams=1, appends=1,
        scale=1.0,
    )  # fmt: skip
    assert run_node(kernels, node, feed, {"attended": FLOAT})[0].shape == (0, 16)

    node = helper.make_node("AttendWithin", ["packed", "shape"], ["attended"], domain=KERNELS, heads=1, scale=1.0)
    feed = {"packed": np.zeros((0, 48), np.float32), "shape": np.array([0, 0, -1])}
    assert run_node(kernels, node, feed, {"attended": FLOAT})[0].shape == (0, 16)
