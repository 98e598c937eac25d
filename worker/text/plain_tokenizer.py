"""
The tokenizer of a seq2seq model without names of source languages: BART, Pegasus, T5, and MADLAD-400 with its labels.

    BART      <s> pieces </s>         both sides
    Pegasus   pieces </s>             both sides
    T5        pieces </s>             both sides
    MADLAD    <2de> pieces </s>       source; the label is part of the text that SentencePiece cuts

Encoding gives the ids of the class in transformers 4.57, with one intended difference: text is always plain text.

Knows: ids of pieces and of labels. Does not know: files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Self

from jobs.errors import SpecError
from worker.text.language_codes import find_language, some_languages
from worker.text.marian_tokenizer import TargetPiece
from worker.text.piece_cutter import CutPiece, PieceCutter
from worker.text.piece_splits import split_pieces
from worker.text.space_cleaning import clean_spaces


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTokenizer:
    """Immutable, so several lanes may share one."""

    cutter: PieceCutter
    eos_id: int
    before: tuple[int, ...] = ()  # the ids that a source and a target begin with
    labels: Mapping[str, str]  # of target languages, as text, by their codes; none: the model has one
    cleans_spaces: bool = False  # `clean_up_tokenization_spaces`
    source_language: ClassVar[None] = None

    @property
    def languages(self) -> frozenset[str]:
        """The target languages; none where there is but one, which has no name."""
        return frozenset(self.labels)

    def for_source(self, language: str) -> Self:
        """The tokenizer itself: it does not depend on the language of a text."""
        return self

    def check_language(self, language: str | None) -> None:
        """Raise SpecError unless this is a target language of the model (None: the model has a single one)."""
        self._label(language)

    def first_target_id(self, language: str | None) -> None:
        """None: generation forces no language."""

    def begin_target(self, language: str | None) -> tuple[int, ...]:
        """The ids that every target begins with."""
        return self.before

    def encode(self, text: str, language: str | None) -> list[int]:
        """The ids of a sentence."""
        label, pieces = self._cut(text, language)
        return self._wrap(label, [piece.id for piece in pieces])

    def shorten(self, ids: Sequence[int], max_tokens: int) -> list[int]:
        """The first ids of an encoded sentence, and its end."""
        return [*ids[: max_tokens - 1], self.eos_id] if len(ids) > max_tokens else list(ids)

    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]:
        """`encode`, split into lists of at most `max_tokens` ids, each with label and end; see `split_pieces`."""
        label, pieces = self._cut(text, language)
        room = max_tokens - len(self._wrap(label, []))
        if room < 1:
            raise SpecError(f"max_tokens is {max_tokens}; no piece fits between the beginning and the end")
        parts = split_pieces([piece.text for piece in pieces], room)
        return [self._wrap(label, [piece.id for piece in pieces[part]]) for part in parts]

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
        law) and any, for any target language."""
        ids = self.cutter.by_frequency()
        drawn = rng.choices(ids, [1 / (place + 1) for place in range(len(ids))], k=num_pieces)
        drawn[1::2] = rng.choices(ids, k=num_pieces // 2)
        label, _pieces = self._cut("", rng.choice(sorted(self.labels)) if self.labels else None)
        return self._wrap(label, drawn)

    def _cut(self, text: str, language: str | None) -> tuple[list[int], list[CutPiece]]:
        """The ids of the label, and the pieces of the text."""
        label = self._label(language)
        if not label:
            return [], self.cutter.cut(text)
        cut = self.cutter.cut(f"{label} {text}")
        end = len(label.encode())
        num_label = next((place for place, piece in enumerate(cut) if piece.stop > end), len(cut))
        return [piece.id for piece in cut[:num_label]], cut[num_label:]

    def _label(self, language: str | None) -> str:
        if language is None and self.labels:
            raise SpecError(f"this model has several target languages; choose one: {some_languages(self.labels)}")
        if language is not None and not self.labels:
            raise SpecError(
                f"this model has a single target language, and {language!r} was asked for: leave the target language "
                "out"
            )
        return "" if language is None else self.labels[find_language(language, self.labels, "target")]

    def _wrap(self, label: list[int], ids: list[int]) -> list[int]:
        return [*self.before, *label, *ids, self.eos_id]
