"""Languages, prompts and outcomes of translation by a chat model."""

from dataclasses import replace

import pytest

from jobs.answers import Unanswered
from jobs.outcome import Failed, Flag, Translation
from jobs.providers import Reason
from jobs.spec import JobSpec
from jobs.tasks.translate import Segmentation, TranslateOptions
from tests.rows import SPEC
from worker.providers.chat.translation import (
    ChatAnswer,
    LanguagePair,
    language_name,
    language_pair,
    outcome_of,
    passed_through,
    prompt_of,
    why_not_translate,
)

PAIR = LanguagePair("English", "Chinese")
ANSWER = ChatAnswer("阿登将有雨。", True, 40, 6, (-0.5, -0.25))


def spec_of(model: str, **options: object) -> JobSpec:
    return replace(SPEC, model=model, options=TranslateOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "options", "pair"),
    [
        ("opus-mt-en-zh", {}, ("English", "Chinese")),
        ("demo-en-zh", {}, ("English", "Chinese")),
        ("/models/opus-mt-tc-big-de-fr", {}, ("German", "French")),
        ("opus-mt-en-mul", {"target_language": "cmn_Hans"}, ("English", "Chinese (simplified)")),
        ("gpt-4o-mini", {"target_language": "pt-BR", "source_language": "ja"}, ("Japanese", "Portuguese (BR)")),
        ("m", {"target_language": "tlh"}, ("English", "tlh")),
        ("opus-mt-en-zh", {"target_language": ">>yue_Hant<<"}, ("English", "Cantonese (traditional)")),
    ],
)
def test_languages_come_from_the_option_else_from_the_name_of_the_model(
    model: str, options: dict[str, str], pair: tuple[str, str]
) -> None:
    assert language_pair(spec_of(model, **options)) == LanguagePair(*pair)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (spec_of("gpt-4o-mini"), "target language"),
        (spec_of("opus-mt-tc-big"), "target language"),
        (spec_of("opus-mt-en-zh", n_best=2, beam_size=4), "n-best"),
        (spec_of("opus-mt-en-zh", beam_size=4), "beam"),
        (spec_of("opus-mt-en-zh", alignments=True), "belong together"),
        (spec_of("opus-mt-en-zh", beam_size=1), None),
        (spec_of("opus-mt-en-zh", segment=Segmentation.LINES), "--segment"),
        (spec_of("opus-mt-en-zh", segment=Segmentation.NONE), None),
        (spec_of("opus-mt-en-zh", repetition_penalty=1.2), "--repetition-penalty"),
        (spec_of("opus-mt-en-zh", no_repeat_ngram_size=3), "--no-repeat-ngram-size"),
    ],
)
def test_what_a_chat_model_cannot_do_has_a_reason(spec: JobSpec, says: str | None) -> None:
    why = why_not_translate(spec)

    assert why is None if says is None else says in str(why)


def test_a_text_with_braces_is_sent_as_it_is_and_replaces_nothing() -> None:
    prompt = prompt_of("{target} {source} {text}\n", PAIR, "{source}>{target}: {text}!")

    assert prompt == "English>Chinese: {target} {source} {text}!"
    assert prompt_of("Rain.", PAIR).endswith("\n\nRain.")


def test_white_space_around_the_text_stays() -> None:
    found = outcome_of("\n  It will rain in Arden.\t", ANSWER)

    assert found == Translation("\n  阿登将有雨。\t", -0.75, 1, 0, 40, 6)


def test_an_answer_without_log_probabilities_has_none_and_a_cut_one_is_flagged() -> None:
    found = outcome_of("Rain.", replace(ANSWER, log_probs=None, is_complete=False))

    assert isinstance(found, Translation)
    assert found.log_prob is None
    assert found.flags == (Flag.TRUNCATED, Flag.UNSCORED)


def test_an_empty_answer_fails_the_document() -> None:
    assert isinstance(outcome_of("Rain.", replace(ANSWER, text=" \n")), Failed)


def test_a_document_without_a_letter_passes_through() -> None:
    found = passed_through("12:30 —", "en")

    assert isinstance(found, Translation)
    assert (found.text, found.log_prob, found.flags) == ("12:30 —", 0.0, (Flag.PASSED_THROUGH,))
    assert passed_through("Rain.", "en") is None


def test_names_of_unknown_codes_are_the_codes() -> None:
    assert [language_name(code) for code in ("zh", "zho_Hant", "xx-YY")] == [
        "Chinese",
        "Chinese (traditional)",
        "xx-YY",
    ]


def test_a_translation_that_no_database_can_store_goes_to_another_provider() -> None:
    found = outcome_of("Rain.", ChatAnswer("Re\0gen.", True, 5, 2))

    assert isinstance(found, Unanswered)
    assert (found.code, "NUL" in found.reason) == (Reason.DECLINED, True)
