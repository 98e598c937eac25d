"""The beam search in whole-array operations, compared with its slow twin number by number."""

import copy
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.worker.engine.search.slow_beam import SlowBeamSearch, _assign_rows
from tests.unit.worker.engine.search.steps import EOS, rules
from worker.engine.search.beam import BeamSearch
from worker.engine.search.beam_candidates import _from_all, best_continuations
from worker.engine.search.rows import assign_rows

RULES = st.fixed_dictionaries(
    {
        "num_beams": st.sampled_from([1, 2, 3, 4, 6]),
        "early_stopping": st.sampled_from([False, True, "never"]),
        "length_penalty": st.sampled_from([-1.0, 0.0, 0.6, 1.0, 2.0]),
        "max_new_tokens": st.integers(1, 12),
        "min_new_tokens": st.sampled_from([0, 0, 3]),
        "forced_bos_id": st.sampled_from([None, None, 5]),
        "forced_eos_id": st.sampled_from([None, EOS]),
        "suppressed_ids": st.sampled_from([(), (2,), (2, 3)]),
        "begin_suppressed_ids": st.sampled_from([(), (4, 6)]),
        "bad_sequences": st.sampled_from([(), ((7, 8), (9, 1, 4))]),
        "repetition_penalty": st.sampled_from([1.0, 1.0, 1.3]),
        "no_repeat_ngram_size": st.sampled_from([0, 0, 2]),
        "renormalize_logits": st.sampled_from([False, False, True]),
    }
)


def random_logits(rng: np.random.Generator, rows: int, vocab_size: int, distinct: int, eos_bias: float) -> Any:
    """Of `distinct` values if not 0, so that many are equal; rows are now and then broken."""
    logits = rng.normal(size=(rows, vocab_size)).astype(np.float32) * 3
    if distinct:
        logits = np.resize(logits, distinct)[rng.integers(0, distinct, logits.shape)]
    logits[:, EOS] += np.float32(eos_bias)
    if rng.random() < 0.1:
        logits[rng.integers(rows), rng.integers(vocab_size)] = rng.choice([np.nan, np.inf, -np.inf])
    if rng.random() < 0.05:
        logits[rng.integers(rows), :] = -np.inf
    return logits


def plain(found: Any) -> Any:
    """Hypotheses that compare equal bit by bit; of one that is broken, only that it is."""
    return {
        sentence: [
            "broken"
            if np.isnan(hypothesis.log_prob)
            else (hypothesis.ids, hypothesis.log_prob, hypothesis.score, hypothesis.truncated)
            for hypothesis in best
        ]
        for sentence, best in found.items()
    }


@given(
    changes=RULES,
    seed=st.integers(0, 100_000),
    vocab_size=st.sampled_from([10, 24, 100, 200, 945]),
    distinct=st.sampled_from([0, 40]),
    room=st.integers(1, 5),
    eos_bias=st.floats(-2, 5),
    scaled=st.booleans(),
    shares_first_row=st.booleans(),
)
def test_every_step_equals_that_of_the_slow_twin(
    changes: dict[str, Any],
    seed: int,
    vocab_size: int,
    distinct: int,
    room: int,
    eos_bias: float,
    scaled: bool,
    shares_first_row: bool,
) -> None:
    """Ids, scores to the last bit, equal scores, moves of rows, with sentences that arrive at any step."""
    asked = rules(**changes)
    rng = np.random.default_rng(seed)
    first_step_rows = 1 if shares_first_row else asked.num_beams
    fast, slow = (search_class(asked, first_step_rows=first_step_rows) for search_class in (BeamSearch, SlowBeamSearch))
    arrived, ended = 0, 0
    while ended < 6:
        free = room - fast.num_sentences
        # Sentences that share a first row begin together.
        if arrived < 6 and free and (not fast.num_sentences or (rng.random() < 0.5 and not shares_first_row)):
            new = range(arrived, min(6, arrived + int(rng.integers(1, free + 1))))
            fast.add(new)
            slow.add(new)
            arrived = new.stop
        ids = fast.last_ids
        assert ids.tolist() == slow.last_ids.tolist()
        logits = random_logits(rng, len(ids), vocab_size, distinct, eos_bias)
        scales = rng.uniform(0.5, 2, len(ids)).astype(np.float32) if scaled else None
        found, order = fast.advance(logits.copy(), copy.copy(scales))
        wanted, slow_order = slow.advance(logits, scales)

        assert plain(found) == plain(wanted)
        assert (order is None) == (slow_order is None)
        if order is not None and slow_order is not None:
            assert order.tolist() == slow_order.tolist()
        ended += len(found)


@given(
    seed=st.integers(0, 999),
    vocab_size=st.sampled_from([4_097, 5_003]),
    num_beams=st.integers(1, 5),
    distinct=st.sampled_from([0, 2_000]),
)
def test_the_best_of_a_large_vocabulary_equal_those_of_a_full_sort(
    seed: int, vocab_size: int, num_beams: int, distinct: int
) -> None:
    rng = np.random.default_rng(seed)
    logits = random_logits(rng, 2 * num_beams, vocab_size, distinct, 0.0)
    rest = (
        rng.uniform(0.5, 2, len(logits)).astype(np.float32),
        rng.normal(size=len(logits)).astype(np.float32),
        rng.normal(size=(2, num_beams)).astype(np.float32),
        np.tile(rng.permutation(num_beams), (2, 1)),
        2 * num_beams,
    )

    found = best_continuations(logits, *rest)
    with np.errstate(invalid="ignore"):
        wanted = _from_all(logits, *rest)

    np.testing.assert_array_equal(found.scores, wanted.scores)
    is_finite = np.isfinite(found.scores)
    assert (found.ids[is_finite] == wanted.ids[is_finite]).all()
    assert (found.rows[is_finite] == wanted.rows[is_finite]).all()


@given(st.integers(1, 6), st.integers(1, 7), st.integers(0, 999))
def test_rows_are_assigned_as_by_the_slow_twin(sentences: int, beams: int, seed: int) -> None:
    parents = np.random.default_rng(seed).integers(0, beams, (sentences, beams))

    assert assign_rows(parents).tolist() == _assign_rows(parents).tolist()
