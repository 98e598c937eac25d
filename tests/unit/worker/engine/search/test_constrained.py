"""Beam search with required phrases: against all sequences there are, against a slow twin, and against BeamSearch."""

import copy
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.worker.engine.search.steps import EOS, START, RandomStep, ids, rules
from tests.unit.worker.engine.search.test_beam import RULES, plain, random_logits
from worker.engine.search.beam import BeamSearch
from worker.engine.search.constrained import ConstrainedSearch, share_over_banks
from worker.engine.search.generation_config import GenerationConfig, SegmentRules
from worker.engine.search.required_phrases import MAX_REQUIREMENTS, Phrase, Phrases, RequiredPhrases
from worker.engine.search.search import new_search, run_search

VOCAB = 7
CONTINUING = (3, 5)  # ids that go on with a word
PHRASE = st.builds(
    Phrase,
    st.lists(st.integers(2, VOCAB - 1), min_size=1, max_size=3).map(tuple),
    st.sampled_from([False, False, True]),
    st.booleans(),
)
PHRASES: st.SearchStrategy[Phrases] = st.lists(PHRASE, min_size=1, max_size=3, unique=True).map(tuple)
REQUIREMENTS = st.lists(PHRASES, max_size=3).map(tuple)


def holds(tokens: tuple[int, ...], phrases: Phrases) -> bool:
    """`tokens` without the start token."""
    return any(
        tokens[at : at + len(phrase.ids)] == phrase.ids
        and not (phrase.is_whole and tokens[at + len(phrase.ids) :][:1] in {(token,) for token in CONTINUING})
        for phrase in phrases
        for at in range(1 if phrase.is_first else len(tokens) - len(phrase.ids) + 1)
    )


def num_met(tokens: tuple[int, ...], required: tuple[Phrases, ...]) -> int:
    """As the search counts it: the longest phrase of what is met, and the longest beginning of another phrase."""
    lacking = [phrases for phrases in required if not holds(tokens, phrases)]
    met = sum(max(len(phrase.ids) for phrase in phrases) for phrases in required if phrases not in lacking)
    begun = (
        length
        for phrases in lacking
        for phrase in phrases
        for length in range(1, len(phrase.ids))
        if has_begun(tokens, phrase, length)
    )
    return met + max(begun, default=0)


def next_ids(tokens: tuple[int, ...], required: tuple[Phrases, ...]) -> set[int]:
    """The ids that begin or continue a phrase of what is missing."""
    return {
        phrase.ids[length]
        for each in required
        if not holds(tokens, each)
        for phrase in each
        for length in range(len(phrase.ids))
        if has_begun(tokens, phrase, length)
    }


def has_begun(tokens: tuple[int, ...], phrase: Phrase, length: int) -> bool:
    """Whether the tokens end with so many ids of a phrase."""
    if phrase.is_first:
        return tokens == phrase.ids[:length]
    return not length or tokens[-length:] == phrase.ids[:length]


@given(required=REQUIREMENTS, tokens=st.lists(st.integers(0, VOCAB - 1), max_size=12))
def test_the_automaton_knows_what_the_tokens_hold(required: tuple[Phrases, ...], tokens: list[int]) -> None:
    required = tuple(dict.fromkeys(required))
    phrases = RequiredPhrases([((Phrase((9,)),),), required], CONTINUING)
    node, met = phrases.beginnings[1:], np.zeros(1, np.int64)

    for length, token in enumerate(tokens, start=1):
        node, met = phrases.follow(node, met, np.array([token]))
        so_far = tuple(tokens[:length])

        held = phrases.held(node, met)
        assert [bool(held[0] >> bit & 1) for bit in range(len(required))] == [holds(so_far, each) for each in required]
        assert phrases.num_met(node, held, np.array([1])).tolist() == [num_met(so_far, required)]


@given(required=REQUIREMENTS, tokens=st.lists(st.integers(2, VOCAB - 1), max_size=6))
def test_the_next_ids_are_those_that_bring_a_missing_phrase_on(
    required: tuple[Phrases, ...], tokens: list[int]
) -> None:
    phrases = RequiredPhrases([required], CONTINUING)
    node, met = phrases.beginnings, np.zeros(1, np.int64)
    for token in tokens:
        node, met = phrases.follow(node, met, np.array([token]))

    found, rows = phrases.next_ids(node, phrases.full & ~phrases.held(node, met))

    assert sorted(found.tolist()) == sorted(next_ids(tuple(tokens), required))
    assert not rows.any()


