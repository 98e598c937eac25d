"""log p(target | source): what transformers says, what a decoder says step by step, whoever else is in the batch."""

import dataclasses
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jobs.errors import SpecError, Stopped
from jobs.outcome import Failed, Flag, Outcome, Score
from jobs.spec import CachePolicy, ScoreOptions, Timing
from tests.places import DEMO_MODEL, GOLDEN
from tests.tiny_models import Built, OpenKV, OpenTiny, build_kv, decode
from worker.demo.grammar import unseen_bulletins
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.exported.model import ExportedSeq2Seq
from worker.engine.seq2seq.exported.steps import ExportedSteps
from worker.engine.seq2seq.native.decode_step import DecodeStep
from worker.engine.seq2seq.native.encoder_states import cross_attention_feed, encode_padded
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.seq2seq.native.scorer import NativeScorer
from worker.engine.seq2seq.padding import pad
from worker.engine.seq2seq.pair_batches import IdPair
from worker.engine.seq2seq.protocol import Seq2SeqModel
from worker.engine.tasks.pair_scoring import PairScorer
from worker.graphs.precision import Precision
from worker.text.marian_tokenizer import MarianTokenizer, TargetPiece

FAMILIES = ("tiny-swish-tied", "tiny-relu-tied", "tiny-swish-separate", "tiny-relu-separate")

WANTED = json.loads((GOLDEN / "forced.json").read_text(encoding="utf-8"))

ALONE = ScoreOptions(pairs=True, packing=False)

TOGETHER = ScoreOptions(pairs=True)


class Digits:
    """A tokenizer whose texts are ids: "7 40" """

    def __init__(self, eos_id: int) -> None:
        self.eos_id = eos_id

    def check_language(self, language: str | None) -> None:
        if language not in (None, "fr"):
            raise SpecError(f"no language {language}")

    def encode(self, text: str, language: str | None) -> list[int]:
        return [*([3] if language else []), *map(int, text.split()), self.eos_id]

    def cut_target(self, text: str) -> list[TargetPiece]:
        pieces, stop = [], 0
        for word in text.split():
            pieces.append(TargetPiece(int(word), stop, stop + len(word)))
            stop += len(word) + 1
        return pieces

    def target_piece(self, piece_id: int) -> str:
        return f"piece {piece_id}"


def id_pairs(family: str) -> list[IdPair]:
    return [IdPair(pair["source"], pair["target"]) for pair in WANTED[family]]


def run(model: Seq2SeqModel, pairs: Sequence[IdPair]) -> list[Any]:
    """All in one batch, in order."""
    order = sorted(range(len(pairs)), key=lambda place: -len(pairs[place].source))
    found = dict(zip(order, model.new_scorer().log_probs([pairs[place] for place in order], RunContext()), strict=True))
    return [found[place] for place in range(len(pairs))]


def step_by_step(model: Seq2SeqModel, pair: IdPair) -> Any:
    """The slow twin: one pair, one token a step, through the decoder that searches; in float64."""
    rules = dataclasses.replace(model.generation, num_beams=1)
    target = np.array([rules.start_id, *pair.target])
    step: Callable[[Any], Any]
    if isinstance(model, NativeSeq2Seq):
        slots, stepper = model.graphs.new_slots(), DecodeStep(model.graphs, rules, exact=True)
        slots.begin(1, 1, len(pair.target), len(pair.source))
        slots.admit(model.graphs.encode_for_slots(np.array([pair.source])))
        target = model.graphs.head.to_rows(target)

        def step(last: Any) -> Any:
            logits, scales = stepper.run(last, slots, RunContext(), 0)
            assert scales is None
            return logits
    else:
        assert isinstance(model, ExportedSeq2Seq)
        batch, cache = pad([pair.source], [0], model.pad_id), model.graphs.new_cache()
        step = ExportedSteps(model.graphs, cache, batch, policy=CachePolicy(), run=RunContext()).step
    return np.array([log_prob(step(target[[place]])[0], target[place + 1]) for place in range(len(pair.target))])


