"""
The tokenizer of T5 and its kin, which are told in words or by a piece before the text what to do with it.

    source   prefix pieces </s>      <2de> in MADLAD-400, `translate English to German: ` in T5, nothing in others
    target   pieces </s>             the decoder's start token comes before

Prefix and text are cut together, as transformers' users do it. Encoding gives the ids of the class in transformers
4.57, with one intended difference: text is always plain text.

Knows: ids of pieces and prefixes. Does not know: files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import ClassVar, Self

from jobs.errors import SpecError
from worker.text.translation.language_codes import find_language, some_languages
from worker.text.translation.piece_cutter import CutPiece
from worker.text.translation.piece_tokenizer import PieceTokenizer
from worker.text.translation.sentence_pieces import TargetBeginning, draw_ids, split_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTokenizer(PieceTokenizer):
    """Immutable, so several lanes may share one."""

    prefixes: Mapping[str, str] = field(default_factory=dict)  # target language -> prefix, with its trailing space
    sources: frozenset[str] = frozenset()  # the languages that the prefixes translate from; none: any
    needs_language: bool = False  # without a prefix a text has no meaning for the model
    text_language: str | None = None  # the language of the texts; None: not given
    source_language: ClassVar[None] = None  # a model does not name it

    @property
    def languages(self) -> frozenset[str]:
        """The target languages that there is a prefix for."""
        return frozenset(self.prefixes)

    def for_source(self, language: str) -> Self:
        """The tokenizer for texts in a language. Whether a prefix translates from it shows with the target language."""
        return replace(self, text_language=language)

    def check_language(self, language: str | None) -> None:
        """Raise SpecError unless there is a prefix for this target language; None: texts get no prefix."""
        self._prefix(language)

    def beginning(self, language: str | None) -> TargetBeginning:
        """The beginning that the model's settings define: no language is part of a target."""
        return TargetBeginning()

    def begin_target(self, language: str | None) -> tuple[int, ...]:
        """Empty: a target begins with its first piece."""
        return ()

    def encode(self, text: str, language: str | None) -> list[int]:
        """The ids of a sentence."""
        before, pieces = self._cut(text, language)
        return [*before, *(piece.id for piece in pieces), self.eos_id]

    def shorten(self, ids: Sequence[int], max_tokens: int) -> list[int]:
        """The first ids of an encoded sentence, and its end."""
        return [*ids[: max_tokens - 1], self.eos_id] if len(ids) > max_tokens else list(ids)

    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]:
        """`encode`, split into lists of at most `max_tokens` ids, each with the prefix and the end."""
        before, pieces = self._cut(text, language)
        return split_ids(pieces, max_tokens, lambda ids: [*before, *ids, self.eos_id], "the prefix and the end")

    def draw(self, rng: Random, num_pieces: int) -> list[int]:
        """The ids of a made-up sentence, for measuring a model: `num_pieces` pieces, alternately drawn by Zipf's law
        and uniformly, after a random prefix."""
        before = self._cut("", rng.choice(sorted(self.prefixes)))[0] if self.prefixes else []
        return [*before, *draw_ids(rng, self.cutter.by_frequency(), num_pieces), self.eos_id]

    def _cut(self, text: str, language: str | None) -> tuple[list[int], list[CutPiece]]:
        """The ids of the prefix, and the pieces of the text. A piece that begins in the space between is the text's."""
        prefix = self._prefix(language)
        pieces = self.cutter.cut(prefix + text)
        end = len(prefix.rstrip().encode())
        number = next((index for index, piece in enumerate(pieces) if piece.stop > end), len(pieces))
        return [piece.id for piece in pieces[:number]], pieces[number:]

    def _prefix(self, language: str | None) -> str:
        if language is not None and self.prefixes:
            if self.sources and self.text_language is not None:
                find_language(self.text_language, self.sources, "source")
            return self.prefixes[find_language(language, self.prefixes, "target")]
        if language is not None:
            raise SpecError(
                f"this model names no target languages, and {language!r} was asked for: leave the target language out; "
                "if the model was trained with words before the text, put them into the documents"
            )
        if self.needs_language:
            raise SpecError(f"this model has several target languages; choose one: {some_languages(self.prefixes)}")
        return ""
