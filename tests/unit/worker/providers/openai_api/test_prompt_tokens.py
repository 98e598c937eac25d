"""Tokens that a server lists are placed in the text, also those that are parts of a character."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.providers.openai_api.prompt_tokens import TokenPlace, place_tokens

PARTS = ("", "\ufffd", "bytes:\\xe9")


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[str, list[str], list[tuple[int, int]]]:
    """A text, its tokens as a server lists them, and their places. Some characters are cut into two or three parts."""
    text = draw(st.text("ab 雨é😀", min_size=1, max_size=20))
    tokens: list[str] = []
    places: list[tuple[int, int]] = []
    cursor = 0
    while cursor < len(text):
        if ord(text[cursor]) > 127 and draw(st.booleans()):
            number = draw(st.integers(2, 3))
            tokens += [draw(st.sampled_from(PARTS)) for _ in range(number)]
            places += [(cursor, cursor + 1), *[(cursor + 1, cursor + 1)] * (number - 1)]
            cursor += 1
        else:
            stop = cursor + 1
            while stop < len(text) and ord(text[stop]) < 128 and draw(st.booleans()):
                stop += 1
            tokens.append(text[cursor:stop])
            places.append((cursor, stop))
            cursor = stop
    return text, tokens, places


@given(cut_texts())
def test_tokens_cover_the_text_in_order_without_overlapping(cut: tuple[str, list[str], list[tuple[int, int]]]) -> None:
    text, tokens, _ = cut

    found = place_tokens(text, tokens)

    assert found is not None
    assert len(found) == len(tokens)
    assert found[0].start == 0
    assert found[-1].stop == len(text)
    assert all(one.stop == other.start for one, other in pairwise(found))
    assert all(
        text[place.start : place.stop] == token
        for place, token in zip(found, tokens, strict=True)
        if token not in PARTS
    )


@given(cut_texts(), st.sampled_from("xyz"))
def test_tokens_of_another_text_have_no_place(cut: tuple[str, list[str], list[tuple[int, int]]], other: str) -> None:
    text, tokens, _ = cut
    whole = [index for index, token in enumerate(tokens) if token not in PARTS]
    if whole:
        changed = [other * len(token) if index == whole[0] else token for index, token in enumerate(tokens)]
        assert place_tokens(text, changed) is None
        assert place_tokens(text, [*tokens, other]) is None


@pytest.mark.parametrize(
    ("text", "tokens", "places"),
    [
        ("an 雨", ["an", " ", "", "\ufffd", ""], [(0, 2), (2, 3), (3, 4), (4, 4), (4, 4)]),
        ("雨 雨", ["", "", " ", "", ""], [(0, 1), (1, 1), (1, 2), (2, 3), (3, 3)]),
        ("rain", [" rain"], [(0, 4)]),  # a space that a tokenizer put before the text
        (" rain", [" rain"], [(0, 5)]),
        ("", [], []),
    ],
)
def test_parts_share_the_characters_that_no_other_token_has(
    text: str, tokens: list[str], places: list[tuple[int, int]]
) -> None:
    assert place_tokens(text, tokens) == [TokenPlace(*place) for place in places]


@pytest.mark.parametrize(
    ("text", "tokens"), [("rain", ["ra"]), ("rain", ["rain", " now"]), ("ab", ["a", "", "b"]), ("ab", ["ab", ""])]
)
def test_tokens_that_do_not_join_to_the_text_have_no_place(text: str, tokens: list[str]) -> None:
    assert place_tokens(text, tokens) is None
