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
from worker.text.translation.piece_tokenizer import PieceTokenizer
from worker.text.translation.sentence_pieces import TargetBeginning, draw_ids, split_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTokenizer(PieceTokenizer):
    """Immutable, so several lanes may share one."""

    before: tuple[int, ...] = ()  # the ids that a source and a target begin with
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

    def beginning(self, language: str | None) -> TargetBeginning:
        """The beginning that the model's settings define: no language is part of a target."""
        return TargetBeginning()

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
        """`encode`, split into lists of at most `max_tokens` ids, each with its ends (`split_pieces`)."""
        return split_ids(self.cutter.cut(text), max_tokens, self._wrap, "the beginning and the end")

    def draw(self, rng: Random, num_pieces: int) -> list[int]:
        """The ids of a made-up sentence, for measuring a model: `num_pieces` pieces, alternately drawn by Zipf's law
        and uniformly."""
        drawn = draw_ids(rng, self.cutter.by_frequency(), num_pieces)
        return self._wrap(drawn)

    def _wrap(self, ids: list[int]) -> list[int]:
        return [*self.before, *ids, self.eos_id]