def prefix_by_prefix(model: NativeSeq2Seq, pair: IdPair) -> Any:
    """Another: every prefix anew. Its attention rounds as that of a whole target does, which a step's does not, and
    where int8 cuts what lies between two steps, the least that is rounded otherwise is seen."""
    session, target = model.graphs.uncached_decoder(), np.array([[model.generation.start_id, *pair.target]])
    sources = cross_attention_feed(
        encode_padded(model.graphs, [pair.source], RunContext()), np.array([len(pair.source)])
    )
    found = []
    for length in range(1, len(pair.target) + 1):
        feed = {
            "ids": target[:, :length],
            "ends": np.array([length - 1], np.int32),
            "length": np.array([length], np.int32),
            **sources,
        }
        found.append(log_prob(session.run(["logits"], feed)[0][0], target[0, length]))
    return np.array(found)


def log_prob(logits: Any, token: int) -> float:
    logits = logits.astype(np.float64) - logits.max()
    return float(logits[token] - np.log(np.exp(logits).sum()))


def texts_of(pairs: Sequence[IdPair]) -> list[str]:
    """For `Digits`."""
    return [
        json.dumps({"source": " ".join(map(str, pair.source[:-1])), "target": " ".join(map(str, pair.target[:-1]))})
        for pair in pairs
    ]


def score(model: Seq2SeqModel, tokenizer: Any, texts: Sequence[str], options: ScoreOptions = TOGETHER) -> list[Outcome]:
    return PairScorer(model, tokenizer).score(texts, options, should_stop=lambda: False).outcomes


def as_text(source: str, target: str) -> str:
    return json.dumps({"source": source, "target": target}, ensure_ascii=False)


@pytest.fixture(scope="session")
def demo() -> SimpleNamespace:
    bulletins = [pair for bulletin in unseen_bulletins(8, seed=22) for pair in bulletin.sentences]
    return SimpleNamespace(
        model=NativeSeq2Seq.open(DEMO_MODEL), tokenizer=MarianTokenizer.open(DEMO_MODEL), pairs=bulletins
    )


# --- the numbers
@pytest.mark.parametrize(
    ("family", "layout"),
    [
        *((family, layout) for family in FAMILIES for layout in ("kv", "merged", "two", "none")),
        ("tiny-swish-tied", "never"),  # exported for one family alone
    ],
)
def test_every_token_is_as_likely_as_transformers_finds_it(
    open_kv: OpenKV, open_tiny: OpenTiny, family: str, layout: str
) -> None:
    model = open_kv(family).model if layout == "kv" else open_tiny(family, layout).model

    together, alone = run(model, id_pairs(family)), [run(model, [pair])[0] for pair in id_pairs(family)]

    for pair, *found in zip(WANTED[family], together, alone, strict=True):
        for one in found:
            np.testing.assert_allclose(one, pair["log_probs"], atol=1e-4, rtol=0)


def test_a_document_of_the_bundled_model_is_as_likely_as_transformers_finds_it(demo: Any) -> None:
    pairs = WANTED["demo-en-zh"]
    options = dataclasses.replace(TOGETHER, token_scores=True)

    found = score(demo.model, demo.tokenizer, [as_text(pair["source"], pair["target"]) for pair in pairs], options)

    for pair, one in zip(pairs, found, strict=True):
        assert isinstance(one, Score)
        assert [token.log_prob for token in one.tokens] == pytest.approx(pair["log_probs"], abs=1e-4)
        assert one.nll_sum == pytest.approx(-sum(pair["log_probs"]), abs=1e-4)
        assert one.num_tokens == len(pair["log_probs"])
        assert one.num_source_tokens == len(demo.tokenizer.encode(pair["source"], None))
        assert one.flags == ()


