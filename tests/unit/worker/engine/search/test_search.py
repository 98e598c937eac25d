"""Greedy and beam search over scripted and random steps: no model, no session."""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.worker.engine.search.steps import EOS, START, RandomStep, ScriptedStep, ids, rules, slow_beam_search
from worker.engine.search.beam import BeamSearch
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.greedy import GreedySearch
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.search import run_search, search


def greedy_search(steps: Any, num_rows: int, rules: GenerationConfig) -> list[Hypothesis]:
    return [hypothesis for (hypothesis,) in run_search(GreedySearch(rules), steps, num_rows)]


def beam_search(steps: Any, num_rows: int, rules: GenerationConfig) -> list[list[Hypothesis]]:
    return run_search(BeamSearch(rules, first_step_rows=1), steps, num_rows)


def test_greedy_search_stops_a_row_at_its_own_end() -> None:
    step = ScriptedStep([[7, EOS], [8, EOS], [EOS, EOS]])

    assert ids(greedy_search(step, 2, rules())) == [(7, 8, EOS), (EOS,)]


def test_a_row_that_has_ended_leaves_the_batch() -> None:
    step = ScriptedStep([[7, EOS, 4], [8, 9, 5], [EOS, 9, 6], [EOS, 9, EOS]])

    assert ids(greedy_search(step, 3, rules())) == [(7, 8, EOS), (EOS,), (4, 5, 6, EOS)]
    assert step.fed == [[START, START, START], [7, 4], [8, 5], [6]]


def test_a_sentence_that_has_ended_takes_its_beams_out_of_the_batch() -> None:
    steps = RandomStep([1, 2, 3, 4, 5], 12, eos_bias=3.0)

    beam_search(steps, 5, rules(num_beams=3, max_new_tokens=20))

    assert steps.num_rows[0] == 5, "in the first step the equal beams share one row"
    assert steps.num_rows[1] == 15
    assert sorted(steps.num_rows[1:], reverse=True) == steps.num_rows[1:]
    assert steps.num_rows[-1] < 15


def test_few_rows_move_when_a_row_leaves() -> None:
    step = ScriptedStep([[7, EOS, 4, 4, 4, 4], [EOS] * 6])
    moves: list[list[int]] = []
    select = step.select
    step.select = lambda rows: (moves.append(rows.tolist()), select(rows))  # type: ignore[method-assign,func-returns-value,return-value,assignment]

    greedy_search(step, 6, rules())

    assert moves == [[0, 5, 2, 3, 4]]


def test_the_length_limit_forces_an_end_if_the_model_asks_for_it() -> None:
    step = ScriptedStep([[5, 5], [5, 5], [5, EOS]])

    long, natural = greedy_search(step, 2, rules(max_new_tokens=3, forced_eos_id=EOS))

    assert (long.ids, long.truncated) == ((5, 5, EOS), True)
    assert (natural.ids, natural.truncated) == ((5, 5, EOS), False)
    assert long.log_prob == pytest.approx(natural.log_prob), "a forced token adds no log-probability"


def test_without_a_forced_end_the_length_limit_truncates() -> None:
    (cut,) = greedy_search(ScriptedStep([[5], [6]]), 1, rules(max_new_tokens=2))

    assert (cut.ids, cut.truncated) == ((5, 6), True)


@pytest.mark.parametrize("forced_eos_id", [None, EOS])
@pytest.mark.parametrize("num_beams", [1, 3])
def test_a_hypothesis_counts_as_truncated_only_if_the_model_would_have_continued(
    num_beams: int, forced_eos_id: int | None
) -> None:
    three = rules(num_beams=num_beams, max_new_tokens=3, min_new_tokens=2, forced_eos_id=forced_eos_id)
    (going_on,) = search(RandomStep([1], 12, eos_bias=-50.0), 1, three)
    (ending,) = search(RandomStep([1], 12, eos_bias=50.0), 1, three)

    assert all(hypothesis.truncated for hypothesis in going_on)
    assert ending[0].ids[-1] == EOS
    assert not ending[0].truncated


