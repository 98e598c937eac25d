"""Keys and values in int8: their scales, and that every graph of a model reads the same of them."""

import random

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.places import GOLDEN
from tests.tiny_models import TinyNative, build_kv, decode, draw_sources
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.batches import IdPair
from worker.engine.seq2seq.native.kv_calibration import largest_seen
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.graphs import cached_dtype
from worker.graphs.seq2seq.kv_bounds import largest_possible
from worker.graphs.seq2seq.quantized_kv import KVScales, LargestKV
from worker.graphs.seq2seq.weights import Seq2SeqWeights
from worker.models.json_file import read_json

FAMILIES = ("tiny-swish-tied", "tiny-relu-tied", "tiny-relu-separate")


@pytest.fixture(scope="module", params=FAMILIES)
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[TinyNative, TinyNative]:
    """A model in int8 that keeps keys and values in float32, and one that keeps them in int8."""
    family, new = request.param, tmp_path_factory.mktemp
    plain = build_kv(new("kv"), family, Precision.INT8, kv_in_int8=False)
    return plain, build_kv(new("kv"), family, Precision.INT8)


def largest(value: float) -> LargestKV:
    array = np.full((2, 1, 3), value, np.float32)
    return LargestKV(array, array)


def test_a_scale_has_room_above_what_the_sample_shows() -> None:
    scale = KVScales.of(largest(1.27), largest(0)).past

    assert 1.25 * 1.27 <= scale.max() * 127 <= 1.3 * 1.27


def test_a_scale_has_room_for_a_quarter_of_what_is_possible() -> None:
    assert KVScales.of(largest(0.1), largest(40)).past.min() * 127 >= 10


def test_a_channel_that_is_always_zero_has_a_scale() -> None:
    assert (KVScales.of(largest(0), largest(0)).cross == 1).all()


def test_small_differences_between_processors_do_not_change_a_scale() -> None:
    scale, next_scale = (
        KVScales.of(largest(value), largest(0)).past for value in (1.23, np.nextafter(np.float32(1.23), 2))
    )

    assert (scale == next_scale).all()


def test_no_key_or_value_is_beyond_its_bound(models: tuple[TinyNative, TinyNative]) -> None:
    plain, _ = models
    config = read_json(plain.folder / "config.json")
    sizes = read_network(config)
    weights = load_file(GOLDEN / f"{read_json(plain.folder / 'kvjobs.json')['source']}.safetensors")
    possible = largest_possible(sizes, Seq2SeqWeights(weights, sizes, None))
    sources = sorted(draw_sources(config, 40, seed=3), key=len, reverse=True)

    seen = largest_seen(plain.model.graphs, sources, plain.rules(num_beams=1))

    # 1 % for the rounding of int8 products; the bound would not be worth much if it were far away.
    for found, bound in ((seen.past, possible.past), (seen.cross, possible.cross)):
        assert (found <= 1.01 * bound + 1e-3).all()
        assert (found > bound / 20).any()


@pytest.mark.parametrize("num_beams", [1, 3])
def test_the_ids_are_the_same_with_the_cache_and_without(models: tuple[TinyNative, TinyNative], num_beams: int) -> None:
    built = models[1]
    sources, rules = built.draw_sources(24, seed=1), built.rules(num_beams=num_beams)
    wanted = decode(built.model, sources, rules, cache="off")

    assert cached_dtype(built.folder / "decoder.onnx") == np.int8
    for cache in ("auto", "hybrid:3"):
        found = decode(built.model, sources, rules, cache=cache)
        assert [[hypothesis.ids for hypothesis in best] for best in found] == [
            [hypothesis.ids for hypothesis in best] for best in wanted
        ]
        # A number on the edge between two of int8 falls to either side by the last bit of float32.
        assert [hypothesis.log_prob for best in found for hypothesis in best] == pytest.approx(
            [hypothesis.log_prob for best in wanted for hypothesis in best], abs=0.01
        )


def test_given_targets_are_scored_as_the_search_scores_them(models: tuple[TinyNative, TinyNative]) -> None:
    built = models[1]
    sources, rules = built.draw_sources(12, seed=2), built.rules(num_beams=1, forced_eos_token_id=None)
    found = [best[0] for best in decode(built.model, sources, rules)]
    pairs = [IdPair(source, hypothesis.ids) for source, hypothesis in zip(sources, found, strict=True)]
    order = sorted(range(len(pairs)), key=lambda index: -len(pairs[index].source))

    scores = built.model.new_scorer().log_probs([pairs[index] for index in order], RunContext())

    for index, score in zip(order, scores, strict=True):
        assert float(score.sum()) == pytest.approx(found[index].log_prob, abs=0.01)


def test_a_model_that_was_added_with_keys_and_values_in_float32_still_runs(
    models: tuple[TinyNative, TinyNative],
) -> None:
    plain, quantized = models
    assert plain.model.graphs.shape.dtype == np.float32
    sources = plain.draw_sources(20, seed=4)
    random.Random(0).shuffle(sources)

    found, expected = (decode(built.model, sources, built.rules(num_beams=1)) for built in (plain, quantized))

    # Two approximations of one model: their scores stay close for as long as their ids are the same.
    same = [(a[0], b[0]) for a, b in zip(found, expected, strict=True) if a[0].ids == b[0].ids]
    assert len(same) >= len(sources) // 2
    assert [a.log_prob for a, _ in same] == pytest.approx([b.log_prob for _, b in same], abs=0.5)
