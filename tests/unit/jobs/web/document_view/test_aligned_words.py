"""The words of a sentence and of its translation as HTML: in their places, with links, and escaped."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.web.document_view.aligned_text import Word, aligned
from jobs.web.document_view.marked_text import marked, with_words

ALIGNMENTS = [
    {"source": [[0, 4], [5, 9]], "target": [[0, 1], [1, 3]], "links": "0-1 1-0 1-1"},
    None,
    {"source": [[20, 22]], "target": [[8, 9]], "links": ""},
]


def test_words_have_their_places_in_the_sentence_and_their_links() -> None:
    found = aligned(
        "Rain here. Too long. No!",
        "雨下下。很长。不",
        "[[0,10,0,4],[11,19,4,7],[20,23,8,9]]",
        1000,
        alignments=json.dumps(ALIGNMENTS),
    )

    assert found is not None
    first, second, third = [pair for pair in found.pairs if pair.number]
    assert first.source_words == [Word(0, 4, (1,)), Word(5, 9, (0, 1))]
    assert first.target_words == [Word(0, 1, (1,)), Word(1, 3, (0, 1))]
    assert (second.source_words, second.target_words) == ([], [])  # it was translated in pieces
    assert (third.source_words, third.target_words) == ([Word(0, 2, ())], [Word(0, 1, ())])


def test_a_hostile_word_is_text() -> None:
    shown = with_words("a<img src=x>\u202e b", [Word(0, 1, (2, 3)), Word(1, 14, ())])

    assert '<span class="word" data-links="2 3" tabindex="0">a</span>' in shown
    assert "<img" not in shown
    assert "\u202e" not in shown


@given(st.text(st.sampled_from("ab<>&\"' \n\u202e雨"), max_size=20), st.lists(st.integers(0, 20), max_size=12))
def test_words_neither_add_nor_lose_text(text: str, borders: list[int]) -> None:
    places = sorted({min(border, len(text)) for border in borders})
    words = [Word(start, stop, ()) for start, stop in zip(places[::2], places[1::2], strict=False)]

    shown = with_words(text, words)

    assert re.sub(r'<span class="word"[^>]*>', "", shown).count("<span") == str(marked(text)).count("<span")
    assert re.sub(r"<[^>]*>", "", shown) == re.sub(r"<[^>]*>", "", marked(text))
    assert shown.count('class="word"') == len(words)
    assert shown.count('tabindex="0"') == min(1, len(words))


@pytest.mark.parametrize("alignments", [None, "[null]"])
def test_without_an_alignment_there_is_no_word(alignments: str | None) -> None:
    found = aligned("Rain.", "雨。", "[[0,5,0,2]]", 1000, alignments=alignments)

    assert found is not None
    assert not found.pairs[0].source_words
