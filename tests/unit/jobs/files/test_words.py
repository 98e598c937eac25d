"""Which texts have a word, and are translated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.files.words import has_word


@pytest.mark.parametrize(
    "text",
    ["Open", "OK", "1st", "打", "ก", "GitHub", "Ctrl+C", "beaded", "Read on_success", "No. 3fa85f64a0", "One.Two",
     "_go_"],
)  # fmt: skip
def test_words_are_translated(text):
    assert has_word(text)


@pytest.mark.parametrize(
    "text",
    ["", "12", "x", "A1", "x-12", "%d", "2026-01-02T10:00Z", "5µ", "1º", "#fff", "#ffe0b0", "3f2a9c41d0", "on_success",
     "MAX_SIZE", "zh_CN", "runAll", "iPhone", "run()", "a.run()", "report.pdf", "example.com", "org.example.OneName",
     "123e4567-e89b-12d3-a456-426614174000"],
)  # fmt: skip
def test_codes_that_stand_alone_are_not(text):
    assert not has_word(text)
    assert not has_word(f" {text}\n")


@given(st.text(alphabet=st.characters(categories=["Ll", "Lu"]), min_size=2))
def test_two_letters_are_a_word_unless_they_are_ascii(text):
    assert has_word(text + "é")
