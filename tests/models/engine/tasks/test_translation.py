"""Documents in, outcomes out: a tiny model, and a tokenizer whose words are ids."""

import dataclasses
import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from jobs.errors import SpecError, Stopped
from jobs.outcome import Failed, Flag, SegmentTranslation, Translation
from jobs.spec import CachePolicy, Timing, TranslateOptions
from tests.repetition import times
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.seq2seq.exported import decoder as exported_decoder
from worker.engine.seq2seq.exported.steps import ExportedSteps
from worker.engine.tasks.batch_result import BatchResult
from worker.engine.tasks.translation import Translator

GREEDY = TranslateOptions(beam_size=1)
DIGEST = b"model and options"


class WordTokenizer:
    """`Wcd Wce.` is 2 and 3 of the letters after W; what is generated reads `t5 t6`."""

    def __init__(self, languages: Sequence[str] = (), max_tokens: int = 64) -> None:
        self.languages = frozenset(languages)
        self.max_tokens = max_tokens
        self.seen: list[str] = []

    def check_language(self, language: str | None) -> None:
        if language is not None and language not in self.languages:
            raise SpecError(f"no target language {language!r}")

    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]:
        self.seen.append(text)
        ids = [2 + sum(map(ord, word)) % 40 for word in text.strip(".!?").split()]
        room = min(max_tokens, self.max_tokens) - 1
        return [[*ids[start : start + room], 0] for start in range(0, max(1, len(ids)), room)]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(f"t{token_id}" for token_id in ids if token_id != 0)


class DictMemory(dict[bytes, SegmentTranslation]):
    """Remembers what it is told."""

    digest = DIGEST

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
        return {key: self[key] for key in keys if key in self}


@pytest.fixture
def tokenizer() -> WordTokenizer:
    return WordTokenizer()


@pytest.fixture
def translator(tiny: Any, tokenizer: WordTokenizer) -> Translator:
    return Translator(tiny.model, tokenizer)