def test_a_sentence_has_a_bounded_number_of_requirements() -> None:
    with pytest.raises(ValueError, match=str(MAX_REQUIREMENTS)):
        RequiredPhrases([[(Phrase((2,)),)] * (MAX_REQUIREMENTS + 1)])


def test_beams_are_shared_over_banks() -> None:
    scores = np.array([[-1, -2, -9, -3, -8, -np.inf]], np.float32)

    chosen = share_over_banks(scores, np.array([[0, 1, 1, 0, 0, 2]]), 6)

    assert chosen.tolist() == [[1, 0, 2, 3, 4, 5]]


def constrained(seed: int, asked: GenerationConfig, eos_bias: float = 1.0) -> list[Any]:
    steps = RandomStep([seed], VOCAB, eos_bias=eos_bias)
    (found,) = run_search(ConstrainedSearch(asked, first_step_rows=1), steps, 1)
    return found


def slow_constrained(
    seed: int, required: tuple[Phrases, ...], asked: GenerationConfig, eos_bias: float
) -> list[tuple[int, ...]]:
    """The ids of the hypotheses, best first: one sentence, tuples and floats, all continuations sorted."""
    steps, k = RandomStep([], VOCAB, eos_bias=eos_bias), asked.num_beams
    running, ended = [(0.0, (START,))], []
    for length in range(1, asked.max_new_tokens + 1):
        banks: dict[int, list[Any]] = {}
        for score, tokens in running:
            is_complete = all(holds(tokens[1:], each) for each in required)
            logits = steps.logits(seed, tokens).astype(np.float64)
            log_probs = logits - np.log(np.exp(logits).sum())
            if not is_complete:
                log_probs[EOS] = -np.inf
            best = np.argsort(-log_probs)[: 2 * k].tolist()
            for token in {*best, *next_ids(tokens[1:], required)} - (set() if is_complete else {EOS}):
                bank = num_met((*tokens[1:], token), required)
                banks.setdefault(bank, []).append((score + log_probs[token], (*tokens, token)))
        fullest_first = [sorted(banks[bank], key=lambda one: -one[0]) for bank in sorted(banks, reverse=True)]
        most = max(map(len, fullest_first))
        in_turn = [bank[rank] for rank in range(most) for bank in fullest_first if rank < len(bank)]
        last = length == asked.max_new_tokens
        for score, tokens in in_turn[:k]:
            if (tokens[-1] == EOS or last) and all(holds(tokens[1:], each) for each in required):
                ended.append((score / length**asked.length_penalty, tokens[1:]))
        ended = sorted(ended, key=lambda one: -one[0])[:k]
        running = [one for one in in_turn if one[1][-1] != EOS][:k]
        enough = 1 if required else k
        if len(ended) >= enough and max(running)[0] / length**asked.length_penalty <= ended[enough - 1][0]:
            break
    return [tokens for _, tokens in ended]


@given(
    seed=st.integers(0, 10_000), required=REQUIREMENTS, beams=st.integers(2, 6), most=st.integers(1, 7),
    eos_bias=st.floats(-1, 3),
)  # fmt: skip
def test_a_search_gives_what_its_slow_twin_gives(
    seed: int, required: tuple[Phrases, ...], beams: int, most: int, eos_bias: float
) -> None:
    asked = rules(
        num_beams=beams, max_new_tokens=most, continuing_ids=CONTINUING, segments=(SegmentRules(required=required),)
    )

    found = constrained(seed, asked, eos_bias)

    assert ids(found) == slow_constrained(seed, required, asked, eos_bias)
    assert all(holds(hypothesis.ids, each) for hypothesis in found for each in required)