@pytest.mark.parametrize("family", FAMILIES)
def test_all_tokens_at_once_are_the_decoders_steps(open_kv: OpenKV, open_tiny: OpenTiny, family: str) -> None:
    pairs = id_pairs(family)[::3]
    for model in (open_kv(family).model, open_tiny(family, "merged").model):
        for pair, found in zip(pairs, run(model, pairs), strict=True):
            np.testing.assert_allclose(found, step_by_step(model, pair), atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_in_int8_all_tokens_at_once_are_those_of_every_prefix(open_kv: OpenKV, family: str) -> None:
    """The scales of a row are its own."""
    model, pairs = open_kv(family, Precision.INT8).model, id_pairs(family)[::3]

    for pair, found in zip(pairs, run(model, pairs), strict=True):
        np.testing.assert_allclose(found, prefix_by_prefix(model, pair), atol=1e-4, rtol=0)


def test_what_the_model_says_greedily_is_as_likely_as_the_search_says(demo: Any, open_kv: OpenKV) -> None:
    """Though a search never says padding: that takes nothing from what padding is worth."""
    kv = open_kv("tiny-relu-separate")
    models = [(demo.model, [demo.tokenizer.encode(pair.english, None) for pair in demo.pairs[:24]])]
    models += [(kv.model, kv.sources)]
    for model, sources in models:
        rules = dataclasses.replace(model.generation, num_beams=1, renormalize_logits=False, forced_eos_id=None)
        assert rules.suppressed_ids
        said = [(source, best[0]) for source, best in zip(sources, decode(model, sources, rules), strict=True)]

        found = run(model, [IdPair(source, best.ids) for source, best in said])

        assert sum(best.ids[-1] == rules.eos_id for _, best in said) > 5, "most come to an end"
        for log_probs, (_, best) in zip(found, said, strict=True):
            assert log_probs.sum() == pytest.approx(best.log_prob, abs=1e-4)


def test_a_right_translation_is_likelier_than_another_and_than_its_own_words_shuffled(demo: Any) -> None:
    pairs = demo.pairs[:30]
    rng = random.Random(4)
    shuffled = ["".join(rng.sample(pair.chinese, len(pair.chinese))) for pair in pairs]
    others = [pair.chinese for pair in (*pairs[1:], pairs[0])]

    right, swapped, mixed = (
        [
            outcome.nll_sum / outcome.num_tokens
            for outcome in score(
                demo.model,
                demo.tokenizer,
                [as_text(pair.english, target) for pair, target in zip(pairs, targets, strict=True)],
            )
            if isinstance(outcome, Score)
        ]
        for targets in ([pair.chinese for pair in pairs], others, shuffled)
    )

    assert len(right) == len(swapped) == len(mixed) == len(pairs)
    assert max(right) < 0.1, "nats a token"
    assert min(swapped + mixed) > 1.0


# --- the batch
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8])
def test_a_batch_gives_each_pair_what_it_gets_alone(open_kv: OpenKV, precision: Precision) -> None:
    kv = open_kv("tiny-relu-tied", precision)
    pairs = random_pairs(kv, 60, seed=5)
    tokenizer = Digits(kv.model.generation.eos_id)

    alone, together = (score(kv.model, tokenizer, texts_of(pairs), options) for options in (ALONE, TOGETHER))

    for one, other in zip(alone, together, strict=True):
        assert isinstance(one, Score)
        assert isinstance(other, Score)
        assert one.nll_sum == pytest.approx(other.nll_sum, abs=1e-4)
        assert dataclasses.replace(one, nll_sum=0) == dataclasses.replace(other, nll_sum=0)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_pair_that_breaks_the_model_fails_and_its_neighbours_do_not_notice(tmp_path: Path, side: str) -> None:
    """A tensor of one token is NaN, and that token is in one pair."""
    tensor = {"source": "model.encoder.embed_tokens.weight", "target": "model.decoder.embed_tokens.weight"}[side]

    def spoil(weights: dict[str, Any]) -> None:
        weights[tensor][5] = np.nan

    kv = build_kv(tmp_path, "tiny-swish-separate", change=spoil)
    tokenizer = Digits(kv.model.generation.eos_id)
    pairs = [pair for pair in random_pairs(kv, 40, seed=6) if 5 not in pair.source and 5 not in pair.target]
    broken = dataclasses.replace(pairs[7], **{side: [6, 5, 6, pairs[7].source[-1]]})
    wanted = score(kv.model, tokenizer, texts_of(pairs), ALONE)

    found = score(kv.model, tokenizer, texts_of([*pairs[:7], broken, *pairs[7:]]))

    failed = found.pop(7)
    assert isinstance(failed, Failed)
    assert failed.code == "non-finite"
    for one, other in zip(found, wanted, strict=True):
        assert isinstance(one, Score)
        assert isinstance(other, Score)
        assert one.nll_sum == pytest.approx(other.nll_sum, abs=1e-4)


