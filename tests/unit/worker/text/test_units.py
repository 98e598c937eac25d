"""What else than the sentences of each line is translated as a unit: lines, paragraphs, a document as a whole."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.tasks.translate import Segmentation
from worker.text.segments import segment

WRAPPED = "It will rain in the\n  north. Winds  \r\nease.\n\n- Arden\n- Orford\n"
PARTS = [*"aB.! \n\r\t-1雨。ก가\u2028\U0001f327", "Dr. ", "\r\n"]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=60).map("".join)


def units(text: str, unit: Segmentation, language: str = "en") -> list[str]:
    return [span.text for span in segment(text, language, unit) if span.translatable]


@given(TEXTS, st.sampled_from(Segmentation))
def test_the_spans_as_they_are_written_are_the_document_and_units_have_no_white_space_around(
    text: str, unit: Segmentation
) -> None:
    spans = segment(text, "en", unit)
    at = 0

    for span in spans:
        written = span.text if span.written is None else span.written
        assert text[at : at + span.length] == written
        at += span.length
        if span.is_gap:
            assert written.isspace()
        else:
            assert span.text == span.text.strip() != ""
            assert "".join(span.text.split()) == "".join(written.split())
    assert at == len(text)


def test_each_unit_has_its_own_borders() -> None:
    text = "Rain. Wind.\n\n42\nSnow"

    assert units(text, Segmentation.SENTENCES) == ["Rain.", "Wind.", "Snow"]
    assert units(text, Segmentation.LINES) == ["Rain. Wind.", "Snow"]
    assert units(text, Segmentation.PARAGRAPHS) == ["Rain.", "Wind.", "42 Snow"]
    assert units(f" {text}\n", Segmentation.NONE) == [text]


def test_a_sentence_over_several_lines_is_one_in_a_paragraph() -> None:
    assert units("It will rain in the\nnorth. Winds\r\nease.\n", Segmentation.PARAGRAPHS) == [
        "It will rain in the north.",
        "Winds ease.",
    ]


@pytest.mark.parametrize("begins", ["- ", "* ", "• ", "12) ", "a) ", "> ", "# ", "  ", "| "])
def test_a_line_with_a_mark_begins_a_new_one(begins: str) -> None:
    assert units(f"{begins}Rain in\n{begins}Arden", Segmentation.PARAGRAPHS) == [
        f"{begins}Rain in".strip(),
        f"{begins}Arden".strip(),
    ]


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("今天\n下雨", "今天下雨"),
        ("「今日は\n雨」", "「今日は雨」"),
        ("ｱﾒ\nﾃﾞｽ", "ｱﾒﾃﾞｽ"),
        ("他说：\n“下雨”", "他说：“下雨”"),
        ("ฝนตก\nหนัก", "ฝนตกหนัก"),
        ("비가\n온다", "비가 온다"),
        ("a well-\nknown town", "a well-known town"),
        ("Rain -\nwind", "Rain - wind"),
    ],
)
def test_lines_are_joined_as_their_script_asks_for(text: str, joined: str) -> None:
    assert units(text, Segmentation.PARAGRAPHS, "zh" if "今" in text else "en") == [joined]


def test_many_joined_lines_take_time_that_grows_with_their_number() -> None:
    started = time.monotonic()

    assert len(units("word\n" * 50_000, Segmentation.PARAGRAPHS)) > 100
    assert time.monotonic() - started < 30