@given(st.integers(0, 999), st.integers(1, 4), st.floats(-1, 3))
def test_a_hypothesis_that_ends_by_itself_at_the_limit_is_not_truncated(
    seed: int, num_beams: int, eos_bias: float
) -> None:
    (found,) = search(RandomStep([seed], 12, eos_bias=eos_bias), 1, rules(num_beams=num_beams, max_new_tokens=3))

    assert [hypothesis.truncated for hypothesis in found] == [hypothesis.ids[-1] != EOS for hypothesis in found]


def test_a_beam_that_could_only_tie_is_not_continued() -> None:
    """So does transformers: the running score has to be higher."""
    steps = RandomStep([1], 12)
    steps.logits = lambda *_: np.zeros(12, np.float32)  # type: ignore[method-assign]

    assert ids(beam_search(steps, 1, rules(num_beams=2, early_stopping=False, length_penalty=0.0))[0])[0] == (EOS,)
    assert len(steps.num_rows) == 2


def test_a_forced_first_token_comes_first_and_adds_no_log_probability() -> None:
    for num_beams in (1, 4):
        for best, *_ in search(RandomStep([1, 2], 12), 2, rules(num_beams=num_beams, forced_bos_id=9)):
            assert best.ids[0] == 9
    (hypothesis,) = greedy_search(RandomStep([1], 12), 1, rules(forced_bos_id=9, max_new_tokens=1))
    assert hypothesis.log_prob == 0.0


def test_forced_tokens_do_not_create_extra_hypotheses() -> None:
    forced = rules(num_beams=4, max_new_tokens=2, forced_bos_id=9, forced_eos_id=EOS)

    assert ids(beam_search(RandomStep([1], 12), 1, forced)[0]) == [(9, EOS)]


@pytest.mark.parametrize("num_beams", [1, 3])
def test_suppressed_ids_are_never_generated(num_beams: int) -> None:
    suppressed = rules(num_beams=num_beams, suppressed_ids=(3, 4), begin_suppressed_ids=(5, 6))

    for hypotheses in search(RandomStep(list(range(10)), 9), 10, suppressed):
        for hypothesis in hypotheses:
            assert not {3, 4} & set(hypothesis.ids)
            assert hypothesis.ids[0] not in (5, 6)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_no_hypothesis_ends_before_the_minimum_length(num_beams: int) -> None:
    exact = rules(num_beams=num_beams, min_new_tokens=6, max_new_tokens=6)

    for hypotheses in search(RandomStep([1, 2, 3], 9, eos_bias=9.0), 3, exact):
        assert {len(hypothesis.ids) for hypothesis in hypotheses} == {6}


def test_suppressing_does_not_change_the_log_prob_of_the_rest() -> None:
    """So does transformers: the model's probabilities count, unless renormalize_logits is set."""
    free = greedy_search(RandomStep([1], 9), 1, rules(max_new_tokens=1, suppressed_ids=(EOS,)))[0]
    renormalized = rules(max_new_tokens=1, suppressed_ids=(EOS,), renormalize_logits=True)
    logits = RandomStep([], 9).logits(1, (START,)).astype(np.float64)

    assert free.log_prob == pytest.approx(logits[1:].max() - np.log(np.exp(logits).sum()), abs=1e-5)
    assert greedy_search(RandomStep([1], 9), 1, renormalized)[0].log_prob == pytest.approx(
        logits[1:].max() - np.log(np.exp(logits[1:]).sum()), abs=1e-5
    )


def test_no_bigram_repeats_if_the_model_forbids_it() -> None:
    free, forbidding = (
        greedy_search(RandomStep(list(range(20)), 5, eos_bias=-9.0), 20, rules(no_repeat_ngram_size=size))
        for size in (0, 2)
    )

    def bigrams(hypothesis: Hypothesis) -> list[tuple[int, int]]:
        return list(zip((START, *hypothesis.ids), hypothesis.ids, strict=False))

    assert any(len(bigrams(hypothesis)) > len(set(bigrams(hypothesis))) for hypothesis in free)
    assert all(len(bigrams(hypothesis)) == len(set(bigrams(hypothesis))) for hypothesis in forbidding)


