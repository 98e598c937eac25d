"""log p(target | source) of each token: equal to transformers and to step-by-step decoding, in any batch."""

import dataclasses
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.outcome import Failed, Score
from jobs.tasks.shared_options import CachePolicy
from tests.models.engine.tasks.pairs import (
    ALONE,
    TOGETHER,
    WANTED,
    IdTokenizer,
    as_text,
    id_pairs,
    random_pairs,
    run,
    score,
    texts_of,
)
from tests.repetition import cover
from tests.tiny_models import OpenKV, OpenTiny, build_kv, decode
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.batches import IdPair, pad
from worker.engine.seq2seq.exported.decoder import ExportedSteps
from worker.engine.seq2seq.exported.model import ExportedSeq2Seq
from worker.engine.seq2seq.native.decode_step import DecodeStep
from worker.engine.seq2seq.native.encoder_states import cross_attention_feed, encode_padded
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.seq2seq.native.scorer import NativeScorer
from worker.engine.seq2seq.protocol import Seq2SeqModel
from worker.graphs.precision import Precision

FAMILIES = ("tiny-swish-tied", "tiny-relu-tied", "tiny-swish-separate", "tiny-relu-separate")


def step_by_step(model: Seq2SeqModel, pair: IdPair) -> Any:
    """Slow reference: log-probabilities of one pair, one token per step, by the decoder of the search; in float64."""
    rules = dataclasses.replace(model.generation, num_beams=1)
    target = np.array([rules.start_id, *pair.target])
    step: Callable[[Any], Any]
    if isinstance(model, NativeSeq2Seq):
        slots, stepper = model.graphs.new_slots(), DecodeStep(model.graphs, rules, exact=True)
        slots.allocate(1, 1, len(pair.target), len(pair.source))
        slots.append(model.graphs.encode_for_slots(np.array([pair.source])))
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
    """Slow reference for int8: runs every prefix of the target again. Its attention rounds as that of a whole target
    does; a decoding step rounds differently, and int8 turns the smallest difference into a whole quantization step."""
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


@pytest.mark.parametrize(
    ("family", "layout"),
    [
        *((family, "kv") for family in FAMILIES),
        *cover(FAMILIES, ("merged", "two", "none")),
        ("tiny-swish-tied", "never"),  # exported only for this family
    ],
)
def test_every_token_has_the_log_probability_of_transformers(
    open_kv: OpenKV, open_tiny: OpenTiny, family: str, layout: str
) -> None:
    model = open_kv(family).model if layout == "kv" else open_tiny(family, layout).model

    together, alone = run(model, id_pairs(family)), [run(model, [pair])[0] for pair in id_pairs(family)]

    for pair, *found in zip(WANTED[family], together, alone, strict=True):
        for one in found:
            np.testing.assert_allclose(one, pair["log_probs"], atol=1e-4, rtol=0)


