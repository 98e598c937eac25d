"""Words, and what two texts share, against a table of all prefixes."""

import random
from collections.abc import Sequence

import pytest

from jobs.comparison.words import LONGEST_DIFF, Piece, changed_share, num_common, word_diff, words


def slow_num_common(a: Sequence[str], b: Sequence[str]) -> int:
    """The longest common subsequence, by the table of the textbook."""
    above = [0] * (len(b) + 1)
    for one in a:
        row = [0]
        for j, other in enumerate(b):
            row.append(above[j] + 1 if one == other else max(above[j + 1], row[j]))
        above = row
    return above[-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The rain, at 14:03.", ["The", "rain", ",", "at", "14", ":", "03", "."]),
        ("don't  l’eau", ["don't", "l’eau"]),
        ("由于烟雾covid19。", ["由", "于", "烟", "雾", "covid19", "。"]),
        ("ひらがな カナ", ["ひ", "ら", "が", "な", "カ", "ナ"]),
        ("สวัสดี", list("สวัสดี")),
        ("naïve Straße привет", ["naïve", "Straße", "привет"]),
        (" \n\t", []),
        ("👍🏽 x_1", ["👍", "🏽", "x_1"]),
    ],
)
def test_a_word_is_a_run_of_letters_or_a_character_of_a_script_without_spaces(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_the_common_words_are_as_many_as_in_the_table() -> None:
    generator = random.Random(3)
    for _ in range(400):
        a, b = (generator.choices("abcd", k=generator.randrange(12)) for _ in range(2))
        assert num_common(a, b) == slow_num_common(a, b)


def test_more_words_than_an_integer_of_the_machine_has_bits() -> None:
    generator = random.Random(4)
    a, b = (generator.choices("abcdefgh", k=300) for _ in range(2))

    assert num_common(a, b) == slow_num_common(a, b)


@pytest.mark.parametrize(
    ("a", "b", "share"),
    [
        ("one two three four", "one two three four", 0.0),
        ("one  two", "one two", 0.0),  # white space alone
        ("one two three", "one 2 three", 1 / 3),
        ("one", "two", 1.0),
        ("", "two", 1.0),
        ("", "", 0.0),
    ],
)
def test_the_share_of_changed_words(a: str, b: str, share: float) -> None:
    assert changed_share(a, b) == pytest.approx(share)


def test_a_diff_marks_the_words_that_the_other_text_has_not() -> None:
    a, b = word_diff("The rain falls at noon.", "The snow falls late at noon.")

    assert a == [Piece("The ", False), Piece("rain", True), Piece(" falls at noon.", False)]
    assert b == [
        Piece("The ", False),
        Piece("snow", True),
        Piece(" falls ", False),
        Piece("late", True),
        Piece(" at noon.", False),
    ]


def test_chinese_is_compared_by_character() -> None:
    a, b = word_diff("周一多云", "周二多云")

    assert a == [Piece("周", False), Piece("一", True), Piece("多云", False)]
    assert b == [Piece("周", False), Piece("二", True), Piece("多云", False)]


def test_the_pieces_of_a_diff_are_the_whole_text_and_mark_all_but_the_common_words() -> None:
    generator = random.Random(5)
    for _ in range(300):
        a, b = ("".join(generator.choices(["a", "b", "c", " ", "  ", "天"], k=generator.randrange(14))) for _ in "ab")
        for text, pieces in zip((a, b), word_diff(a, b), strict=True):
            assert "".join(piece.text for piece in pieces) == text
            same = sum(len(words(piece.text)) for piece in pieces if not piece.is_changed)
            assert same == num_common(words(a), words(b))


def test_texts_too_long_for_a_diff_are_changed_between_their_equal_ends() -> None:
    a = "start " + "x " * (LONGEST_DIFF + 1) + "end"
    b = "start y y end"

    assert [piece.is_changed for piece in word_diff(a, b)[0]] == [False, True, False]
    assert [piece.text.strip() for piece in word_diff(a, b)[1]] == ["start", "y y", "end"]