def test_bad_sequences_are_never_generated() -> None:
    free = ids(greedy_search(RandomStep(list(range(20)), 6), 20, rules()))
    (first, second) = next(sequence[1:3] for sequence in free if len(sequence) > 3)
    bad = rules(bad_sequences=((first, second),))

    assert all(
        (first, second) not in itertools.pairwise(sequence)
        for sequence in ids(greedy_search(RandomStep(list(range(20)), 6), 20, bad))
    )


def test_the_start_token_does_not_count_as_part_of_a_bad_sequence() -> None:
    """So does transformers, which applies a bad sequence one token later than its length requires."""
    (free,) = greedy_search(RandomStep([1], 9), 1, rules())

    assert greedy_search(RandomStep([1], 9), 1, rules(bad_sequences=((START, free.ids[0]),))) == [free]


def test_tokens_suppressed_at_the_beginning_are_suppressed_after_a_forced_first_token() -> None:
    (free,) = greedy_search(RandomStep([1], 9), 1, rules(forced_bos_id=5))
    (expected,) = greedy_search(RandomStep([1], 9), 1, rules(forced_bos_id=5, begin_suppressed_ids=(free.ids[1],)))

    assert expected.ids[0] == 5
    assert expected.ids[1] != free.ids[1]


def test_a_repetition_penalty_makes_repetition_less_likely() -> None:
    def num_repeated(**changes: Any) -> int:
        found = greedy_search(RandomStep(list(range(20)), 8, eos_bias=-9.0), 20, rules(**changes))
        return sum(len(hypothesis.ids) - len(set(hypothesis.ids)) for hypothesis in found)

    assert num_repeated(repetition_penalty=3.0) < num_repeated()


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize("penalty", [1.0, 1.2])
def test_a_row_with_non_finite_logits_fails_without_affecting_the_others(
    value: float, num_beams: int, renormalize: bool, penalty: float
) -> None:
    asked = rules(num_beams=num_beams, renormalize_logits=renormalize, repetition_penalty=penalty, min_new_tokens=4)
    seeds = [1, 2, 3, 4]
    sound = search(RandomStep(seeds, 12), 4, asked)
    found = search(RandomStep(seeds, 12, broken={(2, 2): value, (4, 0): value}), 4, asked)

    assert [math.isnan(hypotheses[0].log_prob) for hypotheses in found] == [False, True, False, True]
    assert [found[0], found[2]] == [sound[0], sound[2]]


def test_non_finite_logits_of_one_beam_fail_its_whole_sentence() -> None:
    asked = rules(num_beams=3, min_new_tokens=4)
    sound = RandomStep([1, 2], 12)
    beam_search(sound, 2, dataclasses.replace(asked, max_new_tokens=2, min_new_tokens=2))
    second_beam = sound.rows[1]

    found = beam_search(RandomStep([1, 2], 12, broken={second_beam: math.nan}), 2, asked)

    assert [math.isnan(hypotheses[0].log_prob) for hypotheses in found] == [True, False]
    assert found[1] == beam_search(RandomStep([1, 2], 12), 2, asked)[1]


@pytest.mark.parametrize("num_beams", [1, 3])
def test_non_finite_logits_are_detected_even_if_the_token_is_forced(num_beams: int) -> None:
    asked = rules(num_beams=num_beams, forced_bos_id=5, max_new_tokens=1)
    found = search(RandomStep([1, 2], 12, broken={(2, 0): math.nan}), 2, asked)

    assert [math.isnan(hypotheses[0].log_prob) for hypotheses in found] == [False, True]


def test_a_single_logit_of_minus_infinity_is_not_a_failure() -> None:
    (hypothesis,) = greedy_search(RandomStep([2], 12, broken={(2, 0): -math.inf}), 1, rules())

    assert math.isfinite(hypothesis.log_prob)


def test_logits_that_are_all_minus_infinity_are_a_failure() -> None:
    everything = rules(suppressed_ids=tuple(range(12)), renormalize_logits=True)

    assert math.isnan(greedy_search(RandomStep([2], 12), 1, everything)[0].log_prob)