def translate(
    translator: Translator,
    texts: Sequence[str],
    options: TranslateOptions = GREEDY,
    *,
    memory: Any = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> BatchResult:
    return translator.translate(
        texts, options, memory=DictMemory() if memory is None else memory, should_stop=should_stop
    )


def one(translated: BatchResult) -> Translation:
    (outcome,) = translated.outcomes
    assert isinstance(outcome, Translation)
    return outcome


TEXTS = [
    "Alpha beta gamma delta. Epsilon zeta!\n\nEta theta iota kappa lambda mu.",
    "Short one.",
    "",
    "42 - 17",
    "Alpha beta gamma delta. Nu xi omicron pi rho sigma tau upsilon phi.",
]


def test_outcomes_come_in_the_order_of_the_texts(translator: Translator) -> None:
    alone = [one(translate(translator, [text])) for text in TEXTS]
    together = translate(translator, TEXTS, dataclasses.replace(GREEDY, batch_size=2)).outcomes

    assert [outcome.text for outcome in together if isinstance(outcome, Translation)] == [
        outcome.text for outcome in alone
    ]


def test_documents_keep_their_shape(translator: Translator) -> None:
    first, second = TEXTS[0].split("\n\n")
    document = one(translate(translator, [TEXTS[0]]))

    assert document.text == "\n\n".join(one(translate(translator, [part])).text for part in (first, second))
    assert document.num_segments == 3
    assert one(translate(translator, [TEXTS[3]])).text == TEXTS[3]
    assert one(translate(translator, [TEXTS[3]])).flags == (Flag.PASSED_THROUGH,)


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("cache", ["on", "off", "hybrid:2"])
def test_the_cache_changes_no_text(translator: Translator, beam_size: int, cache: str) -> None:
    wanted = translate(translator, TEXTS, TranslateOptions(beam_size=beam_size)).outcomes
    options = TranslateOptions(beam_size=beam_size, cache=CachePolicy.parse(cache))

    found = translate(translator, TEXTS, options).outcomes

    assert [outcome.text for outcome in found] == [outcome.text for outcome in wanted]  # type: ignore[union-attr]


@settings(max_examples=times(5), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_document_affects_another(tiny: Any, data: st.DataObject) -> None:
    translator = Translator(tiny.model, WordTokenizer())
    texts = data.draw(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=6))
    options = TranslateOptions(beam_size=1, batch_size=data.draw(st.integers(1, 5)), max_new_tokens=12)

    together = translate(translator, texts, options).outcomes

    for text, outcome in zip(texts, together, strict=True):
        alone = one(translate(translator, [text], options))
        assert isinstance(outcome, Translation)
        assert outcome.text == alone.text
        assert outcome.log_prob == pytest.approx(alone.log_prob, abs=1e-3)


# Reuse


def test_equal_segments_are_translated_once(translator: Translator, tokenizer: WordTokenizer) -> None:
    text = "Alpha beta gamma. Delta epsilon."
    first, second = translate(translator, [text, f"{text} Alpha beta gamma."]).outcomes

    assert sorted(tokenizer.seen) == ["Alpha beta gamma.", "Delta epsilon."]
    assert isinstance(first, Translation)
    assert isinstance(second, Translation)
    assert (first.num_reused, second.num_reused) == (0, 3)
    assert second.text.startswith(first.text)
    assert second.num_source_tokens > first.num_source_tokens, "reused segments count their tokens"


def test_what_the_memory_knows_is_not_translated(translator: Translator, tokenizer: WordTokenizer) -> None:
    memory = DictMemory()
    first = translate(translator, TEXTS, memory=memory)
    memory.update(first.learned)
    tokenizer.seen.clear()
    second = translate(translator, [*TEXTS, "New words."], memory=memory)

    assert tokenizer.seen == ["New words."]
    assert [outcome.text for outcome in second.outcomes[:-1]] == [outcome.text for outcome in first.outcomes]  # type: ignore[union-attr]
    reused = [outcome.num_reused for outcome in second.outcomes if isinstance(outcome, Translation)]
    assert reused == [3, 1, 0, 0, 2, 0]
    assert len(second.learned) == 1


def test_a_memory_is_keyed_by_model_options_and_text(translator: Translator) -> None:
    learned = translate(translator, ["Alpha beta."]).learned

    assert list(learned) == [hashlib.sha256(DIGEST + b"Alpha beta.").digest()]


def test_learned_segments_say_what_documents_say(translator: Translator) -> None:
    translated = translate(translator, ["Alpha beta gamma."], TranslateOptions(beam_size=4, n_best=3))
    (segment,) = translated.learned.values()
    document = one(translated)

    assert segment.texts[0] == document.text
    assert segment.log_prob == document.log_prob
    assert [alternative.text for alternative in document.alternatives] == list(segment.texts)
    assert list(segment.scores) == sorted(segment.scores, reverse=True)


def test_without_reuse_the_memory_is_neither_asked_nor_taught(translator: Translator, tokenizer: WordTokenizer) -> None:
    class Forbidden:
        digest = DIGEST

        def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
            raise AssertionError("asked")

    translated = translate(
        translator, ["Alpha beta. Alpha beta."], dataclasses.replace(GREEDY, reuse=False), memory=Forbidden()
    )

    assert tokenizer.seen == ["Alpha beta.", "Alpha beta."]
    assert one(translated).num_reused == 0
    assert translated.learned == {}


# Flags and faults


def test_a_segment_beyond_the_positions_is_translated_in_pieces(tiny: Any) -> None:
    translator = Translator(tiny.model, WordTokenizer(max_tokens=4))
    document = one(translate(translator, ["Alpha beta gamma delta epsilon zeta eta."]))
    pieces = [
        one(translate(translator, [piece])).text for piece in ("Alpha beta gamma.", "delta epsilon zeta.", "eta.")
    ]

    assert document.text == " ".join(pieces)
    assert document.flags == (Flag.SPLIT,)
    assert document.num_segments == 1


def test_the_tokenizer_is_told_the_positions_of_the_model(translator: Translator) -> None:
    document = one(
        translate(translator, [" ".join(["alpha"] * 100) + "."], TranslateOptions(beam_size=1, max_new_tokens=5))
    )

    assert Flag.SPLIT in document.flags
    assert document.num_source_tokens == 102, "63 words and an end, 37 words and an end"


def test_a_translation_that_was_cut_says_so(translator: Translator) -> None:
    document = one(
        translate(translator, ["Alpha beta gamma delta epsilon."], TranslateOptions(beam_size=1, max_new_tokens=2))
    )

    assert document.flags == (Flag.TRUNCATED,)
    assert document.num_target_tokens == 2


def found(*hypotheses: Hypothesis) -> Callable[..., list[list[Hypothesis]]]:
    """A search that finds the same for every row."""
    return lambda steps, num_rows, rules: [list(hypotheses)] * num_rows


def test_a_runaway_says_so(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported_decoder, "search", found(Hypothesis((4, *(5, 6) * 5, 0), -1.0, -0.1, truncated=True)))

    assert one(translate(translator, ["Alpha beta."])).flags == (Flag.REPETITION, Flag.TRUNCATED)
    assert one(translate(translator, ["Ha ha ha ha ha ha ha ha ha."])).flags == (Flag.TRUNCATED,), "so does the source"


def test_logits_that_are_not_finite_fail_the_documents_they_concern(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = translate(translator, TEXTS).outcomes
    search = exported_decoder.search

    def search_with_a_fault(steps: Any, num_rows: int, rules: Any) -> list[list[Hypothesis]]:
        hypotheses = search(steps, num_rows, rules)
        hypotheses[0] = [dataclasses.replace(hypotheses[0][0], log_prob=math.nan)]  # the longest segment
        return hypotheses

    monkeypatch.setattr(exported_decoder, "search", search_with_a_fault)
    translated = translate(translator, TEXTS)

    assert translated.outcomes[:4] == sound[:4]
    assert translated.outcomes[4] == Failed(
        "non-finite",
        "the model's logits are not finite (NaN or infinity) for the sentence "
        "'Nu xi omicron pi rho sigma tau upsilon phi.'",
    )
    assert len(translated.learned) == 4, "a fault is not learned"


def test_as_many_hypotheses_come_back_as_were_asked_for_though_two_read_the_same(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins = [Hypothesis((5, 0), -1.0, -0.5, truncated=False), Hypothesis((5,), -2.0, -2.0, truncated=False)]
    monkeypatch.setattr(exported_decoder, "search", found(*twins, Hypothesis((6, 0), -3.0, -3.0, truncated=False)))

    document = one(translate(translator, ["Alpha."], TranslateOptions(beam_size=4, n_best=3)))

    assert [(one.text, one.score) for one in document.alternatives] == [("t5", -0.5), ("t5", -2.0), ("t6", -3.0)]


# Memory


def shortage_above(size: int, calls: list[int], error: Exception) -> Callable[..., ExportedSteps]:
    """A decoder for which batches of more than `size` rows x source length do not fit."""

    class Short(ExportedSteps):
        def __init__(self, model: Any, cache: Any, batch: Any, **rest: Any) -> None:
            super().__init__(model, cache, batch, **rest)
            self._size = batch.input_ids.size

        def step(self, last_ids: Any) -> Any:
            if self._steps == 1:
                calls.append(self._size)
                if self._size > size:
                    raise error
            return super().step(last_ids)

    return Short


@pytest.mark.parametrize(
    "error",
    [MemoryError(), Fail("bfc_arena.cc:360 BFCArena::AllocateRawInternal Failed to allocate memory for 614400000")],
)
def test_a_batch_that_does_not_fit_into_memory_is_halved_and_later_ones_fit_at_once(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    wanted = translate(translator, TEXTS)
    before = translator.decoder._cache
    calls: list[int] = []
    monkeypatch.setattr(exported_decoder, "ExportedSteps", shortage_above(20, calls, error))

    assert translate(translator, TEXTS).outcomes == wanted.outcomes
    assert max(calls) > 20, "it was tried"
    assert translator.decoder._cache is not before, "the buffers of what did not fit are gone"
    calls.clear()
    assert translate(translator, TEXTS).outcomes == wanted.outcomes
    assert max(calls) <= 20, "what is known not to fit is not tried again"


def test_a_single_row_that_does_not_fit_raises(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(exported_decoder, "ExportedSteps", shortage_above(0, calls, MemoryError("no more")))

    with pytest.raises(MemoryError, match="no more"):
        translate(translator, TEXTS)
    assert calls[-1] < calls[0] / 4


def test_another_error_is_not_taken_for_a_shortage(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(exported_decoder, "ExportedSteps", shortage_above(0, calls, Fail("Invalid node")))

    with pytest.raises(Fail):
        translate(translator, TEXTS)
    assert len(calls) == 1


# Options


def test_more_hypotheses_than_beams_cannot_be_kept(translator: Translator) -> None:
    """The beam size may be the model's own, so that the options alone cannot tell."""
    with pytest.raises(SpecError, match=r"n_best is 5, .* keeps 4"):
        translate(translator, ["Alpha."], TranslateOptions(n_best=5))


def test_the_language_is_checked_before_any_work(translator: Translator, tokenizer: WordTokenizer) -> None:
    with pytest.raises(SpecError, match="no target language 'xx'"):
        translate(translator, ["Alpha."], TranslateOptions(target_language="xx"))
    assert tokenizer.seen == []


def test_a_cache_that_the_model_lacks_is_refused_even_without_texts(open_tiny: Any) -> None:
    translator = Translator(open_tiny("tiny-swish-tied", "never").model, WordTokenizer())

    with pytest.raises(SpecError, match="no cache"):
        translate(translator, [], TranslateOptions(cache=CachePolicy("on")))


def test_no_text_is_no_work(translator: Translator) -> None:
    assert translate(translator, []).outcomes == []


def test_a_lone_surrogate_is_no_fault(translator: Translator) -> None:
    assert isinstance(one(translate(translator, ["Alpha \ud800 beta."])), Translation)


# Time


def test_it_stops_between_two_steps(translator: Translator) -> None:
    asked = iter([False, False, False, True])

    with pytest.raises(Stopped):
        translate(translator, TEXTS, should_stop=lambda: next(asked))
    assert next(asked, "all were asked") == "all were asked"


def test_a_stopped_lane_goes_on_with_the_next_work(translator: Translator) -> None:
    wanted = translate(translator, TEXTS).outcomes
    asked = iter([False] * 4 + [True])
    with pytest.raises(Stopped):
        translate(translator, TEXTS, should_stop=lambda: next(asked))

    assert translate(translator, TEXTS).outcomes == wanted


def test_every_phase_is_timed(translator: Translator) -> None:
    timings = translate(translator, TEXTS, dataclasses.replace(GREEDY, batch_size=3)).timings

    assert [timing.phase for timing in timings if timing.phase not in ("decode",)] == [
        "segment",
        "tokenize",
        *["encode", "prefill", "detokenize"] * 2,
    ]
    assert timings[0].rows == len(TEXTS)
    assert (timings[1].rows, timings[1].tokens) == (5, 28)
    assert [timing.rows for timing in timings if timing.phase == "detokenize"] == [3, 2]


@pytest.mark.parametrize("timing", [Timing.BATCHES, Timing.OFF])
def test_sums_are_kept_per_batch(translator: Translator, timing: Timing) -> None:
    timings = translate(translator, TEXTS, dataclasses.replace(GREEDY, batch_size=3, timing=timing)).timings

    expected = ["segment", "tokenize", *["encode", "prefill", "decode", "detokenize"] * 2]
    assert [timing.phase for timing in timings] == (expected if timing is Timing.BATCHES else [])


def test_a_lane_s_buffers_are_counted(translator: Translator) -> None:
    translate(translator, TEXTS)
    allocations = translator.decoder.buffer_stats.allocations
    translate(translator, TEXTS)

    assert translator.decoder.buffer_stats.allocations == allocations > 0
    assert translator.decoder.buffer_stats.reuses > 0
    assert translator.decoder.buffer_stats.num_bytes > 0


def test_another_cache_policy_takes_other_buffers(translator: Translator) -> None:
    first, before = translate(translator, TEXTS).outcomes, translator.decoder

    translate(translator, TEXTS, dataclasses.replace(GREEDY, cache=CachePolicy("off")))

    assert translator.decoder is not before
    assert translate(translator, TEXTS).outcomes == first