@given(seed=st.integers(0, 10_000), phrase=st.lists(st.integers(2, 3), min_size=1, max_size=2).map(tuple))
def test_with_beams_for_all_sequences_the_best_one_with_the_phrase_is_found(seed: int, phrase: tuple[int, ...]) -> None:
    vocab, length = 4, 4
    steps = RandomStep([seed], vocab)
    segment = SegmentRules(required=((Phrase(phrase),),))
    asked = rules(num_beams=80, max_new_tokens=length, early_stopping="never", segments=(segment,))

    def log_prob(tokens: tuple[int, ...]) -> float:
        total = 0.0
        for at, token in enumerate(tokens):
            logits = steps.logits(seed, (START, *tokens[:at])).astype(np.float64)
            total += logits[token] - np.log(np.exp(logits).sum())
        return total / len(tokens)

    (found,) = run_search(ConstrainedSearch(asked, first_step_rows=1), steps, 1)

    ending = [(*body, EOS) for size in range(length) for body in product(range(1, vocab), repeat=size)]
    all_there_are = [*ending, *product(range(1, vocab), repeat=length)]
    best = max((tokens for tokens in all_there_are if holds(tokens, (Phrase(phrase),))), key=log_prob)
    assert found[0].ids == best
    assert found[0].score == pytest.approx(log_prob(best), abs=1e-5)


def test_what_cannot_be_met_has_no_hypothesis() -> None:
    never, too_long = ((),), ((Phrase((2, 3, 4, 5)),),)

    for required in (never, too_long):
        assert constrained(1, rules(num_beams=4, max_new_tokens=3, segments=(SegmentRules(required=required),))) == []


def test_a_prefix_counts_as_a_part_of_the_translation() -> None:
    segment = SegmentRules(prefix=(3, 4), required=((Phrase((4, 5)),),))

    found = constrained(1, rules(num_beams=4, segments=(segment,)))

    assert all(hypothesis.ids[:2] == (3, 4) for hypothesis in found)
    assert any(hypothesis.ids[:3] == (3, 4, 5) for hypothesis in found)


def test_only_segments_that_require_something_are_searched_so() -> None:
    asked = rules(num_beams=4, segments=(SegmentRules(), SegmentRules(required=((Phrase((2,)),),))))

    assert type(new_search(asked)) is ConstrainedSearch
    assert type(new_search(asked.only([0]))) is BeamSearch


@given(
    changes=RULES, seed=st.integers(0, 100_000), vocab_size=st.sampled_from([24, 100, 945]),
    distinct=st.sampled_from([0, 40]), eos_bias=st.floats(-2, 5), scaled=st.booleans(),
    shares_first_row=st.booleans(),
)  # fmt: skip
def test_without_requirements_every_step_is_that_of_beam_search(
    changes: dict[str, Any],
    seed: int,
    vocab_size: int,
    distinct: int,
    eos_bias: float,
    scaled: bool,
    shares_first_row: bool,
) -> None:
    """Of a vocabulary that gives every beam as many candidates as are kept; else beams that do not exist differ."""
    changes["num_beams"] = max(changes["num_beams"], 2)
    rng, num_sentences = np.random.default_rng(seed), 3
    asked = rules(**changes, segments=(SegmentRules(),) * num_sentences)
    width = 1 if shares_first_row else asked.num_beams
    beams, same = (kind(asked, first_step_rows=width) for kind in (BeamSearch, ConstrainedSearch))
    for search in (beams, same):
        search.add(range(num_sentences))
    while beams.num_sentences:
        logits = random_logits(rng, len(beams.last_ids), vocab_size, distinct, eos_bias)
        scales = rng.uniform(0.5, 2, len(logits)).astype(np.float32) if scaled else None
        (ended, order), (also_ended, same_order) = (
            search.advance(logits.copy(), copy.copy(scales)) for search in (beams, same)
        )

        assert plain(also_ended) == plain(ended)
        assert (order is None) == (same_order is None)
        assert order is None or np.array_equal(order, same_order)
        assert np.array_equal(beams.last_ids, same.last_ids)
    assert not same.num_sentences


@given(
    sentences=st.lists(st.tuples(st.integers(0, 99), REQUIREMENTS), min_size=2, max_size=5),
    beams=st.integers(2, 5),
    eos_bias=st.floats(-1, 3),
)
def test_a_batch_gives_each_sentence_what_it_gets_alone(
    sentences: list[tuple[int, tuple[Phrases, ...]]], beams: int, eos_bias: float
) -> None:
    asked = rules(
        num_beams=beams,
        continuing_ids=CONTINUING,
        segments=tuple(SegmentRules(required=required) for _, required in sentences),
    )
    steps = RandomStep([seed for seed, _ in sentences], VOCAB, eos_bias=eos_bias)

    together = run_search(ConstrainedSearch(asked, first_step_rows=1), steps, len(sentences))

    for index, (seed, _) in enumerate(sentences):
        assert together[index] == constrained(seed, asked.only([index]), eos_bias)
