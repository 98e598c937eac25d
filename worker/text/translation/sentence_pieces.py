"""The pieces of a sentence as a translation model takes them, whatever surrounds them: where too many are split, and
how much of a sentence a vocabulary lacks."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Self

from jobs.errors import SpecError
from worker.text.translation.piece_cutter import CutPiece, PieceCutter

_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD_START = "▁"  # how SentencePiece writes a space
_BEFORE_MARKS = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")


SourceSpan = tuple[int, int] | None  # start and stop in UTF-8 bytes; None: of no part of the text


@dataclass(frozen=True, slots=True)
class TargetPiece:
    """A piece of a target text with start and stop in UTF-8 bytes. If several pieces make up one character, all but the
    last have an empty span."""

    id: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class TargetBeginning:
    """The ids with which a generated target begins because of its language."""

    start_id: int | None = None  # the decoder's start token; None: the model's own
    forced_id: int | None = None  # the first token; None: the model chooses it


def split_ids(
    pieces: Sequence[CutPiece], max_tokens: int, wrap: Callable[[list[int]], list[int]], around: str
) -> list[list[int]]:
    """The ids of a sentence in lists of at most `max_tokens`, each wrapped (`split_pieces`).

    `around` names what `wrap` adds, for the SpecError that is raised where no piece fits between.
    """
    room = max_tokens - len(wrap([]))
    if room < 1:
        raise SpecError(f"max_tokens is {max_tokens}; no piece fits between {around}")
    parts = split_pieces([piece.text for piece in pieces], room)
    return [wrap([piece.id for piece in pieces[part]]) for part in parts]


def spans_of(pieces: Iterable[CutPiece], offset: int = 0) -> list[SourceSpan]:
    """The spans of pieces in a text that begins `offset` bytes behind what was cut."""
    return [(max(piece.start + offset, 0), max(piece.stop + offset, 0)) for piece in pieces]


def draw_ids(rng: Random, by_frequency: Sequence[int], num_pieces: int) -> list[int]:
    """Draw `num_pieces` ids, alternately by Zipf's law and uniformly; `by_frequency`: the most frequent first."""
    drawn = rng.choices(by_frequency, [1 / (rank + 1) for rank in range(len(by_frequency))], k=num_pieces)
    drawn[1::2] = rng.choices(by_frequency, k=num_pieces // 2)
    return drawn


def share_of_characters(text: str, spans: Iterable[tuple[int, int]]) -> float:
    """The share of a text's characters, white space aside, that lie in these spans (start and stop in UTF-8 bytes); 0
    for a text without characters.

    Characters and not tokens: SentencePiece makes one unknown token of any number of unknown characters in a row, so a
    whole sentence in Thai is one of two tokens.
    """
    listed = list(spans)
    if not listed:
        return 0.0
    content = _SURROGATE.sub("\ufffd", text).encode()
    unknown = sum(_num_characters(content[start:stop]) for start, stop in listed)
    return min(unknown / max(_num_characters(content), 1), 1.0)


def _num_characters(content: bytes) -> int:
    return sum(not character.isspace() for character in content.decode(errors="ignore"))


def split_pieces(pieces: Sequence[str], room: int) -> list[slice]:
    """Split pieces into parts of at most `room` pieces.

    Split where a word starts; else after a punctuation mark; else anywhere. room 4:

        ▁a b ▁c d e f g        ->   ▁a b · ▁c d e f · g
    """
    parts = []
    start = 0
    while start < len(pieces) - room:
        end = _last_cut(pieces, start, start + room)
        parts.append(slice(start, end))
        start = end
    return [*parts, slice(start, len(pieces))]


def _last_cut(pieces: Sequence[str], start: int, end: int) -> int:
    """The best index in the second half of pieces[start:end] to split at; `end` if none is better."""
    middle = start + (end - start) // 2
    for cut in range(end, middle, -1):
        if pieces[cut].startswith(_WORD_START):
            return cut
    for cut in range(end, middle, -1):
        if unicodedata.category(pieces[cut - 1][-1]).startswith("P"):
            return cut
    return end


class UntoldTargets:
    """What tokenizers share in which no id names a language: they do not depend on the language of a text, a target
    begins as the model's settings say, and a sentence that is shortened keeps its last id, EOS."""

    __slots__ = ()
    eos_id: int

    def for_source(self, language: str) -> Self:
        return self

    def beginning(self, language: str | None) -> TargetBeginning:
        return TargetBeginning()

    def target_prefix(self, language: str | None) -> tuple[int, ...]:
        return ()

    def shorten(self, ids: Sequence[int], max_tokens: int) -> list[int]:
        return [*ids[: max_tokens - 1], self.eos_id] if len(ids) > max_tokens else list(ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceTokenizer:
    """What the tokenizers of all seq2seq models but Marian's share: how targets are cut and generated ids decoded."""

    cutter: PieceCutter
    eos_id: int
    cleans_spaces: bool = False  # `clean_up_tokenization_spaces`

    def cut_target(self, text: str) -> list[TargetPiece]:
        return [TargetPiece(piece.id, piece.start, piece.stop) for piece in self.cutter.cut(text)]

    def unknown_share(self, text: str) -> float:
        """The share of a sentence's characters that the vocabulary lacks."""
        unk_id = self.cutter.unk_id
        unknown = ((piece.start, piece.stop) for piece in self.cutter.cut(text) if piece.id == unk_id)
        return share_of_characters(text, unknown)

    def target_piece(self, piece_id: int) -> str:
        return self.cutter.piece(piece_id)

    def target_pieces(self) -> Iterator[tuple[int, str]]:
        return ((piece_id, self.cutter.piece(piece_id)) for piece_id in self.cutter.by_frequency())

    def decode(self, ids: Sequence[int]) -> str:
        """The text of generated ids. Special ones (languages, EOS, padding, `<unk>`) and those without a piece are
        dropped."""
        text = self.cutter.join(ids)
        return _clean_spaces(text) if self.cleans_spaces else text


def _clean_spaces(text: str) -> str:
    """As `clean_up_tokenization` of transformers (tokenization_utils_base.py)."""
    for mark in _BEFORE_MARKS:
        text = text.replace(mark, mark.replace(" ", ""))
    return text
