"""Translation of documents by a tiny model: texts, reuse of segments, flags, failures and options."""

import dataclasses
import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.errors import SpecError
from jobs.outcome import Failed, Flag, SegmentTranslation, Translation
from jobs.routing.language_pair import LanguagePair
from jobs.tasks.shared_options import CachePolicy
from jobs.tasks.translate import TranslateOptions
from tests.models.engine.tasks.texts import (
    DIGEST,
    GREEDY,
    TEXTS,
    DictMemory,
    LanguageTokenizer,
    WordTokenizer,
    one,
    translate,
)
from tests.repetition import times
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.seq2seq.exported import decoder as exported_decoder
from worker.engine.tasks.translation import Translator


def test_outcomes_are_in_the_order_of_the_texts(translator: Translator) -> None:
    alone = [one(translate(translator, [text])) for text in TEXTS]
    together = translate(translator, TEXTS, dataclasses.replace(GREEDY, batch_size=2)).outcomes

    assert [outcome.text for outcome in together if isinstance(outcome, Translation)] == [
        outcome.text for outcome in alone
    ]


def test_documents_keep_their_paragraphs_and_untranslatable_text(translator: Translator) -> None:
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


# Reuse of segments


def test_equal_segments_are_translated_once(translator: Translator, tokenizer: WordTokenizer) -> None:
    text = "Alpha beta gamma. Delta epsilon."
    first, second = translate(translator, [text, f"{text} Alpha beta gamma."]).outcomes

    assert sorted(tokenizer.seen) == ["Alpha beta gamma.", "Delta epsilon."]
    assert isinstance(first, Translation)
    assert isinstance(second, Translation)
    assert (first.num_reused, second.num_reused) == (0, 3)
    assert second.text.startswith(first.text)
    assert second.num_source_tokens > first.num_source_tokens, "tokens of reused segments are counted"


def test_a_segment_in_the_memory_is_not_translated(translator: Translator, tokenizer: WordTokenizer) -> None:
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


def test_the_memory_key_is_a_hash_of_model_options_and_text(translator: Translator) -> None:
    learned = translate(translator, ["Alpha beta."]).learned

    assert list(learned) == [hashlib.sha256(DIGEST + b"Alpha beta.").digest()]


def test_learned_segments_equal_those_of_the_document(translator: Translator) -> None:
    translated = translate(translator, ["Alpha beta gamma."], TranslateOptions(beam_size=4, n_best=3))
    (segment,) = translated.learned.values()
    document = one(translated)

    assert segment.texts[0] == document.text
    assert segment.log_prob == document.log_prob
    assert [alternative.text for alternative in document.alternatives] == list(segment.texts)
    assert list(segment.scores) == sorted(segment.scores, reverse=True)


def test_a_segment_is_reused_for_the_same_source_language_alone(translator: Translator) -> None:
    tokenizer, memory = LanguageTokenizer(), DictMemory()
    translator = Translator(translator.model, tokenizer)
    german, french = (dataclasses.replace(GREEDY, source_language=language) for language in ("de", "fr"))

    memory.update(translate(translator, ["Alpha."], german, memory=memory).learned)

    assert one(translate(translator, ["Alpha."], german, memory=memory)).num_reused == 1
    assert one(translate(translator, ["Alpha."], french, memory=memory)).num_reused == 0


def test_without_reuse_the_memory_is_neither_read_nor_written(translator: Translator, tokenizer: WordTokenizer) -> None:
    class Forbidden:
        def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
            raise AssertionError("the memory was read")

    translated = translate(
        translator, ["Alpha beta. Alpha beta."], dataclasses.replace(GREEDY, reuse=False), memory=Forbidden()
    )

    assert tokenizer.seen == ["Alpha beta.", "Alpha beta."]
    assert one(translated).num_reused == 0
    assert translated.learned == {}


