"""Continuing prompts over given logits: what ends a row, what is drawn, and that no row sees another."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import ModelError
from jobs.outcome import Finish
from jobs.tasks.generate import GenerateOptions
from worker.engine.search.continuation import Continuation, ContinuationSearch, EndsIn
from worker.engine.search.continuation_rules import ContinuationRules, Sampling, read_continuation_rules

VOCAB = 40


def logits_after(tokens: Sequence[int]) -> Any:
    """Logits (V,) that depend on all tokens of a row."""
    seed = int(sum((index + 1) * (token + 3) for index, token in enumerate(tokens))) % 2**32
    return np.random.default_rng(seed).normal(scale=3.0, size=VOCAB).astype(np.float32)


def run(
    prompts: Sequence[Sequence[int]],
    rules: ContinuationRules,
    *,
    together: int = 64,
    ends_in: EndsIn | None = None,
    max_positions: int = 50,
) -> list[Continuation]:
    """The continuation of each prompt, at most `together` rows at a time."""
    search = ContinuationSearch(rules, max_positions, ends_in)
    waiting, found = list(range(len(prompts))), {}
    while waiting or search.num_rows:
        while waiting and search.num_rows < together:
            search.add([waiting[0]], [prompts[waiting.pop(0)]])
        logits = np.stack([logits_after(search.tokens(row).tolist()) for row in range(search.num_rows)])
        ended, order = search.advance(logits)
        assert (order is None) == (not ended)
        found |= ended
    return [found[index] for index in range(len(prompts))]


def naive(prompt: Sequence[int], count: int) -> tuple[list[int], float]:
    """The most likely token again and again."""
    tokens, log_prob = list(prompt), 0.0
    for _ in range(count):
        logits = logits_after(tokens).astype(np.float64)
        best = int(logits.argmax())
        log_prob += float(logits[best] - np.log(np.exp(logits).sum()))
        tokens.append(best)
    return tokens[len(prompt) :], log_prob


prompts_of = st.lists(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=9), min_size=1, max_size=9)


@given(prompts_of, st.integers(1, 12), st.integers(1, 4))
def test_every_row_takes_its_most_likely_tokens(prompts: list[list[int]], count: int, together: int) -> None:
    found = run(prompts, ContinuationRules(max_new_tokens=count), together=together)

    for prompt, continuation in zip(prompts, found, strict=True):
        ids, log_prob = naive(prompt, count)
        assert list(continuation.ids) == ids
        assert continuation.log_prob == pytest.approx(log_prob, abs=1e-4)
        assert continuation.finish is Finish.LENGTH


@given(
    prompts_of, st.sampled_from([Sampling(0.7), Sampling(1.2, 0.8), Sampling(1.0, 0.9, 5), Sampling(1.0, 1.0, 3, 9)])
)
def test_what_is_drawn_depends_on_the_prompt_alone(prompts: list[list[int]], sampling: Sampling) -> None:
    rules = ContinuationRules(max_new_tokens=6, sampling=sampling)

    together = run(prompts, rules)

    assert together == [run([prompt], rules)[0] for prompt in prompts]
    assert together == run(prompts, rules, together=2)


def test_a_row_ends_with_any_of_the_ids_that_end_a_text() -> None:
    prompts = [[continuation] for continuation in range(20)]
    plain = run(prompts, ContinuationRules(max_new_tokens=8))
    ends = (plain[3].ids[2], plain[4].ids[5])

    for continuation, expected in zip(
        run(prompts, ContinuationRules(max_new_tokens=8, eos_ids=ends)), plain, strict=True
    ):
        index = next((index for index, token in enumerate(expected.ids) if token in ends), None)
        assert continuation.ids == (expected.ids if index is None else expected.ids[: index + 1])
        assert continuation.finish is (Finish.LENGTH if index is None else Finish.EOS)


def test_a_row_ends_where_it_is_told_to() -> None:
    asked: list[tuple[int, list[int]]] = []

    def ends_in(index: int, ids: Any) -> bool:
        asked.append((index, ids.tolist()))
        return index == 1 and len(ids) == 2

    first, second = run([[1], [2]], ContinuationRules(max_new_tokens=4), ends_in=ends_in)

    assert (first.finish, len(first.ids)) == (Finish.LENGTH, 4)
    assert (second.finish, len(second.ids)) == (Finish.STOP, 2)
    assert asked[:2] == [(0, list(first.ids[:1])), (1, list(second.ids[:1]))]


def test_a_row_ends_with_the_positions_of_the_model() -> None:
    found = run([[1] * 7, [2] * 9], ContinuationRules(), max_positions=9)

    assert [len(continuation.ids) for continuation in found] == [3, 1]  # the last token is never read


def test_a_row_with_broken_logits_ends_alone() -> None:
    search = ContinuationSearch(ContinuationRules(max_new_tokens=3), 50)
    search.add([0, 1], [[1], [2]])
    logits = np.zeros((2, VOCAB), np.float32)
    logits[0, 5] = np.nan

    ended, order = search.advance(logits)

    assert np.isnan(ended[0].log_prob)
    assert order is not None
    assert order.tolist() == [1]


def test_the_log_probability_is_that_of_the_model_whatever_the_rules_change() -> None:
    rules = ContinuationRules(max_new_tokens=1, repetition_penalty=5.0, suppressed_ids=(7,))
    search = ContinuationSearch(rules, 50)
    search.add([0], [[3]])
    logits = np.zeros((1, VOCAB), np.float32)
    logits[0, [3, 7, 9]] = 4.0, 5.0, 3.0
    expected = 3.0 - np.log(np.exp(logits[0].astype(np.float64)).sum())

    ended, _ = search.advance(logits)

    assert ended[0].ids == (9,)
    assert ended[0].log_prob == pytest.approx(expected, abs=1e-5)


@given(st.integers(0, 500), st.floats(0.3, 2.0), st.integers(0, 12), st.floats(0.05, 1.0))
def test_only_tokens_that_the_options_leave_are_drawn(seed: int, temperature: float, top_k: int, top_p: float) -> None:
    """As the logits warpers of transformers leave them: the k best; of these, those needed for the probability p."""
    logits = np.random.default_rng(seed).normal(scale=2.0, size=(1, VOCAB)).astype(np.float32)
    order = np.argsort(-logits[0], kind="stable")[: top_k or VOCAB]
    weights = np.exp(logits[0][order].astype(np.float64) / temperature)
    before = np.cumsum(weights / weights.sum()) - weights / weights.sum()
    left = set(order[before < top_p - 1e-9].tolist()) | {int(order[0])}
    numbers = np.random.default_rng(seed).random(20)

    sampling = Sampling(temperature, top_p, top_k)
    drawn = {int(sampling.draw(logits.copy(), None, np.array([number]))[0]) for number in numbers}

    border = set(order[(before < top_p + 1e-9)].tolist())
    assert drawn <= left | border


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    logits = np.log(np.array([[0.5, 0.3, 0.15, 0.05]], np.float32))
    numbers = np.random.default_rng(1).random(20_000)

    drawn = Sampling(1.0).draw(np.repeat(logits, len(numbers), axis=0), None, numbers)

    shares = np.bincount(drawn, minlength=4) / len(numbers)
    assert shares == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.01)


def test_factors_of_rows_count_before_the_temperature() -> None:
    logits, scales = np.array([[2.0, 4.0, 6.0]], np.float32), np.array([0.5], np.float32)
    numbers = np.linspace(0, 0.999, 200)

    drawn = [int(Sampling(0.7).draw(logits.copy(), scales, np.array([number]))[0]) for number in numbers]
    scaled = [int(Sampling(0.7).draw(logits * 0.5, None, np.array([number]))[0]) for number in numbers]

    assert drawn == scaled


def test_a_least_length_is_no_rule_where_nothing_ends_a_continuation() -> None:
    (found,) = run([[1, 2]], ContinuationRules(min_new_tokens=5, max_new_tokens=3))

    assert list(found.ids) == naive([1, 2], 3)[0]


@pytest.mark.parametrize(
    ("config", "generation", "expected"),
    [
        ({"eos_token_id": 3}, None, ContinuationRules(eos_ids=(3,))),
        ({"eos_token_id": 3}, {"eos_token_id": [5, 6, 5]}, ContinuationRules(eos_ids=(5, 6))),
        ({"eos_token_id": 3}, {"do_sample": True, "temperature": 0.6, "top_k": 20}, ContinuationRules(eos_ids=(3,))),
        (
            {},
            {"repetition_penalty": 1.1, "stop_strings": "x"},
            ContinuationRules(repetition_penalty=1.1, stop_texts=("x",)),
        ),
        (
            {},
            {"suppress_tokens": [4], "bad_words_ids": [[1], [2, 3]]},
            ContinuationRules(suppressed_ids=(1, 4), bad_sequences=((2, 3),)),
        ),
    ],
)
def test_the_rules_of_a_model_are_those_of_its_files(config: Any, generation: Any, expected: ContinuationRules) -> None:
    assert read_continuation_rules(config, generation, vocab_size=10) == expected


@pytest.mark.parametrize(
    ("generation", "message"),
    [
        ({"eos_token_id": 10}, "eos_token_id: 10; the graph has logits for ids below 10"),
        ({"guidance_scale": 2.0}, "guidance_scale = 2.0, which kvjobs does not implement"),
        ({"forced_eos_token_id": 1}, "forced_eos_token_id = 1"),
        ({"num_beams": 4}, "num_beams = 4, which kvjobs does not implement for causal models"),
        ({"repetition_penalty": "much"}, "generation_config.json holds a setting that cannot be understood"),
        ({"repetition_penalty": 0}, r"repetition_penalty is 0\.0, and has to be a number above 0"),
        ({"min_new_tokens": "5"}, 'min_new_tokens is "5", and has to be a whole number from 0 on'),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size is -1"),
    ],
)
def test_a_setting_that_would_change_tokens_is_refused(generation: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_continuation_rules({}, generation, vocab_size=10)


def test_the_options_of_a_job_complete_the_rules() -> None:
    rules = ContinuationRules(eos_ids=(1,), stop_texts=("a",))

    found = rules.with_options(GenerateOptions(max_new_tokens=9, temperature=0.5, top_p=0.9, seed=4, stop=("b", "a")))

    assert (found.eos_ids, found.max_new_tokens, found.stop_texts) == ((1,), 9, ("a", "b"))
    assert found.sampling == Sampling(0.5, 0.9, 0, 4)
    assert rules.with_options(GenerateOptions()).sampling is None


def test_options_against_repetition_come_before_the_models_own() -> None:
    own = ContinuationRules(repetition_penalty=1.3, no_repeat_ngram_size=2)
    of_the_job = own.with_options(GenerateOptions(repetition_penalty=1.0, no_repeat_ngram_size=0))

    assert (of_the_job.repetition_penalty, of_the_job.no_repeat_ngram_size) == (1.0, 0)
    assert own.with_options(GenerateOptions()) == dataclasses.replace(own, max_new_tokens=256)
