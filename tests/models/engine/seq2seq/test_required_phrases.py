"""Required phrases through every decoder: native and exported, with the cache and without, a part of the head."""

import dataclasses
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.models.engine.seq2seq.native.test_target_head import every_other_id
from tests.tiny_models import OpenKV, OpenTiny, build_kv, decode
from worker.engine.search.generation_config import GenerationConfig, SegmentRules
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.required_phrases import Phrase, Phrases
from worker.graphs.precision import Precision

FAMILY = "tiny-swish-tied"


def requirements(count: int) -> list[tuple[Phrases, ...]]:
    """Of each segment: one phrase, two, one of two, and none; all ids are even."""
    one = (Phrase((10, 12)),)
    kinds: list[tuple[Phrases, ...]] = [(one,), (one, (Phrase((20,)),)), ((Phrase((16, 18, 8)), Phrase((14,))),), ()]
    return [kinds[index % len(kinds)] for index in range(count)]


def with_requirements(rules: GenerationConfig, count: int) -> GenerationConfig:
    segments = tuple(SegmentRules(required=required) for required in requirements(count))
    return dataclasses.replace(rules, num_beams=4, max_new_tokens=14, segments=segments)


def assert_hold(found: list[list[Hypothesis]]) -> None:
    for hypotheses, required in zip(found, requirements(len(found)), strict=True):
        assert hypotheses
        for hypothesis in hypotheses:
            written = f" {' '.join(map(str, hypothesis.ids))} "
            for phrases in required:
                assert any(f" {' '.join(map(str, phrase.ids))} " in written for phrase in phrases)


def plain(found: list[list[Hypothesis]]) -> list[Any]:
    return [(each.ids, pytest.approx(each.score, abs=1e-4)) for hypotheses in found for each in hypotheses]


def test_native_and_exported_decoders_agree_with_the_cache_and_without(open_kv: OpenKV, open_tiny: OpenTiny) -> None:
    native, exported = open_kv(FAMILY), open_tiny(FAMILY)
    rules = with_requirements(native.rules(), len(native.sources))

    found = native.run(rules)

    assert_hold(found)
    for options in ({"rows": 3}, {"cache": "off"}, {"cache": "hybrid:2", "rows": 2}):
        assert plain(native.run(rules, **options)) == plain(found), options
    for cache in ("auto", "off"):
        assert plain(decode(exported.model, native.sources, rules, cache=cache, rows=3)) == plain(found)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8])
def test_a_batch_gives_each_row_what_it_gets_alone(open_kv: OpenKV, precision: Precision) -> None:
    native = open_kv(FAMILY, precision)
    sources = native.draw_sources(11)
    rules = with_requirements(native.rules(), len(sources))

    together = decode(native.model, sources, rules, rows=8)

    assert_hold(together)
    assert together == [decode(native.model, [source], rules.only([index]))[0] for index, source in enumerate(sources)]


def test_a_head_without_all_ids_writes_the_phrases_that_it_has(open_kv: OpenKV, tmp_path: Path) -> None:
    kept = every_other_id(open_kv(FAMILY))
    small = build_kv(tmp_path, FAMILY, head_ids=kept)
    sources = small.draw_sources(8)
    lacks = next(token for token in range(10, 60) if token not in kept)
    rules = with_requirements(small.rules(), len(sources))
    segments = [
        dataclasses.replace(segment, required=tuple((Phrase((lacks,)), *phrases) for phrases in segment.required))
        for segment in rules.segments
    ]

    assert_hold(decode(small.model, sources, dataclasses.replace(rules, segments=tuple(segments))))
    never = SegmentRules(required=((Phrase((lacks, 10)),),))
    assert decode(small.model, sources[:1], dataclasses.replace(rules, segments=(never,))) == [[]]


def test_a_whole_word_is_not_one_that_goes_on(open_kv: OpenKV, tmp_path: Path) -> None:
    """Also where the head has other numbers for the ids that go on with a word."""
    for model in (open_kv(FAMILY), build_kv(tmp_path, FAMILY, head_ids=every_other_id(open_kv(FAMILY)))):
        sources = model.draw_sources(8)
        segment = SegmentRules(required=((Phrase((10,), is_whole=True),),))
        rules = dataclasses.replace(model.rules(), num_beams=4, max_new_tokens=14, segments=(segment,) * len(sources))
        part = decode(model.model, sources, rules)
        behind = {b for best in part for one in best for a, b in pairwise(one.ids) if a == 10} - {rules.eos_id}
        assert behind

        whole = decode(model.model, sources, dataclasses.replace(rules, continuing_ids=tuple(sorted(behind))))

        for best in whole:
            assert best
            for one in best:
                assert any(a == 10 and b not in behind for a, b in pairwise((*one.ids, rules.eos_id)))