def test_a_document_has_the_score_of_transformers_with_the_bundled_model(demo: Any) -> None:
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
def test_scoring_all_tokens_at_once_equals_step_by_step_decoding(
    open_kv: OpenKV, open_tiny: OpenTiny, family: str
) -> None:
    pairs = id_pairs(family)[::3]
    for model in (open_kv(family).model, open_tiny(family, "merged").model):
        for pair, found in zip(pairs, run(model, pairs), strict=True):
            np.testing.assert_allclose(found, step_by_step(model, pair), atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", ["tiny-swish-tied", "tiny-relu-separate"])
def test_in_int8_scoring_all_tokens_at_once_equals_scoring_every_prefix(open_kv: OpenKV, family: str) -> None:
    """Each row has its own int8 scales, which do not depend on later tokens."""
    model, pairs = open_kv(family, Precision.INT8).model, id_pairs(family)[::3]

    for pair, found in zip(pairs, run(model, pairs), strict=True):
        np.testing.assert_allclose(found, prefix_by_prefix(model, pair), atol=1e-4, rtol=0)


def test_a_greedy_translation_scores_the_log_probability_that_the_search_reported(demo: Any, open_kv: OpenKV) -> None:
    """The search suppresses padding, but without renormalizing: padding keeps its share of the probability."""
    kv = open_kv("tiny-relu-separate")
    models = [(demo.model, [demo.tokenizer.encode(pair.english, None) for pair in demo.pairs[:24]])]
    models += [(kv.model, kv.sources)]
    for model, sources in models:
        rules = dataclasses.replace(model.generation, num_beams=1, renormalize_logits=False, forced_eos_id=None)
        assert rules.suppressed_ids
        translated = [(source, best[0]) for source, best in zip(sources, decode(model, sources, rules), strict=True)]

        found = run(model, [IdPair(source, best.ids) for source, best in translated])

        assert sum(best.ids[-1] == rules.eos_id for _, best in translated) > 5, (
            "enough translations reach the end of sentence"
        )
        for log_probs, (_, best) in zip(found, translated, strict=True):
            assert log_probs.sum() == pytest.approx(best.log_prob, abs=1e-4)


def test_a_correct_translation_scores_better_than_another_sentence_or_shuffled_characters(demo: Any) -> None:
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
    assert max(right) < 0.1, "nats per token"
    assert min(swapped + mixed) > 1.0


def test_a_smaller_head_scores_over_its_own_ids_and_names_a_token_that_it_lacks(tmp_path: Path) -> None:
    """With fewer ids each has a higher probability: that of the missing ids is shared out."""
    family = "tiny-swish-tied"
    kept = [number for number in range(72) if number not in (20, 50)]
    kv = build_kv(tmp_path, family, head_ids=kept)
    pairs = [pair for pair in random_pairs(kv, 30, seed=8) if not {20, 50} & set(pair.target)]
    lacking = IdPair(pairs[0].source, [7, 50, 20, pairs[0].source[-1]])

    found = score(kv.model, IdTokenizer(kv.model.generation.eos_id), texts_of([lacking, *pairs]))

    assert isinstance(found[0], Failed)
    assert found[0].code == "unscorable"
    assert "'piece 50'" in found[0].message
    for one, pair in zip(found[1:], pairs, strict=True):
        assert isinstance(one, Score)
        assert one.nll_sum == pytest.approx(-step_by_step(kv.model, pair).sum(), abs=1e-4)


# --- the batch
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8])
def test_a_batch_gives_each_pair_what_it_gets_alone(open_kv: OpenKV, precision: Precision) -> None:
    kv = open_kv("tiny-relu-tied", precision)
    pairs = random_pairs(kv, 60, seed=5)
    tokenizer = IdTokenizer(kv.model.generation.eos_id)

    alone, together = (score(kv.model, tokenizer, texts_of(pairs), options) for options in (ALONE, TOGETHER))

    for one, other in zip(alone, together, strict=True):
        assert isinstance(one, Score)
        assert isinstance(other, Score)
        assert one.nll_sum == pytest.approx(other.nll_sum, abs=1e-4)
        assert dataclasses.replace(one, nll_sum=0) == dataclasses.replace(other, nll_sum=0)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_pair_with_non_finite_logits_fails_without_affecting_the_others(
    tmp_path: Path, side: str, precision: Precision
) -> None:
    """The embedding of one token is NaN, and only one pair contains that token."""
    tensor = {"source": "model.encoder.embed_tokens.weight", "target": "model.decoder.embed_tokens.weight"}[side]

    def spoil(weights: dict[str, Any]) -> None:
        weights[tensor][5] = np.nan

    kv = build_kv(tmp_path, "tiny-swish-separate", precision, change=spoil)
    tokenizer = IdTokenizer(kv.model.generation.eos_id)
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
    texts, tokenizer = texts_of(random_pairs(kv, 9, seed=7)), IdTokenizer(kv.model.generation.eos_id)
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


def test_a_single_pair_that_does_not_fit_into_memory_raises(open_kv: OpenKV, monkeypatch: pytest.MonkeyPatch) -> None:
    kv = open_kv()

    def never(self: NativeScorer, pairs: Sequence[IdPair], run: RunContext) -> Any:
        raise MemoryError

    monkeypatch.setattr(NativeScorer, "log_probs", never)

    with pytest.raises(MemoryError):
        score(kv.model, IdTokenizer(0), ['{"source": "7", "target": "9"}'])


def test_logits_of_a_large_vocabulary_are_computed_a_few_rows_at_a_time(
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
