"""A head for some ids of the vocabulary: ids and rows of the head."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from jobs.errors import ModelError
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.seq2seq.native.target_head import TargetHead

KEPT = (2, 3, 5, 8, 13)

RULES = GenerationConfig(start_id=13, eos_id=2, max_new_tokens=9)


def test_a_full_head_changes_nothing() -> None:
    head = TargetHead.of(None)
    found = Hypothesis((4, 2), -1.0, -0.5, truncated=False)

    assert head.rules(RULES) is RULES
    assert head.hypothesis(found) is found
    assert head.to_ids(np.array([4, 2])).tolist() == [4, 2]


def test_places_are_the_order_of_the_ids() -> None:
    head = TargetHead.of(KEPT)

    assert head.to_ids(np.array([4, 0, 1])).tolist() == [13, 2, 3]
    assert head.hypothesis(Hypothesis((3, 1, 0), -1.0, -0.5, truncated=True)) == Hypothesis(
        (8, 3, 2), -1.0, -0.5, truncated=True
    )


def test_rules_are_said_in_places_and_what_cannot_be_said_need_not_be_forbidden() -> None:
    rules = dataclasses.replace(
        RULES,
        forced_bos_id=8,
        forced_eos_id=2,
        suppressed_ids=(1, 5, 99),
        begin_suppressed_ids=(4, 3),
        bad_sequences=((3, 5), (3, 4), (7, 5, 8)),
    )

    said = TargetHead.of(KEPT).rules(rules)

    assert (said.start_id, said.eos_id, said.forced_bos_id, said.forced_eos_id) == (4, 0, 3, 0)
    assert (said.suppressed_ids, said.begin_suppressed_ids, said.bad_sequences) == ((2,), (1,), ((1, 2),))
    assert said.max_new_tokens == rules.max_new_tokens


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"start_id": 4}, "decoder_start_token_id is 4"),
        ({"eos_id": 99}, "eos_token_id is 99"),
        ({"forced_bos_id": 0}, "forced_bos_token_id is 0"),
        ({"forced_eos_id": 14}, "forced_eos_token_id is 14"),
    ],
)
def test_what_has_to_be_said_and_cannot_is_an_error(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(ModelError, match=f"{name}.*--head full"):
        TargetHead.of(KEPT).rules(dataclasses.replace(RULES, **changes))
