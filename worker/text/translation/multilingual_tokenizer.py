"""
The tokenizer of a model of many languages: M2M100, NLLB-200, mBART-50, mBART-25.

    source   [source language] pieces </s>    or, in mBART-25 and NLLB's legacy behaviour, pieces </s> [source language]
    target   [target language] pieces </s>    the decoder's start token comes before; the language is given
             pieces </s>                      mBART-25, where the language is the decoder's start token

Encoding gives the ids of the class in transformers 4.57, with one intended difference: text is always plain text.
`</s>` and `__fr__` inside a document are tokenized like any other characters.

Knows: ids of pieces and of languages. Does not know: files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Self

from jobs.errors import SpecError
from worker.text.translation.language_codes import find_language, some_languages
from worker.text.translation.piece_tokenizer import PieceTokenizer
from worker.text.translation.sentence_pieces import TargetBeginning, draw_ids, split_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class MultilingualTokenizer(PieceTokenizer):
    """Immutable, so several lanes may share one."""

    language_ids: Mapping[str, int]  # by the model's own codes
    source_language: str | None = None  # one of the model's codes; None: not chosen yet
    given_language: str | None = None  # the target language that the model's own settings force
    language_is_last: bool = False  # of a source: behind its end
    language_is_start: bool = False  # of a target: the decoder's start token

    @property
    def languages(self) -> frozenset[str]:
        """The target languages, which are the source languages too."""
        return frozenset(self.language_ids)

    def for_source(self, language: str) -> Self:
        """The tokenizer for texts in a language; raise SpecError where the model has no such language, or several."""
        return replace(self, source_language=find_language(language, self.language_ids, "source"))

    def check_language(self, language: str | None) -> None:
        """Raise SpecError unless `language` is a target language of the model; None means the one in the model's
        settings."""
        self._target(language)

    def beginning(self, language: str | None) -> TargetBeginning:
        """The target language, fed first or forced as the first token."""
        language_id = self.language_ids[self._target(language)]
        if self.language_is_start:
            return TargetBeginning(start_id=language_id)
        return TargetBeginning(forced_id=language_id)

    def begin_target(self, language: str | None) -> tuple[int, ...]:
        """The language, where it is part of the target."""
        forced = self.beginning(language).forced_id
        return () if forced is None else (forced,)

    def encode(self, text: str, language: str | None) -> list[int]:
        """The ids of a sentence."""
        return self._wrap([piece.id for piece in self.cutter.cut(text)])

    def shorten(self, ids: Sequence[int], max_tokens: int) -> list[int]:
        """The first ids of an encoded sentence, with its language and end."""
        _before, behind = self._ends()
        return [*ids[: max_tokens - len(behind)], *behind] if len(ids) > max_tokens else list(ids)

    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]:
        """`encode`, split into lists of at most `max_tokens` ids, each with language and end (`split_pieces`)."""
        return split_ids(self.cutter.cut(text), max_tokens, self._wrap, "the language and the end")

    def draw(self, rng: Random, num_pieces: int) -> list[int]:
        """The ids of a made-up sentence, for measuring a model: `num_pieces` pieces, alternately drawn by Zipf's law
        and uniformly, in a random language."""
        drawn = draw_ids(rng, self.cutter.by_frequency(), num_pieces)
        return replace(self, source_language=rng.choice(sorted(self.language_ids)))._wrap(drawn)

    def _target(self, language: str | None) -> str:
        if language is not None:
            return find_language(language, self.language_ids, "target")
        if self.given_language is None:
            raise SpecError(f"this model has several target languages; choose one: {some_languages(self.language_ids)}")
        return self.given_language

    def _wrap(self, ids: list[int]) -> list[int]:
        before, behind = self._ends()
        return [*before, *ids, *behind]

    def _ends(self) -> tuple[list[int], list[int]]:
        """The ids before the pieces of a source, and the ids after them."""
        if self.source_language is None:
            raise SpecError(f"this model has several source languages; choose one: {some_languages(self.language_ids)}")
        language = self.language_ids[self.source_language]
        return ([], [self.eos_id, language]) if self.language_is_last else ([language], [self.eos_id])
