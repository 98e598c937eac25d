"""Documents that are pairs: cutting, tokens and bytes of the target, bad pairs, timings and stops."""

import dataclasses
from typing import Any

import pytest

from jobs.errors import SpecError, Stopped
from jobs.outcome import Failed, Flag, Score
from jobs.tasks.shared_options import Timing
from tests.models.engine.tasks.pairs import ALONE, TOGETHER, IdTokenizer, as_text, id_pairs, run, score, texts_of
from tests.tiny_models import OpenKV, OpenTiny
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.batches import IdPair
from worker.engine.tasks.pair_scoring import PairScorer


def test_a_source_or_target_that_is_too_long_is_truncated_and_flagged(open_kv: OpenKV) -> None:
    kv = open_kv("tiny-relu-tied")
    tokenizer, eos_id = IdTokenizer(kv.model.generation.eos_id), kv.model.generation.eos_id
    limit = kv.model.max_positions
    long, short = [1 + number % 30 for number in range(limit + 5)], [4, 5]
    cut_source = IdPair([*long[: limit - 1], eos_id], [*short, eos_id])
    cut_target = IdPair([*short, eos_id], long[:limit])
    full = IdPair([*long[: limit - 1], eos_id], [*long[: limit - 1], eos_id])
    pairs = [IdPair([*long, eos_id], [*short, eos_id]), IdPair([*short, eos_id], [*long, eos_id]), full]

    found = score(kv.model, tokenizer, texts_of(pairs))

    wanted = [run(kv.model, [pair])[0] for pair in (cut_source, cut_target, full)]
    for one, log_probs in zip(found, wanted, strict=True):
        assert isinstance(one, Score)
        assert one.nll_sum == pytest.approx(-log_probs.sum(), abs=1e-3)
        assert one.num_tokens == len(log_probs)
    assert [one.flags for one in found if isinstance(one, Score)] == [(Flag.TRUNCATED,), (Flag.TRUNCATED,), ()]
    assert [one.num_source_tokens for one in found if isinstance(one, Score)] == [limit, 3, limit]
    assert found[1].num_words == limit  # type: ignore[union-attr]
    assert found[1].num_bytes == len(" ".join(map(str, long[:limit])))  # type: ignore[union-attr]


def test_max_length_truncates_a_pair_below_the_limit_of_the_model(demo: Any) -> None:
    pair = demo.pairs[0]
    whole, short = (
        score(demo.model, demo.tokenizer, [as_text(pair.english, pair.chinese)], options)[0]
        for options in (
            dataclasses.replace(TOGETHER, token_scores=True),
            dataclasses.replace(TOGETHER, token_scores=True, max_length=9),
        )
    )

    assert isinstance(whole, Score)
    assert isinstance(short, Score)
    assert short.flags == (Flag.TRUNCATED,)
    assert short.num_tokens == short.num_source_tokens == 9
    assert [token.text for token in short.tokens] == [token.text for token in whole.tokens[:9]]
    assert short.num_bytes == short.tokens[-1].stop < whole.num_bytes == len(pair.chinese.encode())


def test_token_scores_give_the_bytes_of_the_target_that_each_token_covers(demo: Any) -> None:
    options = dataclasses.replace(TOGETHER, token_scores=True)
    texts = [as_text(pair.english, pair.chinese) for pair in demo.pairs[:10]]

    for outcome, pair in zip(score(demo.model, demo.tokenizer, texts, options), demo.pairs, strict=False):
        assert isinstance(outcome, Score)
        target, (*tokens, end) = pair.chinese.encode(), outcome.tokens
        assert [token.text for token in tokens] == [target[token.start : token.stop].decode() for token in tokens]
        assert "".join(token.text for token in tokens) == pair.chinese
        assert (end.text, end.start, end.stop) == ("</s>", len(target), len(target))
        assert -sum(token.log_prob or 0 for token in outcome.tokens) == pytest.approx(outcome.nll_sum, abs=1e-5)


