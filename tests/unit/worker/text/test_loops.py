"""Texts in which a model was caught in a loop, and texts that repeat themselves with reason."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.demo.grammar import bulletin
from worker.text.loops import has_loop


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("预计没有降雪；其他地方；其他地方；其他地方；其他地方；其他地方。", "Snow is expected;"),
        ("降雨2厘米" + "；其他地方" * 6 + "；其他地亚罗。", "Rain; rain; rain; rain;"),
        ("海洋预报，高山地区海洋预报。" * 4 + "海洋预报，高山地区海洋洋预报。", "rain" * 400),
        ("I do not know. I do not know. I do not know. I do not know. But it rains.", "Ich weiß es nicht."),
        ("the the the the the rain", "der Regen"),
        ("ฝนตกหนัก" + "ทางเหนือ" * 4 + "วันนี้", "It rains heavily in the north today."),
        ("雨です。" + "はい、" * 6 + "そうです。", "It rains. Yes."),
        ("ხაა " * 6, ""),
        ("The first. " + "A sentence that is long enough to be known again. " * 3 + "The end.", "Le premier."),
        ("奥克克克克克克斯顿路将封闭。", "Oakham"),
        ("红水镇" * 4, "Redwater"),
        ("no rain, " * 40, "Kein Regen, kein Regen, kein Regen."),
        ("!" * 200, "!" * 10),
        ("0 1 0 1 " * 30, "0 1"),
    ],
)
def test_a_sequence_repeated_in_a_row_is_a_loop_wherever_it_stands(text: str, source: str) -> None:
    assert has_loop(text, source)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("", ""),
        ("ha ha ha ha", ""),
        ("哈" * 20, "Ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha!"),
        ("哈哈哈哈", "LOL"),
        ("哈哈哈哈哈哈", "Ha ha ha ha ha ha!"),
        ("ha" * 16, "ㅋ" * 16),
        ("no, no, no, no, no", "нет, нет, нет, нет, нет"),
        ("非常非常非常非常非常非常非常非常好", "very very very very very very very very good"),
        ("| ja | ja | ja | ja | ja |", "| yes | yes | yes | yes | yes |"),
        ("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15", ""),
        ("Chapter 1 " + "." * 70 + " 5", ""),
        ("0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0", ""),
        ("-" * 80, ""),
        ("1" + "0" * 60, ""),
        ("The mountain falls, the hill falls, the valley falls, the river falls.", ""),
        ("rain, wind, snow, rain, wind, snow, rain, wind, snow", ""),
    ],
)
def test_what_its_source_repeats_too_and_ordinary_rows_are_no_loop(text: str, source: str) -> None:
    assert not has_loop(text, source)


@given(st.text(max_size=30), st.text("abcde雨風", min_size=1, max_size=20), st.integers(4, 9), st.text(max_size=30))
def test_a_loop_is_found_whatever_stands_around_it(before: str, unit: str, times: int, after: str) -> None:
    assert has_loop(before + unit * max(times, -(-16 // len(unit))) + after)


def test_no_sentence_of_bulletins_has_a_loop_in_either_language() -> None:
    rng = Random(1)
    pairs = [pair for _ in range(150) for pair in bulletin(rng).sentences]

    assert len(pairs) > 900
    assert not [pair for pair in pairs if has_loop(pair.chinese, pair.english) or has_loop(pair.english, pair.chinese)]


@pytest.mark.parametrize("unit", ["a", "ab" * 7 + "c", "ab" * 7 + "c" + "ab" * 7 + "d"])
def test_a_text_of_many_near_repeats_is_read_in_time_that_grows_with_its_length(unit: str) -> None:
    """512 comparisons a character at worst: a quadratic search would need minutes."""
    text = "".join(unit + str(number) for number in range(30_000 // len(unit)))

    assert not has_loop(text)