def test_an_imported_translation_comes_before_the_memory_and_the_model_and_is_not_learned(
    translator: Translator, tokenizer: WordTokenizer
) -> None:
    memory = DictMemory()
    memory.update(translate(translator, ["Alpha beta."], memory=memory).learned)
    memory.imported[("en", "zh")] = {"Alpha beta.": "一二。"}
    tokenizer.seen.clear()

    found = translate(translator, ["Alpha beta. Gamma."], memory=memory, languages=LanguagePair("en", "zh"))

    document = one(found)
    assert document.text.startswith("一二。")
    assert (document.num_reused, document.flags) == (1, (Flag.IMPORTED,))
    assert tokenizer.seen == ["Gamma."]
    assert len(found.learned) == 1
    assert document.num_source_tokens == next(iter(found.learned.values())).num_source_tokens  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "languages"),
    [
        (dataclasses.replace(GREEDY, reuse=False), LanguagePair("en", "zh")),
        (GREEDY, LanguagePair("en", "de")),
        (GREEDY, None),
    ],
)
def test_no_imported_translation_is_used_without_reuse_or_for_other_languages(
    translator: Translator, options: TranslateOptions, languages: LanguagePair | None
) -> None:
    memory = DictMemory()
    memory.imported[("en", "zh")] = {"Alpha beta.": "一二。"}

    assert one(translate(translator, ["Alpha beta."], options, memory=memory, languages=languages)).num_reused == 0


# Flags and failures


def test_a_segment_longer_than_the_models_positions_is_translated_in_pieces(tiny: Any) -> None:
    translator = Translator(tiny.model, WordTokenizer(max_tokens=4))
    document = one(translate(translator, ["Alpha beta gamma delta epsilon zeta eta."]))
    pieces = [
        one(translate(translator, [piece])).text for piece in ("Alpha beta gamma.", "delta epsilon zeta.", "eta.")
    ]

    assert document.text == " ".join(pieces)
    assert document.flags == (Flag.SPLIT,)
    assert document.num_segments == 1


def test_segments_are_split_at_the_positions_of_the_model(translator: Translator) -> None:
    document = one(
        translate(translator, [" ".join(["alpha"] * 100) + "."], TranslateOptions(beam_size=1, max_new_tokens=5))
    )

    assert Flag.SPLIT in document.flags
    assert document.num_source_tokens == 102, "63 words and an end token, 37 words and an end token"


def test_a_truncated_translation_is_flagged(translator: Translator) -> None:
    document = one(
        translate(translator, ["Alpha beta gamma delta epsilon."], TranslateOptions(beam_size=1, max_new_tokens=2))
    )

    assert document.flags == (Flag.TRUNCATED,)
    assert document.num_target_tokens == 2


def found(*hypotheses: Hypothesis) -> Callable[..., list[list[Hypothesis]]]:
    """A search that returns the same hypotheses for every row."""
    return lambda steps, num_rows, rules: [list(hypotheses)] * num_rows


