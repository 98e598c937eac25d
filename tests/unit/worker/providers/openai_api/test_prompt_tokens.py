"""Tokens that a server lists are placed in the text, also those that are parts of a character."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.providers.openai_api.prompt_tokens import TokenPlace, place_tokens

PARTS = ("", "\ufffd", "bytes:\\xe9")


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text, and its tokens as a server lists them. Some characters are cut into two or three parts."""
    text = draw(st.text("ab 雨é😀", min_size=1, max_size=20))
    tokens: list[str] = []
    cursor = 0
    while cursor < len(text):
        if ord(text[cursor]) > 127 and draw(st.booleans()):
            tokens += [draw(st.sampled_from(PARTS)) for _ in range(draw(st.integers(2, 3)))]
            cursor += 1
        else:
            stop = cursor + 1
            while stop < len(text) and ord(text[stop]) < 128 and draw(st.booleans()):
                stop += 1
            tokens.append(text[cursor:stop])
            cursor = stop
    return text, tokens


@given(cut_texts())
def test_tokens_cover_the_text_in_order_without_overlapping(cut: tuple[str, list[str]]) -> None:
    text, tokens = cut

    found = place_tokens(text, tokens)

    assert found is not None
    assert len(found) == len(tokens)
    assert (found[0].start, found[-1].stop) == (0, len(text.encode()))
    assert all(one.stop == other.start for one, other in pairwise(found))
    assert all(
        text.encode()[place.start : place.stop] == token.encode()
        for place, token in zip(found, tokens, strict=True)
        if token not in PARTS
    )


@given(st.text("ab 雨é😀", min_size=1, max_size=20), st.sampled_from(PARTS))
def test_tokens_that_are_single_bytes_have_exact_places(text: str, part: str) -> None:
    tokens = [
        one for character in text for one in ([character] if ord(character) < 128 else [part] * len(character.encode()))
    ]

    assert place_tokens(text, tokens) == [TokenPlace(byte, byte + 1) for byte in range(len(text.encode()))]


@given(cut_texts(), st.sampled_from("xyz"))
def test_tokens_of_another_text_have_no_place(cut: tuple[str, list[str]], other: str) -> None:
    text, tokens = cut
    whole = [index for index, token in enumerate(tokens) if token not in PARTS]
    if whole:
        changed = [other * len(token) if index == whole[0] else token for index, token in enumerate(tokens)]
        assert place_tokens(text, changed) is None
        assert place_tokens(text, [*tokens, other]) is None


@pytest.mark.parametrize(
    ("text", "tokens", "places"),
    [
        ("an 雨", ["an", " ", "", "\ufffd", ""], [(0, 2), (2, 3), (3, 4), (4, 5), (5, 6)]),
        ("雨 雨", ["", "", " ", "", ""], [(0, 3), (3, 3), (3, 4), (4, 7), (7, 7)]),  # nobody knows where they end
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
