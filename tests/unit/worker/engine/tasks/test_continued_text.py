"""What new ids add to a text, with tokenizers that join their tokens in different ways."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine.tasks.generation import ContinuedText

SPECIAL = 256


class Words:
    """SentencePiece's way: a space before each word, which the first one of a text loses."""

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(f" w{one}" if one else "." for one in ids).removeprefix(" ")

    def is_silent(self, token_id: int) -> bool:
        return False


class Bytes:
    """A token for each byte, and a special one."""

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(one for one in ids if one != SPECIAL).decode("utf-8", "replace")

    def is_silent(self, token_id: int) -> bool:
        return token_id == SPECIAL


def test_the_first_new_word_keeps_its_space() -> None:
    assert ContinuedText(Words(), [1, 2]).text([3, 0, 4]) == " w3. w4"
    assert ContinuedText(Words(), []).text([3, 4]) == "w3 w4"


@given(st.text(max_size=20), st.text(max_size=20))
def test_characters_of_several_tokens_come_out_whole(prompt: str, new: str) -> None:
    text = ContinuedText(Bytes(), list(prompt.encode("utf-8", "replace")))

    assert text.text(list(new.encode("utf-8", "replace"))) == new.encode("utf-8", "replace").decode()


def test_a_character_that_begins_in_the_prompt_belongs_to_the_continuation() -> None:
    snow = "雪".encode()

    assert ContinuedText(Bytes(), [*b"a ", snow[0]]).text([*snow[1:], *b"!"]) == "雪!"


@pytest.mark.parametrize("stop", ["\n", "END", "é", "w3. w4"])
def test_a_stop_text_is_found_with_the_token_that_completes_it(stop: str) -> None:
    content = f"some text {stop} more".encode()
    text = ContinuedText(Bytes(), list(b"prompt"))
    end = content.index(stop.encode()) + len(stop.encode())

    ends = [text.ends_in(list(content[:size]), (stop,)) for size in range(1, end + 1)]

    assert ends == [False] * (end - 1) + [True]


@pytest.mark.parametrize("prompt", ["", "\ufffd", "a\ufffd\ufffd", "a"])
@pytest.mark.parametrize("new", ["b", "\ufffd", "\ufffdb", "b\ufffd"])
def test_the_replacement_character_is_a_character_like_others(prompt: str, new: str) -> None:
    assert ContinuedText(Bytes(), list(prompt.encode())).text(list(new.encode())) == new


def test_a_stop_text_begins_with_the_replacement_character_of_the_continuation() -> None:
    text = ContinuedText(Bytes(), list("one\ufffd".encode()))

    assert not text.ends_in(list(b"!"), ("\ufffd!",))
    assert text.ends_in(list("\ufffd!".encode()), ("\ufffd!",))


@given(st.integers(0, 3), st.integers(1, 40), st.integers(0, 40))
def test_special_tokens_between_those_of_a_stop_text_hide_none_of_it(at: int, silent: int, after_prompt: int) -> None:
    before, stop = list(b"one"), list(b"STOP")
    ids = [*before, *stop[: at + 1], *[SPECIAL] * silent, *stop[at + 1 :]]
    text = ContinuedText(Bytes(), [*b"prompt", *[SPECIAL] * after_prompt])

    assert text.ends_in(ids, ("STOP",))
    assert text.text(ids) == "oneSTOP"


def test_a_stop_text_of_the_prompt_does_not_count() -> None:
    text = ContinuedText(Bytes(), list(b"one\n"))

    assert not text.ends_in(list(b"two"), ("\n",))
    assert not text.ends_in(list(b"e"), ("ne",))
