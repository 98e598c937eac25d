"""A head for a part of the vocabulary gives the results of a full head in which the other ids are suppressed."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import ModelError
from tests.tiny_models import OpenKV, TinyNative, build_kv, decode
from worker.engine.search.generation_config import GenerationConfig
from worker.graphs.precision import Precision


def every_other_id(built: TinyNative) -> list[int]:
    """Half of the vocabulary, with the end and start ids."""
    rules = built.rules()
    return sorted({*range(0, built.model.graphs.num_target_ids, 2), rules.eos_id, rules.start_id})


def suppress_the_others(built: TinyNative, kept: Sequence[int], **settings: Any) -> GenerationConfig:
    """Rules under which a full head generates only the kept ids, with probabilities renormalized over these."""
    others = sorted(set(range(built.model.graphs.num_target_ids)) - set(kept))
    rules = built.rules(**settings, renormalize_logits=True)
    return dataclasses.replace(rules, suppressed_ids=tuple(sorted({*rules.suppressed_ids, *others})))


SETTINGS: list[dict[str, Any]] = [
    {"num_beams": 1},
    {"num_beams": 4},
    {"num_beams": 1, "repetition_penalty": 1.5},
    {"num_beams": 3, "no_repeat_ngram_size": 2, "suppress_tokens": [3, 4, 6]},
    {"num_beams": 4, "forced_bos_token_id": 10, "begin_suppress_tokens": [5, 6, 7, 8]},
    {"num_beams": 2, "bad_words_ids": [[12], [10, 14], [11, 14]]},
]


@pytest.mark.parametrize("family", ["tiny-swish-tied", "tiny-relu-separate"])
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8])
def test_a_smaller_head_equals_a_full_head_with_the_other_ids_suppressed(
    open_kv: OpenKV, tmp_path: Path, family: str, precision: Precision
) -> None:
    """In ids and scores of all hypotheses, also under rules that name ids which the smaller head lacks."""
    full = open_kv(family, precision)
    kept = every_other_id(full)
    small = build_kv(tmp_path, family, precision, head_ids=kept)
    assert small.model.graphs.num_target_ids == len(kept) < full.model.graphs.num_target_ids
    sources = full.draw_sources(20)

    for settings in SETTINGS:
        found = decode(small.model, sources, small.rules(**settings, renormalize_logits=True), rows=7)
        wanted = decode(full.model, sources, suppress_the_others(full, kept, **settings), rows=7)

        for some, others in zip(found, wanted, strict=True):
            assert [hypothesis.ids for hypothesis in some] == [hypothesis.ids for hypothesis in others], settings
            assert {token_id for hypothesis in some for token_id in hypothesis.ids} <= set(kept)
            for hypothesis, expected in zip(some, others, strict=True):
                assert hypothesis.score == pytest.approx(expected.score, abs=1e-4), settings
                assert hypothesis.truncated == expected.truncated


def test_a_forced_id_that_the_head_lacks_is_refused_before_any_work(open_kv: OpenKV, tmp_path: Path) -> None:
    kept = every_other_id(open_kv())
    small = build_kv(tmp_path, "tiny-swish-tied", head_ids=kept)
    assert 9 not in kept

    with pytest.raises(ModelError, match=r"forced_bos_token_id .*9.*--head full"):
        small.run(small.rules(forced_bos_token_id=9))
