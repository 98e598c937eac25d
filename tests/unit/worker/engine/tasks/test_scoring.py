"""Scoring of documents, with a model whose log-probabilities depend on every token of the context."""

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
from jobs.tasks.score import Bos, ScoreOptions, Window
from jobs.tasks.shared_options import Timing
from tests.context_model import ContextModel
from tests.small_tokenizers import byte_level, opened, word_piece
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.engine.tasks.scoring import Scorer
from worker.text.causal_tokenizer import CausalTokenizer

VOCABULARY = 280
TEXTS = ["hello world", "字 é 😀 hello", "a", "", "hello worlds and words and hello again", "  \n "]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> CausalTokenizer:
    """A tokenizer without a BOS, as that of Qwen2.5."""
    config = {"bos_token": None, "eos_token": "<|endoftext|>"}
    return opened(tmp_path_factory.mktemp("level"), byte_level(), tokenizer_config=config)


@pytest.fixture(scope="module")
def tokenizer_with_bos(tmp_path_factory: pytest.TempPathFactory) -> CausalTokenizer:
    """The same tokenizer with a BOS."""
    config = {"bos_token": "<|im_start|>", "eos_token": "<|endoftext|>"}
    return opened(tmp_path_factory.mktemp("tokenizer_with_bos"), byte_level(), tokenizer_config=config)


def score(
    texts: Sequence[str], tokenizer: CausalTokenizer, options: ScoreOptions | None = None, *, max_positions: int = 64
) -> list[Outcome]:
    scorer = Scorer(ContextModel(VOCABULARY, max_positions), tokenizer)
    return scorer.score(texts, options or ScoreOptions(), RunContext()).outcomes


def one(outcomes: list[Outcome]) -> Score:
    (outcome,) = outcomes
    assert isinstance(outcome, Score)
    return outcome


@given(text=st.text("helo wrd字é", max_size=40), max_length=st.integers(2, 12), data=st.data())
def test_strided_scores_equal_the_recipe_of_transformers(
    tokenizer_with_bos: CausalTokenizer, text: str, max_length: int, data: st.DataObject
) -> None:
    """The recipe: "Perplexity of fixed-length models" in the documentation of transformers, token by token."""
    stride = data.draw(st.integers(1, max_length - 1))
    model = ContextModel(VOCABULARY, 64)
    sequence = [tokenizer_with_bos.bos_id or 0, *tokenizer_with_bos.encode(text).ids]
    nll_sum = 0.0
    previous_end = 0
    for begin in range(0, len(sequence), stride):
        end = min(begin + max_length, len(sequence))
        for place in range(max(previous_end, 1), end):
            nll_sum -= model.log_prob(sequence[begin:place], sequence[place])
        previous_end = end
        if end == len(sequence):
            break

    found = one(score([text], tokenizer_with_bos, ScoreOptions(max_length=max_length, stride=stride)))

    assert found.nll_sum == pytest.approx(nll_sum, abs=1e-4)
    assert found.num_tokens == len(sequence) - 1


@given(text=st.text("helo wrd字é", max_size=40), max_length=st.integers(2, 12))
def test_disjoint_scores_equal_the_rolling_windows_of_lm_evaluation_harness(
    tokenizer_with_bos: CausalTokenizer, text: str, max_length: int
) -> None:
    """Each window scores the tokens after the previous window, given one token of context; the last window gets as much
    context as fits."""
    model = ContextModel(VOCABULARY, 64)
    tokens = tokenizer_with_bos.encode(text).ids
    inputs = [tokenizer_with_bos.bos_id or 0, *tokens[:-1]]  # inputs[i] is the token before tokens[i]
    nll_sum = 0.0
    for begin in range(0, len(tokens), size := max_length):
        end = min(begin + size, len(tokens))
        context = max(0, end - size) if end == len(tokens) else begin
        for place in range(begin, end):
            nll_sum -= model.log_prob(inputs[context : place + 1], tokens[place])

    found = one(score([text], tokenizer_with_bos, ScoreOptions(max_length=max_length, window=Window.DISJOINT)))

    assert found.nll_sum == pytest.approx(nll_sum, abs=1e-4)
    assert found.num_tokens == len(tokens)


