"""How far a model in int8 is from fp32: its figures, as they are stored and judged."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pytest

from jobs.errors import ModelError
from worker.models.drift import Drift, RelevanceDrift, read_drift

EXACT = [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]
SPREAD = math.sqrt(2 / 3)


def moved(by: float) -> RelevanceDrift:
    return RelevanceDrift.between([[1.0 + by, 2.0, 3.0], [3.0, 2.0, 1.0]], EXACT)


def test_scores_change_in_standard_deviations_and_an_order_counts_once() -> None:
    found = moved(1.5)

    assert found.worst == pytest.approx(1.5 / SPREAD, rel=0.01)
    assert found.mean == pytest.approx(found.worst / 6, rel=0.01)
    assert (found.num_reordered, found.num_queries, found.num_pairs) == (1, 2, 6)


def test_a_drift_of_scores_is_large_above_a_tenth_of_a_standard_deviation() -> None:
    assert not moved(0.59 * SPREAD).is_large
    assert moved(0.61 * SPREAD).is_large


@pytest.mark.parametrize(("exact", "word"), [([[1.0, 1.0]], "equal"), ([[1.0, math.nan]], "finite")])
def test_scores_that_cannot_be_compared_are_refused(exact: Sequence[Sequence[float]], word: str) -> None:
    with pytest.raises(ModelError, match=word):
        RelevanceDrift.between([[1.0, 2.0]], exact)


TEXTS: dict[str, Any] = {"num_tokens": 9, "num_languages": 2, "perplexity": 3.0, "perplexity_fp32": 2.0}
TEXTS |= {"perplexity_change": 0.5, "mean": 0.25, "worst": 1.0}


@pytest.mark.parametrize("drift", [Drift(**TEXTS), moved(1.5)])
def test_either_kind_is_read_as_it_was_stored(drift: Drift | RelevanceDrift) -> None:
    assert read_drift(json.loads(json.dumps(asdict(drift)))) == drift