def test_a_batch_that_does_not_fit_into_memory_is_halved_until_it_does(
    open_kv: OpenKV, monkeypatch: pytest.MonkeyPatch
) -> None:
    kv = open_kv()
    texts, tokenizer = texts_of(random_pairs(kv, 9, seed=7)), Digits(kv.model.generation.eos_id)
    whole, sizes = score(kv.model, tokenizer, texts), []
    log_probs = NativeScorer.log_probs

    def small(self: NativeScorer, pairs: Sequence[IdPair], run: RunContext) -> Any:
        sizes.append(len(pairs))
        if len(pairs) > 2:
            raise MemoryError
        return log_probs(self, pairs, run)

    monkeypatch.setattr(NativeScorer, "log_probs", small)

    assert [one.nll_sum for one in score(kv.model, tokenizer, texts) if isinstance(one, Score)] == pytest.approx(
        [one.nll_sum for one in whole if isinstance(one, Score)], abs=1e-4
    )
    assert sizes == [9, 5, 3, 2, 1, 2, 4, 2, 2]


def test_of_a_single_pair_a_shortage_is_raised(open_kv: OpenKV, monkeypatch: pytest.MonkeyPatch) -> None:
    kv = open_kv()

    def never(self: NativeScorer, pairs: Sequence[IdPair], run: RunContext) -> Any:
        raise MemoryError

    monkeypatch.setattr(NativeScorer, "log_probs", never)

    with pytest.raises(MemoryError):
        score(kv.model, Digits(0), ['{"source": "7", "target": "9"}'])