def test_truncation_scores_only_the_first_window_and_sets_a_flag(tokenizer_with_bos: CausalTokenizer) -> None:
    text = "hello worlds and hello"
    options = ScoreOptions(max_length=3, window=Window.TRUNCATE, token_scores=True)
    found = one(score([text], tokenizer_with_bos, options))

    assert [token.text for token in found.tokens[:4]] == ["hello", " wor", "l", "d"]
    assert [token.log_prob is not None for token in found.tokens[:4]] == [True, True, False, False]
    assert (found.num_tokens, found.num_bytes, found.num_words) == (2, len("hello wor"), 2)
    assert found.flags == (Flag.TRUNCATED,)
    assert one(score(["hello wor"], tokenizer_with_bos, options)) == dataclasses.replace(
        found, flags=(), tokens=found.tokens[:2]
    )


def test_the_score_is_the_sum_over_the_tokens(tokenizer_with_bos: CausalTokenizer) -> None:
    """The sum is in double precision, exact for any number of tokens."""
    found = one(score(["hello world " * 40], tokenizer_with_bos, ScoreOptions(token_scores=True)))
    log_probs = [token.log_prob for token in found.tokens if token.log_prob is not None]

    assert len(log_probs) == found.num_tokens == len(found.tokens)
    assert found.nll_sum == -math.fsum(log_probs)


def test_without_a_bos_the_first_token_is_not_scored_and_the_result_is_flagged(tokenizer: CausalTokenizer) -> None:
    for bos in (Bos.AUTO, Bos.NONE):
        found = one(score(["hello world"], tokenizer, ScoreOptions(bos=bos, token_scores=True)))
        assert [token.log_prob is None for token in found.tokens] == [True, False, False, False]
        assert found.flags == (Flag.UNSCORED_FIRST,)
        assert (found.num_tokens, found.num_words, found.num_bytes) == (3, 1, len(" world"))


