"""A head reduced to some ids of the vocabulary: the mapping between ids and rows of the head."""

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


def test_rows_of_the_head_are_in_the_order_of_the_ids() -> None:
    head = TargetHead.of(KEPT)

    assert head.to_ids(np.array([4, 0, 1])).tolist() == [13, 2, 3]
    assert head.hypothesis(Hypothesis((3, 1, 0), -1.0, -0.5, truncated=True)) == Hypothesis(
        (8, 3, 2), -1.0, -0.5, truncated=True
    )


def test_rules_are_mapped_to_rows_and_forbidden_ids_without_a_row_are_dropped() -> None:
    rules = dataclasses.replace(
        RULES,
        forced_bos_id=8,
        forced_eos_id=2,
        suppressed_ids=(1, 5, 99),
        begin_suppressed_ids=(4, 3),
        bad_sequences=((3, 5), (3, 4), (7, 5, 8)),
    )

    mapped = TargetHead.of(KEPT).rules(rules)

    assert (mapped.start_id, mapped.eos_id, mapped.forced_bos_id, mapped.forced_eos_id) == (4, 0, 3, 0)
    assert (mapped.suppressed_ids, mapped.begin_suppressed_ids, mapped.bad_sequences) == ((2,), (1,), ((1, 2),))
    assert mapped.max_new_tokens == rules.max_new_tokens


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"start_id": 4}, "decoder_start_token_id is 4"),
        ({"eos_id": 99}, "eos_token_id is 99"),
        ({"forced_bos_id": 0}, "forced_bos_token_id is 0"),
        ({"forced_eos_id": 14}, "forced_eos_token_id is 14"),
    ],
)
def test_a_required_id_without_a_row_is_refused(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(ModelError, match=f"{name}.*--head full"):
        TargetHead.of(KEPT).rules(dataclasses.replace(RULES, **changes))