def test_logits_of_a_large_vocabulary_come_a_few_rows_at_a_time(
    open_tiny: OpenTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = open_tiny()
    wanted = run(tiny.model, id_pairs("tiny-swish-tied"))
    vocab_size = tiny.model.graphs.layout.vocab_size
    monkeypatch.setattr("worker.engine.seq2seq.exported.scorer.MAX_LOGITS", 3 * 24 * vocab_size)
    context, pairs = RunContext(), sorted(id_pairs("tiny-swish-tied"), key=lambda pair: -len(pair.source))

    found = tiny.model.new_scorer().log_probs(pairs, context)

    assert [timing.rows for timing in context.timings if timing.phase == "prefill"] == [3, 3, 3, 3, 2]
    for one, other in zip(
        sorted(found, key=lambda row: row.sum()), sorted(wanted, key=lambda row: row.sum()), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-4)


# --- documents
def test_a_side_that_is_too_long_is_cut_and_flagged(open_kv: OpenKV) -> None:
    kv = open_kv("tiny-relu-tied")
    tokenizer, eos_id = Digits(kv.model.generation.eos_id), kv.model.generation.eos_id
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


def test_a_pair_can_be_cut_shorter_than_the_model_needs(demo: Any) -> None:
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


def test_tokens_say_which_bytes_of_the_target_they_are(demo: Any) -> None:
    options = dataclasses.replace(TOGETHER, token_scores=True)
    texts = [as_text(pair.english, pair.chinese) for pair in demo.pairs[:10]]

    for outcome, pair in zip(score(demo.model, demo.tokenizer, texts, options), demo.pairs, strict=False):
        assert isinstance(outcome, Score)
        target, (*tokens, end) = pair.chinese.encode(), outcome.tokens
        assert [token.text for token in tokens] == [target[token.start : token.stop].decode() for token in tokens]
        assert "".join(token.text for token in tokens) == pair.chinese
        assert (end.text, end.start, end.stop) == ("</s>", len(target), len(target))
        assert -sum(token.log_prob or 0 for token in outcome.tokens) == pytest.approx(outcome.nll_sum, abs=1e-5)


def test_words_and_bytes_are_those_of_the_target(demo: Any) -> None:
    texts = [as_text("Rain.", "12 雨 x"), as_text("Rain.", ""), as_text("", "雨"), as_text("Rain.", "  ")]

    found = score(demo.model, demo.tokenizer, texts)

    counts = [(one.num_words, one.num_bytes) for one in found if isinstance(one, Score)]
    assert counts == [(3, 8), (0, 0), (1, 3), (0, 2)]
    assert found[1].num_tokens == found[3].num_tokens == 1  # type: ignore[union-attr]


def test_the_language_label_comes_before_the_source(open_kv: OpenKV) -> None:
    kv = open_kv()
    tokenizer = Digits(kv.model.generation.eos_id)
    (plain,) = score(kv.model, tokenizer, ['{"source": "3 7", "target": "9"}'])
    options = dataclasses.replace(TOGETHER, target_language="fr")

    (labelled,) = score(kv.model, tokenizer, ['{"source": "7", "target": "9"}'], options)

    assert labelled == plain
    with pytest.raises(SpecError, match="no language de"):
        score(kv.model, tokenizer, [], dataclasses.replace(TOGETHER, target_language="de"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rain", "is not JSON"),
        ('["rain", "pluie"]', "is a JSON list"),
        ('{"source": "7"}', "no text as its target"),
        ('{"source": 7, "target": "9"}', "no text as its source"),
    ],
)
def test_what_is_no_pair_fails_alone(open_kv: OpenKV, text: str, said: str) -> None:
    kv = open_kv()

    found = score(kv.model, Digits(0), [text, '{"source": "7", "target": "9"}'])

    assert isinstance(found[0], Failed)
    assert found[0].code == "bad-pair"
    assert said in found[0].message
    assert isinstance(found[1], Score)


def test_a_smaller_head_scores_what_it_has_and_names_what_it_lacks(tmp_path: Path) -> None:
    """Over fewer ids each is likelier: by what the others had."""
    family = "tiny-swish-tied"
    kept = [number for number in range(72) if number not in (20, 50)]
    kv = build_kv(tmp_path, family, head_ids=kept)
    pairs = [pair for pair in random_pairs(kv, 30, seed=8) if not {20, 50} & set(pair.target)]
    lacking = IdPair(pairs[0].source, [7, 50, 20, pairs[0].source[-1]])

    found = score(kv.model, Digits(kv.model.generation.eos_id), texts_of([lacking, *pairs]))

    assert isinstance(found[0], Failed)
    assert found[0].code == "unscorable"
    assert "'piece 50'" in found[0].message
    for one, pair in zip(found[1:], pairs, strict=True):
        assert isinstance(one, Score)
        assert one.nll_sum == pytest.approx(-step_by_step(kv.model, pair).sum(), abs=1e-4)


def test_nothing_is_scored_of_nothing(demo: Any) -> None:
    assert score(demo.model, demo.tokenizer, []) == []


# --- the lane
def test_every_model_call_is_timed(demo: Any, open_tiny: OpenTiny) -> None:
    texts = [as_text(pair.english, pair.chinese) for pair in demo.pairs]
    produced = PairScorer(demo.model, demo.tokenizer).score(texts, TOGETHER, should_stop=lambda: False)
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
    produced = PairScorer(tiny.model, Digits(tiny.model.generation.eos_id)).score(
        texts_of(id_pairs("tiny-swish-tied")), options, should_stop=lambda: False
    )
    assert [timing.phase for timing in produced.timings] == ["tokenize", "encode", "prefill", "head"]
    assert produced.learned == {}


def test_it_stops_between_two_batches(demo: Any, open_tiny: OpenTiny) -> None:
    asked = iter([False, False, True])
    texts = [as_text(pair.english, pair.chinese) for pair in demo.pairs[:4]]

    with pytest.raises(Stopped):
        PairScorer(demo.model, demo.tokenizer).score(texts, ALONE, should_stop=lambda: next(asked))

    assert list(asked) == []


def test_no_buffers_are_kept(demo: Any) -> None:
    scorer = PairScorer(demo.model, demo.tokenizer)

    assert scorer.buffer_stats == BufferStats()


def random_pairs(kv: Built, count: int, seed: int) -> list[IdPair]:
    """Sources and targets whose lengths have nothing to do with each other."""
    sources, rng = kv.draw_sources(2 * count, seed=seed), random.Random(seed)
    rng.shuffle(sources)
    return [IdPair(source, target) for source, target in zip(sources[:count], sources[count:], strict=True)]
