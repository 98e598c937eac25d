"""The tokenizer of a translation model, whatever its family. Does not know: how a family encodes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Protocol, Self

from worker.graphs.architectures import BART, M2M100, MBART, MT5, PEGASUS, SEQ2SEQ_ARCHITECTURES, T5, architecture_of
from worker.text.tokenizer_files import read_object
from worker.text.translation.marian_tokenizer import MarianTokenizer
from worker.text.translation.multilingual_tokenizer import open_multilingual
from worker.text.translation.plain_tokenizer import open_plain
from worker.text.translation.prefix_tokenizer import open_prefixed
from worker.text.translation.sentence_pieces import SourceSpan, TargetBeginning, TargetPiece

_MULTILINGUAL, _PLAIN, _PREFIXED = (M2M100, MBART), (BART, PEGASUS), (T5, MT5)


class Seq2SeqTokenizer(Protocol):
    """Immutable, so several lanes may share one."""

    @property
    def eos_id(self) -> int: ...

    @property
    def languages(self) -> frozenset[str]:
        """The target languages; none where there is but one, which has no name."""

    @property
    def source_language(self) -> str | None:
        """The model's code for the language of sources; None if encoding does not depend on it."""

    def for_source(self, language: str) -> Self:
        """The tokenizer for texts in a language. Raises SpecError where the model has no such language, or several."""

    def check_language(self, language: str | None) -> None:
        """Raise SpecError unless this is a target language of the model (None: the model has a single one)."""

    def beginning(self, language: str | None) -> TargetBeginning:
        """How a generated target in this language begins."""

    def target_prefix(self, language: str | None) -> tuple[int, ...]:
        """The ids that an encoded target begins with, whether or not generation forces them."""

    def encode(self, text: str, language: str | None) -> list[int]:
        """The ids of a sentence that is to be translated into `language`, with EOS and the language's token or
        prefix."""

    def shorten(self, ids: Sequence[int], max_tokens: int) -> list[int]:
        """The first `max_tokens` ids of an encoded sentence; EOS, language and prefix are kept."""

    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]:
        """`encode`, split into lists of at most `max_tokens` ids."""

    def unknown_share(self, text: str) -> float:
        """The share of a sentence's characters that the vocabulary lacks, 0 to 1 (`share_of_characters`)."""

    def source_spans(self, text: str, language: str | None) -> list[SourceSpan]:
        """Where each id of `encode` stands in the text, in UTF-8 bytes; None: the end, a language, a prefix."""

    def cut_target(self, text: str) -> list[TargetPiece]:
        """The pieces of a target sentence with their ids and spans in the text; without EOS and language."""

    def target_piece(self, piece_id: int) -> str:
        """The text of a target piece, for messages."""

    def target_pieces(self) -> Iterator[tuple[int, str]]:
        """Each id of a target text with its piece: ▁ or Ġ, or neither, for a space."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of generated ids, without special ones."""

    def draw(self, rng: Random, num_pieces: int) -> list[int]:
        """The ids of a made-up sentence, for measuring a model."""


def open_translation_tokenizer(folder: Path) -> Seq2SeqTokenizer:
    """Load the tokenizer of a model folder; raise ModelError that names the file at fault."""
    config = read_object(folder / "config.json", is_optional=True)
    family = config.get("model_type")  # exports of classes without native graphs have one too
    if family not in SEQ2SEQ_ARCHITECTURES.values():
        family = architecture_of(config)
    if family in _MULTILINGUAL:
        return open_multilingual(folder)
    if family in _PREFIXED:
        return open_prefixed(folder)
    return open_plain(folder, family) if family in _PLAIN else MarianTokenizer.open(folder)
