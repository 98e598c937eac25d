"""Words of a text, and the form of alignments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.text.word_alignment import Alignment, pharaoh, words


def words_of(text: str) -> list[str]:
    return [text[start:stop] for start, stop in words(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't pay 3.5 (or 1,000) euro.", ["Don't", "pay", "3.5", "or", "1,000", "euro"]),
        ("l’eau d'ici, a_b well-known", ["l’eau", "d'ici", "a_b", "well", "known"]),
        ("mp3 3D. 5, 6", ["mp3", "3D", "5", "6"]),
        ("今天 3.5 度, GPU很热。", ["今", "天", "3.5", "度", "GPU", "很", "热"]),
        ("カメラ", ["カ", "メ", "ラ"]),
        ("น้ำดี", ["น้", "ำ", "ดี"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("cafe\u0301 x\u200dy", ["cafe\u0301", "x\u200dy"]),
        ("... -- 🙂 %", []),
        ("", []),
    ],
)
def test_a_word_is_a_run_of_letters_and_digits_or_one_letter_of_a_script_without_spaces(text, expected):
    assert words_of(text) == expected


@given(st.text())
def test_words_are_in_order_do_not_overlap_and_hold_all_letters_and_digits(text):
    spans = words(text)
    flat = [edge for span in spans for edge in span]
    assert flat == sorted(flat)
    assert all(start < stop for start, stop in spans)
    covered = {at for start, stop in spans for at in range(start, stop)}
    assert {at for at, character in enumerate(text) if character.isalnum()} <= covered


@given(st.text(), st.text())
def test_words_of_two_texts_are_those_of_each_where_a_space_is_between(first, second):
    assert words_of(f"{first} x {second}") == [*words_of(f"{first} x"), *words_of(second)]


def test_pharaohs_form_has_a_pair_for_each_link():
    assert pharaoh(Alignment(((0, 1), (2, 3)), ((0, 1),), ((0, 0), (1, 0)))) == "0-0 1-0"
