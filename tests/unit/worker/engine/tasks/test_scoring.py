"""Documents in, sums out: a model that hears every token before the one that it is asked about."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import Unigram

from jobs.errors import ModelError, SpecError
from jobs.outcome import Failed, Flag, Outcome, Score
from jobs.spec import Bos, ScoreOptions, Timing, Window
from tests.context_model import ContextModel
from tests.small_tokenizers import byte_level, opened, word_piece
from worker.engine.tasks.scoring import Scorer
from worker.text.causal_tokenizer import CausalTokenizer

VOCABULARY = 280
TEXTS = ["hello world", "字 é 😀 hello", "a", "", "hello worlds and words and hello again", "  \n "]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> CausalTokenizer:
    """No BOS, as Qwen2.5 has it."""
    config = {"bos_token": None, "eos_token": "<|endoftext|>"}
    return opened(tmp_path_factory.mktemp("level"), byte_level(), tokenizer_config=config)


@pytest.fixture(scope="module")
def beginning(tmp_path_factory: pytest.TempPathFactory) -> CausalTokenizer:
    """The same with a BOS."""
    config = {"bos_token": "<|im_start|>", "eos_token": "<|endoftext|>"}
    return opened(tmp_path_factory.mktemp("beginning"), byte_level(), tokenizer_config=config)


def score(
    texts: Sequence[str], tokenizer: CausalTokenizer, options: ScoreOptions | None = None, *, max_positions: int = 64
) -> list[Outcome]:
    scorer = Scorer(ContextModel(VOCABULARY, max_positions), tokenizer)
    return scorer.score(texts, options or ScoreOptions(), should_stop=lambda: False).outcomes


def one(outcomes: list[Outcome]) -> Score:
    (outcome,) = outcomes
    assert isinstance(outcome, Score)
    return outcome


@given(text=st.text("helo wrd字é", max_size=40), max_length=st.integers(2, 12), data=st.data())
def test_strided_sums_are_those_of_the_recipe(
    beginning: CausalTokenizer, text: str, max_length: int, data: st.DataObject
) -> None:
    """Of "Perplexity of fixed-length models" in the documentation of transformers, token by token."""
    stride = data.draw(st.integers(1, max_length - 1))
    model = ContextModel(VOCABULARY, 64)
    sequence = [beginning.bos_id or 0, *beginning.encode(text).ids]
    nll_sum = 0.0
    previous_end = 0
    for begin in range(0, len(sequence), stride):
        end = min(begin + max_length, len(sequence))
        for place in range(max(previous_end, 1), end):
            nll_sum -= model.log_prob(sequence[begin:place], sequence[place])
        previous_end = end
        if end == len(sequence):
            break

    found = one(score([text], beginning, ScoreOptions(max_length=max_length, stride=stride)))

    assert found.nll_sum == pytest.approx(nll_sum, abs=1e-4)
    assert found.num_tokens == len(sequence) - 1


@given(text=st.text("helo wrd字é", max_size=40), max_length=st.integers(2, 12))
def test_disjoint_sums_are_those_of_rolling_windows(beginning: CausalTokenizer, text: str, max_length: int) -> None:
    """Of lm-evaluation-harness: each window predicts what follows the one before, after one token, and the last
    after as many as fit."""
    model = ContextModel(VOCABULARY, 64)
    tokens = beginning.encode(text).ids
    inputs = [beginning.bos_id or 0, *tokens[:-1]]  # inputs[i] stands before tokens[i]
    nll_sum = 0.0
    for begin in range(0, len(tokens), size := max_length):
        end = min(begin + size, len(tokens))
        context = max(0, end - size) if end == len(tokens) else begin
        for place in range(begin, end):
            nll_sum -= model.log_prob(inputs[context : place + 1], tokens[place])

    found = one(score([text], beginning, ScoreOptions(max_length=max_length, window=Window.DISJOINT)))

    assert found.nll_sum == pytest.approx(nll_sum, abs=1e-4)
    assert found.num_tokens == len(tokens)


def test_truncation_scores_the_first_window_and_says_so(beginning: CausalTokenizer) -> None:
    text = "hello worlds and hello"
    options = ScoreOptions(max_length=3, window=Window.TRUNCATE, token_scores=True)
    found = one(score([text], beginning, options))

    assert [token.text for token in found.tokens[:4]] == ["hello", " wor", "l", "d"]
    assert [token.log_prob is not None for token in found.tokens[:4]] == [True, True, False, False]
    assert (found.num_tokens, found.num_bytes, found.num_words) == (2, len("hello wor"), 2)
    assert found.flags == (Flag.TRUNCATED,)
    assert one(score(["hello wor"], beginning, options)) == dataclasses.replace(
        found, flags=(), tokens=found.tokens[:2]
    )


def test_the_sum_is_that_of_the_tokens(beginning: CausalTokenizer) -> None:
    """Added in double precision: nothing is lost however many there are."""
    found = one(score(["hello world " * 40], beginning, ScoreOptions(token_scores=True)))
    log_probs = [token.log_prob for token in found.tokens if token.log_prob is not None]

    assert len(log_probs) == found.num_tokens == len(found.tokens)
    assert found.nll_sum == -math.fsum(log_probs)


def test_without_a_bos_the_first_token_is_not_scored_and_the_result_says_so(tokenizer: CausalTokenizer) -> None:
    for bos in (Bos.AUTO, Bos.NONE):
        found = one(score(["hello world"], tokenizer, ScoreOptions(bos=bos, token_scores=True)))
        assert [token.log_prob is None for token in found.tokens] == [True, False, False, False]
        assert found.flags == (Flag.UNSCORED_FIRST,)
        assert (found.num_tokens, found.num_words, found.num_bytes) == (3, 1, len(" world"))


def test_a_bos_is_the_tokenizers_own_or_the_one_that_was_asked_for(
    tokenizer: CausalTokenizer, beginning: CausalTokenizer
) -> None:
    model = ContextModel(VOCABULARY, 64)
    first = beginning.encode("hello").ids[0]
    expected = {
        (beginning, Bos.AUTO): beginning.bos_id,
        (beginning, Bos.BOS): beginning.bos_id,
        (beginning, Bos.EOS): beginning.eos_id,
        (tokenizer, Bos.EOS): tokenizer.eos_id,
    }
    for (one_of_them, bos), token_id in expected.items():
        found = one(score(["hello"], one_of_them, ScoreOptions(bos=bos)))
        assert found.nll_sum == pytest.approx(-model.log_prob([token_id or 0], first), abs=1e-6)
        assert (found.num_tokens, found.num_bytes, found.flags) == (1, 5, ())


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("", (Flag.UNSCORED,)),
        ("a", (Flag.UNSCORED, Flag.UNSCORED_FIRST)),
        (" ", (Flag.UNSCORED, Flag.UNSCORED_FIRST)),
    ],
)
def test_what_has_no_token_to_score_is_unscored_and_counts_nothing(
    tokenizer: CausalTokenizer, text: str, flags: tuple[Flag, ...]
) -> None:
    found = one(score([text], tokenizer))

    assert found == Score(nll_sum=0.0, num_tokens=0, num_words=0, num_bytes=0, flags=flags)
    assert math.copysign(1, found.nll_sum) == 1


def test_a_tokenizer_may_find_nothing_in_white_space(tmp_path: Path) -> None:
    """And what it drops around the text belongs to the text."""
    tokenizer = opened(tmp_path, word_piece(), tokenizer_config={"bos_token": "[SEP]"})

    assert one(score([" \n"], tokenizer)).flags == (Flag.UNSCORED,)
    assert one(score(["  hello  x\n"], tokenizer)).num_bytes == 11


def test_words_and_bytes_are_those_of_the_text(beginning: CausalTokenizer) -> None:
    text = "hello \u3000 字é\nworld 😀 "
    found = one(score([text], beginning, ScoreOptions(max_length=3)))

    assert (found.num_words, found.num_bytes) == (len(text.split()), len(text.encode()))


def test_token_scores_say_where_each_token_stands(beginning: CausalTokenizer) -> None:
    text = "he龍 hello"
    found = one(score([text], beginning, ScoreOptions(token_scores=True)))

    assert [(token.text, token.start, token.stop) for token in found.tokens] == [
        ("he", 0, 2),
        ("<0xE9>", 2, 3),
        ("<0xBE>", 3, 4),
        ("<0x8D>", 4, 5),
        (" ", 5, 6),
        ("hello", 6, 11),
    ]
    assert one(score([text], beginning)).tokens == ()


@pytest.mark.parametrize("number", [math.nan, -math.inf, math.inf])
def test_a_number_that_is_none_fails_its_document_alone(beginning: CausalTokenizer, number: float) -> None:
    broken = beginning.encode("字").ids[0]
    scorer = Scorer(ContextModel(VOCABULARY, 8, broken={broken: number}), beginning)
    texts = ["hello world", "hello a字b字", "again"]
    outcomes = scorer.score(texts, ScoreOptions(max_length=4), should_stop=lambda: False).outcomes

    assert outcomes[1] == Failed(
        "non-finite",
        f"the model gives {number} as the log-probability of token 4 of 6 ('字', bytes 7 to 10), "
        "which is no number to add up",
    )
    assert [outcomes[0], outcomes[2]] == score(
        ["hello world", "again"], beginning, ScoreOptions(max_length=4), max_positions=8
    )


def test_a_text_that_the_tokenizer_cannot_cut_fails_alone(tmp_path: Path) -> None:
    tokenizer = opened(tmp_path, Tokenizer(Unigram([("a", -1.0), ("b", -1.0)])))
    failed, scored = score(["xyz", "abba"], tokenizer)

    assert isinstance(failed, Failed)
    assert failed.code == "engine-error"
    assert isinstance(scored, Score)
    assert scored.num_tokens == 3


def test_outcomes_are_in_the_order_of_the_texts_and_of_each_alone(beginning: CausalTokenizer) -> None:
    options = ScoreOptions(max_length=4, token_scores=True)

    assert score(TEXTS, beginning, options) == [one(score([text], beginning, options)) for text in TEXTS]


def test_packed_and_not_give_the_same_from_one_reader_at_a_time(beginning: CausalTokenizer) -> None:
    model = ContextModel(VOCABULARY, 64)
    scorer = Scorer(model, beginning)
    runs = [
        scorer.score(TEXTS, ScoreOptions(packing=packing), should_stop=lambda: False).outcomes
        for packing in (True, True, False, False, True)
    ]

    assert all(run == runs[0] for run in runs)
    assert [reader.is_packed for reader in model.readers] == [True, False, True]
    assert model.readers[0].groups == model.readers[1].groups
    assert scorer.reader is model.readers[2]


def test_all_windows_go_to_the_reader_at_once_each_with_its_context(beginning: CausalTokenizer) -> None:
    model = ContextModel(VOCABULARY, 64)
    ids = beginning.encode("hello worlds").ids
    Scorer(model, beginning).score(
        ["hello worlds", "a"], ScoreOptions(max_length=4, stride=2), should_stop=lambda: False
    )
    groups = [(list(group.prefix), [list(suffix) for suffix in group.suffixes]) for group in model.readers[0].groups]

    assert groups == [
        ([beginning.bos_id], [ids[:3]]),
        (ids[1:3], [ids[3:5]]),
        ([beginning.bos_id], [beginning.encode("a").ids]),
    ]


def test_nothing_is_read_where_there_is_nothing_to_score(tokenizer: CausalTokenizer) -> None:
    model = ContextModel(VOCABULARY, 64)
    produced = Scorer(model, tokenizer).score(["", "a"], ScoreOptions(), should_stop=lambda: False)

    assert model.readers[0].groups == []
    assert [timing.phase for timing in produced.timings] == ["tokenize"]


def test_timings_begin_with_tokenize_and_know_the_tokens(beginning: CausalTokenizer) -> None:
    for mode, expected in (
        (Timing.STEPS, [("tokenize", 6, 1), ("prefill", 3, 1), ("prefill", 5, 1)]),
        (Timing.BATCHES, [("tokenize", 6, 1), ("prefill", 8, 2)]),
        (Timing.OFF, []),
    ):
        scorer = Scorer(ContextModel(VOCABULARY, 64), beginning)
        produced = scorer.score(["hello wor hell", "ab"], ScoreOptions(timing=mode), should_stop=lambda: False)
        assert [(timing.phase, timing.tokens, timing.calls) for timing in produced.timings] == expected
        assert produced.learned == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (ScoreOptions(pairs=True), "pairs"),
        (ScoreOptions(max_length=65), "at most 64 tokens"),
        (ScoreOptions(stride=64), "stride is 64"),
        (ScoreOptions(bos=Bos.BOS), "has no BOS token: choose auto, none or eos"),
    ],
)
def test_what_the_model_cannot_do_is_refused(tokenizer: CausalTokenizer, options: ScoreOptions, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        score(["hello"], tokenizer, options)


def test_a_tokenizer_of_another_model_is_refused(tokenizer: CausalTokenizer) -> None:
    assert Scorer(ContextModel(tokenizer.max_id + 1, 8), tokenizer)
    with pytest.raises(ModelError, match="different models"):
        Scorer(ContextModel(tokenizer.max_id, 8), tokenizer)
