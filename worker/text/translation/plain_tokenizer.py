"""
The tokenizer of a seq2seq model without names of languages: BART and Pegasus.

    BART      <s> pieces </s>
    Pegasus   pieces </s>         sources and targets alike

Encoding gives the ids of the class in transformers 4.57, with one intended difference: text is always plain text.

Knows: ids of pieces. Does not know: files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Self

from jobs.errors import SpecError
from worker.text.translation.marian_tokenizer import TargetPiece
from worker.text.translation.piece_cutter import PieceCutter
from worker.text.translation.piece_splits import split_pieces
from worker.text.translation.space_cleaning import clean_spaces


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTokenizer:
    """Immutable, so several lanes may share one."""

    cutter: PieceCutter
    eos_id: int
    before: tuple[int, ...] = ()  # the ids that a source and a target begin with
    cleans_spaces: bool = False  # `clean_up_tokenization_spaces`
    source_language: ClassVar[None] = None
    languages: ClassVar[frozenset[str]] = frozenset()

    def for_source(self, language: str) -> Self:
        """The tokenizer itself: it does not depend on the language of a text."""
        return self

    def check_language(self, language: str | None) -> None:
        """Raise SpecError for any language: the model has a single one, which has no name."""
        if language is not None:
            raise SpecError(
                f"this model has a single target language, and {language!r} was asked for: leave the target language "
                "out"
            )

    def first_target_id(self, language: str | None) -> None:
        """None: generation forces no language."""

    def begin_target(self, language: str | None) -> tuple[int, ...]:
        """The ids that every target begins with."""
        return self.before

    def encode(self, text: str, language: str | None) -> list[int]:
        """The ids of a sentence."""
        self.check_language(language)
        return self._wrap([piece.id for piece in self.cutter.cut(text)])

    def shorten(self, ids: Sequence[int], max_tokens: int) -> list[int]:
        """The first ids of an encoded sentence, and its end."""
        return [*ids[: max_tokens - 1], self.eos_id] if len(ids) > max_tokens else list(ids)

    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]:
        """`encode`, split into lists of at most `max_tokens` ids, each with its ends; see `split_pieces`."""
        room = max_tokens - len(self._wrap([]))
        if room < 1:
            raise SpecError(f"max_tokens is {max_tokens}; no piece fits between the beginning and the end")
        pieces = self.cutter.cut(text)
        parts = split_pieces([piece.text for piece in pieces], room)
        return [self._wrap([piece.id for piece in pieces[part]]) for part in parts]

    def cut_target(self, text: str) -> list[TargetPiece]:
        """The pieces of a target sentence with their ids and places in the text; without beginning and EOS."""
        return [TargetPiece(piece.id, piece.start, piece.stop) for piece in self.cutter.cut(text)]

    def target_piece(self, piece_id: int) -> str:
        """The text of a target piece, for messages."""
        return self.cutter.piece(piece_id)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of generated ids. Special ids and those without a piece are dropped."""
        text = self.cutter.join(ids)
        return clean_spaces(text) if self.cleans_spaces else text

    def draw(self, rng: Random, num_pieces: int) -> list[int]:
        """The ids of a made-up sentence, for measuring a model: so many pieces, by turns one of the frequent (Zipf's
        law) and any."""
        ids = self.cutter.by_frequency()
        drawn = rng.choices(ids, [1 / (place + 1) for place in range(len(ids))], k=num_pieces)
        drawn[1::2] = rng.choices(ids, k=num_pieces // 2)
        return self._wrap(drawn)

    def _wrap(self, ids: list[int]) -> list[int]:
        return [*self.before, *ids, self.eos_id]