@given(st.lists(st.integers(0, 99), min_size=1, max_size=5), st.integers(2, 12), st.floats(-2, 4))
def test_beam_size_one_equals_greedy(seeds: list[int], max_new_tokens: int, eos_bias: float) -> None:
    asked = rules(max_new_tokens=max_new_tokens, forced_eos_id=EOS)
    greedy = greedy_search(RandomStep(seeds, 11, eos_bias=eos_bias), len(seeds), asked)
    beam = beam_search(RandomStep(seeds, 11, eos_bias=eos_bias), len(seeds), asked)

    assert ids(greedy) == [hypotheses[0].ids for hypotheses in beam]
    for hypothesis, (expected, *_) in zip(greedy, beam, strict=True):
        assert hypothesis.log_prob == pytest.approx(expected.log_prob, abs=1e-4)
        assert hypothesis.score == pytest.approx(expected.score, abs=1e-4)
        assert hypothesis.truncated == expected.truncated


@given(
    st.lists(st.integers(0, 99), min_size=2, max_size=6),
    st.integers(1, 4),
    st.sampled_from([False, True, "never"]),
    st.floats(-2, 4),
)
def test_a_result_does_not_depend_on_the_other_sentences_of_the_batch(
    seeds: list[int], num_beams: int, early_stopping: Any, eos_bias: float
) -> None:
    asked = rules(num_beams=num_beams, early_stopping=early_stopping)
    together = search(RandomStep(seeds, 11, eos_bias=eos_bias), len(seeds), asked)
    alone = [search(RandomStep([seed], 11, eos_bias=eos_bias), 1, asked)[0] for seed in seeds]

    assert [ids(hypotheses) for hypotheses in together] == [ids(hypotheses) for hypotheses in alone]


NEGATIVE_LENGTH_PENALTY = {  # then early_stopping "never" looks no further than the current length
    "length_penalty": -1.0,
    "early_stopping": "never",
    "max_new_tokens": 9,
    "min_new_tokens": 0,
    "vocab_size": 14,
    "eos_bias": 2.0,
    "suppressed_ids": (),
    "forced_eos_id": None,
}


@example(seed=29, num_beams=3, **NEGATIVE_LENGTH_PENALTY)
@example(seed=57, num_beams=2, **NEGATIVE_LENGTH_PENALTY)
@given(
    seed=st.integers(0, 10_000),
    num_beams=st.integers(2, 5),
    length_penalty=st.sampled_from([-1.0, 0.0, 0.6, 1.0, 2.0]),
    early_stopping=st.sampled_from([False, True, "never"]),
    max_new_tokens=st.integers(1, 9),
    min_new_tokens=st.integers(0, 3),
    vocab_size=st.integers(14, 20),
    eos_bias=st.floats(-2, 5),
    suppressed_ids=st.sampled_from([(), (2,), (2, 3)]),
    forced_eos_id=st.sampled_from([None, EOS]),
)
def test_beam_search_equals_the_slow_reference(seed: int, vocab_size: int, eos_bias: float, **changes: Any) -> None:
    asked = rules(**changes)
    (fast,) = beam_search(RandomStep([seed], vocab_size, eos_bias=eos_bias), 1, asked)
    slow = slow_beam_search(seed, vocab_size, eos_bias, asked)

    assert ids(fast) == ids(slow)
    for hypothesis, expected in zip(fast, slow, strict=True):
        assert hypothesis.score == pytest.approx(expected.score, abs=1e-3)
        assert hypothesis.log_prob == pytest.approx(expected.log_prob, abs=1e-3)


def test_hypotheses_are_distinct_and_the_best_comes_first() -> None:
    for hypotheses in beam_search(RandomStep(list(range(20)), 15), 20, rules(num_beams=4)):
        assert len(hypotheses) == len(set(ids(hypotheses))) == 4
        assert [hypothesis.score for hypothesis in hypotheses] == sorted(
            (hypothesis.score for hypothesis in hypotheses), reverse=True
        )


def test_a_vocabulary_smaller_than_the_beam_is_searched_too() -> None:
    for hypotheses in beam_search(RandomStep([1, 2], 4), 2, rules(num_beams=6, max_new_tokens=3)):
        assert len(hypotheses) == len(set(ids(hypotheses)))