def test_the_bos_is_that_of_the_tokenizer_or_the_one_requested(
    tokenizer: CausalTokenizer, tokenizer_with_bos: CausalTokenizer
) -> None:
    model = ContextModel(VOCABULARY, 64)
    first = tokenizer_with_bos.encode("hello").ids[0]
    expected = {
        (tokenizer_with_bos, Bos.AUTO): tokenizer_with_bos.bos_id,
        (tokenizer_with_bos, Bos.BOS): tokenizer_with_bos.bos_id,
        (tokenizer_with_bos, Bos.EOS): tokenizer_with_bos.eos_id,
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
def test_a_text_without_a_token_to_score_is_flagged_and_adds_nothing_to_the_sums(
    tokenizer: CausalTokenizer, text: str, flags: tuple[Flag, ...]
) -> None:
    found = one(score([text], tokenizer))

    assert found == Score(nll_sum=0.0, num_tokens=0, num_words=0, num_bytes=0, flags=flags)
    assert math.copysign(1, found.nll_sum) == 1


def test_white_space_that_the_tokenizer_drops_is_not_an_error(tmp_path: Path) -> None:
    """White space that it drops around a text still counts in the bytes of the text."""
    tokenizer = opened(tmp_path, word_piece(), tokenizer_config={"bos_token": "[SEP]"})

    assert one(score([" \n"], tokenizer)).flags == (Flag.UNSCORED,)
    assert one(score(["  hello  x\n"], tokenizer)).num_bytes == 11


def test_words_and_bytes_are_counted_in_the_text(tokenizer_with_bos: CausalTokenizer) -> None:
    text = "hello \u3000 字é\nworld 😀 "
    found = one(score([text], tokenizer_with_bos, ScoreOptions(max_length=3)))

    assert (found.num_words, found.num_bytes) == (len(text.split()), len(text.encode()))


def test_token_scores_give_the_byte_offsets_of_each_token(tokenizer_with_bos: CausalTokenizer) -> None:
    text = "he龍 hello"
    found = one(score([text], tokenizer_with_bos, ScoreOptions(token_scores=True)))

    assert [(token.text, token.start, token.stop) for token in found.tokens] == [
        ("he", 0, 2),
        ("<0xE9>", 2, 3),
        ("<0xBE>", 3, 4),
        ("<0x8D>", 4, 5),
        (" ", 5, 6),
        ("hello", 6, 11),
    ]
    assert one(score([text], tokenizer_with_bos)).tokens == ()


@pytest.mark.parametrize("number", [math.nan, -math.inf, math.inf])
def test_a_non_finite_log_probability_fails_only_its_document(
    tokenizer_with_bos: CausalTokenizer, number: float
) -> None:
    broken = tokenizer_with_bos.encode("字").ids[0]
    scorer = Scorer(ContextModel(VOCABULARY, 8, broken={broken: number}), tokenizer_with_bos)
    texts = ["hello world", "hello a字b字", "again"]
    outcomes = scorer.score(texts, ScoreOptions(max_length=4), RunContext()).outcomes

    assert outcomes[1] == Failed(
        "non-finite",
        f"the model gives {number} as the log-probability of token 4 of 6 ('字', bytes 7 to 10), which is not finite",
    )
    assert [outcomes[0], outcomes[2]] == score(
        ["hello world", "again"], tokenizer_with_bos, ScoreOptions(max_length=4), max_positions=8
    )


def test_a_text_that_cannot_be_tokenized_fails_without_affecting_others(tmp_path: Path) -> None:
    tokenizer = opened(tmp_path, Tokenizer(Unigram([("a", -1.0), ("b", -1.0)])))
    failed, scored = score(["xyz", "abba"], tokenizer)

    assert isinstance(failed, Failed)
    assert failed.code == "engine-error"
    assert isinstance(scored, Score)
    assert scored.num_tokens == 3


def test_outcomes_are_in_the_order_of_the_texts_and_equal_those_of_each_text_alone(
    tokenizer_with_bos: CausalTokenizer,
) -> None:
    options = ScoreOptions(max_length=4, token_scores=True)

    assert score(TEXTS, tokenizer_with_bos, options) == [
        one(score([text], tokenizer_with_bos, options)) for text in TEXTS
    ]


def test_packing_changes_no_result_and_only_one_reader_is_open_at_a_time(tokenizer_with_bos: CausalTokenizer) -> None:
    model = ContextModel(VOCABULARY, 64)
    scorer = Scorer(model, tokenizer_with_bos)
    runs = [
        scorer.score(TEXTS, ScoreOptions(packing=packing), RunContext()).outcomes
        for packing in (True, True, False, False, True)
    ]

    assert all(run == runs[0] for run in runs)
    assert [reader.is_packed for reader in model.readers] == [True, False, True]
    assert model.readers[0].groups == model.readers[1].groups
    assert scorer.reader is model.readers[2]


def test_all_windows_go_to_the_reader_at_once_each_with_its_context(tokenizer_with_bos: CausalTokenizer) -> None:
    model = ContextModel(VOCABULARY, 64)
    ids = tokenizer_with_bos.encode("hello worlds").ids
    Scorer(model, tokenizer_with_bos).score(["hello worlds", "a"], ScoreOptions(max_length=4, stride=2), RunContext())
    groups = [(list(group.prefix), [list(suffix) for suffix in group.suffixes]) for group in model.readers[0].groups]

    assert groups == [
        ([tokenizer_with_bos.bos_id], [ids[:3]]),
        (ids[1:3], [ids[3:5]]),
        ([tokenizer_with_bos.bos_id], [tokenizer_with_bos.encode("a").ids]),
    ]


def test_the_model_is_not_called_if_there_is_nothing_to_score(tokenizer: CausalTokenizer) -> None:
    model = ContextModel(VOCABULARY, 64)
    produced = Scorer(model, tokenizer).score(["", "a"], ScoreOptions(), RunContext())

    assert model.readers[0].groups == []
    assert [timing.phase for timing in produced.timings] == ["tokenize"]


def test_timings_begin_with_tokenize_and_count_the_tokens(tokenizer_with_bos: CausalTokenizer) -> None:
    for mode, expected in (
        (Timing.STEPS, [("tokenize", 6, 1), ("prefill", 3, 1), ("prefill", 5, 1)]),
        (Timing.BATCHES, [("tokenize", 6, 1), ("prefill", 8, 2)]),
        (Timing.OFF, []),
    ):
        scorer = Scorer(ContextModel(VOCABULARY, 64), tokenizer_with_bos)
        produced = scorer.score(["hello wor hell", "ab"], ScoreOptions(), RunContext(Stopwatch(mode)))
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
def test_options_that_the_model_cannot_serve_are_refused(
    tokenizer: CausalTokenizer, options: ScoreOptions, words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        score(["hello"], tokenizer, options)


def test_a_tokenizer_of_another_model_is_refused(tokenizer: CausalTokenizer) -> None:
    assert Scorer(ContextModel(tokenizer.max_id + 1, 8), tokenizer)
    with pytest.raises(ModelError, match="different models"):
        Scorer(ContextModel(tokenizer.max_id, 8), tokenizer)