def test_a_loop_is_flagged_wherever_it_stands_unless_the_source_repeats_too(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = (4, *(5, 6) * 5, 7, 8, 0)
    monkeypatch.setattr(exported_decoder, "search", found(Hypothesis(ids, -1.0, -0.1, truncated=False)))
    memory = DictMemory()

    looped = translate(translator, ["Alpha beta."], memory=memory)

    assert one(looped).flags == (Flag.REPETITION,)
    assert one(translate(translator, ["Ha ha ha ha ha ha ha ha ha."])).flags == (), "the source repeats too"
    memory.update({key: dataclasses.replace(value, flags=()) for key, value in looped.learned.items()})  # type: ignore[arg-type]
    remembered = one(translate(translator, ["Alpha beta."], memory=memory))
    assert (remembered.num_reused, remembered.flags) == (1, (Flag.REPETITION,)), "stored by a version that saw no loop"


def test_a_loop_over_the_pieces_of_a_long_segment_is_flagged(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported_decoder, "search", found(Hypothesis((5, 6, 7, 0), -1.0, -0.1, truncated=False)))
    translator = Translator(tiny.model, WordTokenizer(max_tokens=4))

    document = one(translate(translator, ["Alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu."]))

    assert document.flags == (Flag.REPETITION, Flag.SPLIT)


def test_a_source_that_the_model_does_not_know_is_flagged_also_from_the_memory(translator: Translator) -> None:
    memory = DictMemory()
    texts = ["ฝนฝน.", "Rain ฝน at noon.", "Rain.\nฝนฝน!", "42"]

    first = translate(translator, texts, memory=memory)
    memory.update({key: dataclasses.replace(value, flags=()) for key, value in first.learned.items()})  # type: ignore[arg-type]
    again = translate(translator, texts, memory=memory)

    for outcomes in (first.outcomes, again.outcomes):
        found = [outcome for outcome in outcomes if isinstance(outcome, Translation)]
        assert [Flag.UNKNOWN_SOURCE in one.flags for one in found] == [True, False, True, False]
        assert [one.unknown_share for one in found] == pytest.approx([0.8, 0.125, 0.4, None])
    assert [one.num_reused for one in again.outcomes if isinstance(one, Translation)] == [1, 1, 2, 0]


def test_non_finite_logits_fail_only_the_documents_with_that_segment(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = translate(translator, TEXTS).outcomes
    search = exported_decoder.search

    def search_with_nan(steps: Any, num_rows: int, rules: Any) -> list[list[Hypothesis]]:
        hypotheses = search(steps, num_rows, rules)
        hypotheses[0] = [dataclasses.replace(hypotheses[0][0], log_prob=math.nan)]  # the longest segment
        return hypotheses

    monkeypatch.setattr(exported_decoder, "search", search_with_nan)
    translated = translate(translator, TEXTS)

    assert translated.outcomes[:4] == sound[:4]
    assert translated.outcomes[4] == Failed(
        "non-finite",
        "the model's logits are not finite (NaN or infinity) for the sentence "
        "'Nu xi omicron pi rho sigma tau upsilon phi.'",
    )
    assert len(translated.learned) == 4, "a failed segment is not stored"


def test_n_best_hypotheses_are_returned_even_if_two_have_the_same_text(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    equal_texts = [Hypothesis((5, 0), -1.0, -0.5, truncated=False), Hypothesis((5,), -2.0, -2.0, truncated=False)]
    monkeypatch.setattr(
        exported_decoder, "search", found(*equal_texts, Hypothesis((6, 0), -3.0, -3.0, truncated=False))
    )

    document = one(translate(translator, ["Alpha."], TranslateOptions(beam_size=4, n_best=3)))

    assert [(one.text, one.score) for one in document.alternatives] == [("t5", -0.5), ("t5", -2.0), ("t6", -3.0)]


# Options


def test_more_hypotheses_than_beams_are_refused(translator: Translator) -> None:
    """The beam size may come from the model, so the options alone cannot be checked."""
    with pytest.raises(SpecError, match=r"n_best is 5, .* keeps 4"):
        translate(translator, ["Alpha."], TranslateOptions(n_best=5))


def test_the_language_is_checked_before_any_work(translator: Translator, tokenizer: WordTokenizer) -> None:
    with pytest.raises(SpecError, match="no target language 'xx'"):
        translate(translator, ["Alpha."], TranslateOptions(target_language="xx"))
    assert tokenizer.seen == []


def test_the_cache_option_is_refused_for_a_model_without_a_cache_even_without_texts(open_tiny: Any) -> None:
    translator = Translator(open_tiny("tiny-swish-tied", "never").model, WordTokenizer())

    with pytest.raises(SpecError, match="no cache"):
        translate(translator, [], TranslateOptions(cache=CachePolicy("on")))


def test_without_texts_there_are_no_outcomes(translator: Translator) -> None:
    assert translate(translator, []).outcomes == []


def test_a_lone_surrogate_is_translated(translator: Translator) -> None:
    assert isinstance(one(translate(translator, ["Alpha \ud800 beta."])), Translation)