def test_words_and_bytes_are_counted_in_the_target(demo: Any) -> None:
    texts = [as_text("Rain.", "12 雨 x"), as_text("Rain.", ""), as_text("", "雨"), as_text("Rain.", "  ")]

    found = score(demo.model, demo.tokenizer, texts)

    counts = [(one.num_words, one.num_bytes) for one in found if isinstance(one, Score)]
    assert counts == [(3, 8), (0, 0), (1, 3), (0, 2)]
    assert found[1].num_tokens == found[3].num_tokens == 1  # type: ignore[union-attr]


def test_the_language_label_comes_before_the_source(open_kv: OpenKV) -> None:
    kv = open_kv()
    tokenizer = IdTokenizer(kv.model.generation.eos_id)
    (plain,) = score(kv.model, tokenizer, ['{"source": "3 7", "target": "9"}'])
    options = dataclasses.replace(TOGETHER, target_language="fr")

    (labelled,) = score(kv.model, tokenizer, ['{"source": "7", "target": "9"}'], options)

    assert labelled == plain
    with pytest.raises(SpecError, match="no language de"):
        score(kv.model, tokenizer, [], dataclasses.replace(TOGETHER, target_language="de"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rain", "is not JSON"),
        ('["rain", "pluie"]', "is a JSON list"),
        ('{"source": "7"}', "no text as its target"),
        ('{"source": 7, "target": "9"}', "no text as its source"),
    ],
)
def test_a_text_that_is_not_a_pair_fails_without_affecting_others(open_kv: OpenKV, text: str, reason: str) -> None:
    kv = open_kv()

    found = score(kv.model, IdTokenizer(0), [text, '{"source": "7", "target": "9"}'])

    assert isinstance(found[0], Failed)
    assert found[0].code == "bad-pair"
    assert reason in found[0].message
    assert isinstance(found[1], Score)


def test_without_texts_there_are_no_scores(demo: Any) -> None:
    assert score(demo.model, demo.tokenizer, []) == []


# --- the lane
def test_every_model_call_is_timed(demo: Any, open_tiny: OpenTiny) -> None:
    texts = [as_text(pair.english, pair.chinese) for pair in demo.pairs]
    produced = PairScorer(demo.model, demo.tokenizer).score(texts, TOGETHER, RunContext())
    scores = [one for one in produced.outcomes if isinstance(one, Score)]
    num_tokens = sum(one.num_tokens for one in scores)
    tokens = dict.fromkeys(("tokenize", "encode", "prefill", "head"), 0)
    for timing in produced.timings:
        tokens[timing.phase] += timing.tokens

    assert tokens["encode"] == sum(one.num_source_tokens for one in scores), "no source is padded"
    assert tokens["prefill"] == tokens["head"] == num_tokens, "no target is padded"
    assert tokens["tokenize"] == tokens["encode"] + num_tokens

    tiny = open_tiny()
    options = dataclasses.replace(TOGETHER, timing=Timing.BATCHES)
    produced = PairScorer(tiny.model, IdTokenizer(tiny.model.generation.eos_id)).score(
        texts_of(id_pairs("tiny-swish-tied")), options, RunContext()
    )
    assert [timing.phase for timing in produced.timings] == ["tokenize", "encode", "prefill", "head"]
    assert produced.learned == {}


def test_scoring_stops_between_two_batches(demo: Any, open_tiny: OpenTiny) -> None:
    asked = iter([False, False, True])
    texts = [as_text(pair.english, pair.chinese) for pair in demo.pairs[:4]]

    with pytest.raises(Stopped):
        PairScorer(demo.model, demo.tokenizer).score(texts, ALONE, RunContext(should_stop=lambda: next(asked)))

    assert list(asked) == []


def test_a_pair_scorer_keeps_no_buffers(demo: Any) -> None:
    scorer = PairScorer(demo.model, demo.tokenizer)

    assert scorer.buffer_stats == BufferStats()
