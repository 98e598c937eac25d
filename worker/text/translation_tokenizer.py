"""The tokenizer of a translation model, whatever its family. Does not know: how one encodes."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Protocol, Self

from worker.text.marian_tokenizer import MarianTokenizer, TargetPiece
from worker.text.multilingual_files import open_multilingual
from worker.text.tokenizer_files import read_object

_MULTILINGUAL = ("m2m_100", ["M2M100ForConditionalGeneration"])  # model_type and architectures of config.json


class TranslationTokenizer(Protocol):
    """Immutable, so several lanes may share one."""

    @property
    def eos_id(self) -> int: ...

    @property
    def languages(self) -> frozenset[str]:
        """The target languages; none where there is but one, which has no name."""

    @property
    def source_language(self) -> str | None:
        """The model's code of the language of sources; None where it makes no difference."""

    def for_source(self, language: str) -> Self:
        """The tokenizer for texts in a language. Raises SpecError where the model has no such language, or several."""

    def check_language(self, language: str | None) -> None:
        """Raise SpecError unless this is a target language of the model (None: the model has a single one)."""

    def first_target_id(self, language: str | None) -> int | None:
        """The id that every target in this language begins with; None: there is none."""

    def encode(self, text: str, language: str | None) -> list[int]:
        """The ids of a sentence, which is to be translated into a language, with all that surrounds them."""

    def shorten(self, ids: Sequence[int], max_tokens: int) -> list[int]:
        """The first ids of an encoded sentence, with all that surrounds them."""

    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]:
        """`encode`, split into lists of at most `max_tokens` ids."""

    def cut_target(self, text: str) -> list[TargetPiece]:
        """The pieces of a target sentence with their ids and places in the text; without all that surrounds them."""

    def target_piece(self, piece_id: int) -> str:
        """The text of a target piece, for messages."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of generated ids, without special ones."""

    def draw(self, rng: Random, num_pieces: int) -> list[int]:
        """The ids of a made-up sentence, for measuring a model."""


def open_translation_tokenizer(folder: Path) -> TranslationTokenizer:
    """Load the tokenizer of a model folder; raise ModelError that names the file at fault."""
    config = read_object(folder / "config.json", is_optional=True)
    is_multilingual = config.get("model_type") in _MULTILINGUAL or config.get("architectures") in _MULTILINGUAL
    return open_multilingual(folder) if is_multilingual else MarianTokenizer.open(folder)
