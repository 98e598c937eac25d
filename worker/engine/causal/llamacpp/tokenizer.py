"""
The vocabulary of a GGUF file as a tokenizer: llama.cpp cuts the text, and the pieces of its tokens say where.

Text is plain text: `<|endoftext|>` in a document is tokenized like any other characters. The pieces have to join to the
text, byte for byte, but for a space that the vocabulary puts before it; a text for which they do not is refused, since
no token would have a place in it.
"""

import ctypes
import functools
import re
import secrets
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.engine.causal.llamacpp.library import llama_cpp
from worker.engine.causal.llamacpp.network import Network
from worker.text.causal_tokenizer import Encoded, readable

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_BYTES = (1 << 31) - 2  # of a text: llama.cpp counts in 32 bits
_BLANKS = " \t\n\v\f\r"  # of isspace(3)
_PIECE_BYTES = 256  # room for a piece at first
_SPACE, _WORD_START = b" ", "▁".encode()


class LlamaCppTokenizer:
    """Lanes share one: llama.cpp only reads the vocabulary."""

    def __init__(self, network: Network) -> None:
        functions = llama_cpp()
        self._network = network
        self._vocabulary = network.vocabulary
        self._pieces: dict[int, bytes] = {}  # by id, as they are needed
        bos = functions.llama_vocab_bos(self._vocabulary)
        eos = functions.llama_vocab_eos(self._vocabulary)
        adds_bos = functions.llama_vocab_get_add_bos(self._vocabulary)
        self.bos_id: int | None = bos if adds_bos and bos >= 0 else None  # before each text; None: nothing is
        self.eos_id: int | None = eos if eos >= 0 else None
        self._mark = f"\ufdd0{secrets.token_hex(8)}\ufdd0"  # around an id: a noncharacter, and a secret

    @property
    def max_id(self) -> int:
        """The highest id."""
        return self._network.vocab_size - 1

    def encode(self, text: str) -> Encoded:
        """The tokens of a text, without BOS and EOS. There may be none.

        A lone surrogate, which JSON can carry and UTF-8 cannot, counts as U+FFFD. Raises ModelError where the pieces
        do not join to the text: the vocabulary lacks a character, or changes the text.
        """
        content = _SURROGATE.sub("\ufffd", text).encode()
        ids = self._tokenize(content)
        pieces = [self._piece(token_id) for token_id in ids]
        ends = np.cumsum([0, *map(len, pieces)], dtype=np.int64)  # (T + 1,)
        ends = _places(content, b"".join(pieces), ends)
        return Encoded(ids, ends[:-1], ends[1:])

    def encode_prompt(self, text: str) -> list[int]:
        """The ids of a prompt: BOS if the file asks for one, and the text's tokens. Raises the errors of `encode`."""
        return [*([] if self.bos_id is None else [self.bos_id]), *self.encode(text).ids]

    @functools.cached_property
    def special_names(self) -> Mapping[str, str]:
        """How `encode_rendered` spells each special token, by its text: a string that no text contains."""
        functions = llama_cpp()
        special = functions.LLAMA_TOKEN_ATTR_CONTROL | functions.LLAMA_TOKEN_ATTR_UNKNOWN
        attributes = functions.llama_vocab_get_attr
        every_id = range(self._network.vocab_size)
        special_ids = (token_id for token_id in every_id if attributes(self._vocabulary, token_id) & special)
        text_of = functools.partial(functions.llama_vocab_get_text, self._vocabulary)
        texts = {text_of(token_id).decode("utf-8", "replace"): token_id for token_id in special_ids}
        return {text: f"{self._mark}{token_id}{self._mark}" for text, token_id in texts.items() if text}

    def encode_rendered(self, text: str) -> list[int]:
        """The ids of a text in which the names of special tokens stand for these tokens: those that llama.cpp gives it
        with `parse_special`, which cuts a text at its special tokens too. Raises ModelError as `encode` does."""
        parts = re.split(f"{self._mark}([0-9]+){self._mark}", text)  # text, id, text, id, text
        ids: list[int] = []
        for index in range(0, len(parts), 2):
            plain = parts[index]
            if index and self._strips(int(parts[index - 1]), "RSTRIP"):
                plain = plain.lstrip(_BLANKS)
            if index + 1 < len(parts) and self._strips(int(parts[index + 1]), "LSTRIP"):
                plain = plain.rstrip(_BLANKS)
            ids += self._tokenize(_SURROGATE.sub("\ufffd", plain).encode())
            ids += map(int, parts[index + 1 : index + 2])
        return ids

    def _strips(self, token_id: int, side: str) -> bool:
        """Whether a special token takes the white space at its side with it."""
        functions = llama_cpp()
        attributes: int = functions.llama_vocab_get_attr(self._vocabulary, token_id)
        return bool(attributes & getattr(functions, f"LLAMA_TOKEN_ATTR_{side}"))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens."""
        pieces = [self._piece(int(token_id)) for token_id in ids if not self.is_silent(int(token_id))]
        return b"".join(pieces).decode("utf-8", "replace")

    def is_silent(self, token_id: int) -> bool:
        """Whether `decode` leaves a token out."""
        return bool(llama_cpp().llama_vocab_is_control(self._vocabulary, token_id))

    def token_text(self, token_id: int) -> str:
        """A token in readable form: `<0xE4>` for a byte that is not a character."""
        return readable(self._piece(token_id))

    def _tokenize(self, content: bytes) -> list[int]:
        if not content:
            return []
        if len(content) > _MAX_BYTES:
            raise ModelError(f"the text has {len(content):,} bytes, and llama.cpp tokenizes {_MAX_BYTES:,} at most")
        functions = llama_cpp()
        room = len(content) + 2  # a token has a byte or more, and a space may come before the text
        token_ids = (ctypes.c_int32 * room)()
        count = functions.llama_tokenize(self._vocabulary, content, len(content), token_ids, room, False, False)
        if count < 0:
            raise ModelError("llama.cpp makes more tokens of the text than it has bytes")
        return token_ids[:count]

    def _piece(self, token_id: int) -> bytes:
        """The bytes of text that a token stands for."""
        piece = self._pieces.get(token_id)
        if piece is None:
            piece = self._pieces[token_id] = self._read_piece(token_id, _PIECE_BYTES)
        return piece

    def _read_piece(self, token_id: int, room: int) -> bytes:
        buffer = ctypes.create_string_buffer(room)
        length = llama_cpp().llama_token_to_piece(self._vocabulary, token_id, buffer, room, 0, True)
        return buffer.raw[:length] if length >= 0 else self._read_piece(token_id, -length)


def _places(content: bytes, joined: bytes, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The boundaries of tokens in `content`, from those in the joined pieces. Raises ModelError where the two differ.

    SentencePiece's vocabularies put a space before a text, and write each space as `▁`: so it reads a `▁` of the text
    as a space.
    """
    if joined == content:
        return ends
    original = np.arange(len(content) + 1)
    if _WORD_START in content:
        # Each byte of the text with spaces for `▁`: where it stands in the text.
        content, original = _with_spaces(content)
    if joined == _SPACE + content:
        return original[np.maximum(ends - 1, 0)]
    if joined == content:
        return original[ends]
    raise ModelError(
        "the tokens that the model's vocabulary makes of the text do not join to it: the vocabulary lacks a character, "
        "or changes the text"
    )


def _with_spaces(content: bytes) -> tuple[bytes, NDArray[np.int64]]:
    """The text with a space for each `▁`, and the place in the text of each of its bytes and of its end."""
    parts = content.split(_WORD_START)
    starts = np.cumsum([0, *(len(part) + len(_WORD_START) for part in parts)])
    indices = [np.arange(start, start + len(part) + 1) for start, part in zip(starts[:-1], parts, strict=True)]
    return _SPACE.join(parts), np.concatenate(indices)
