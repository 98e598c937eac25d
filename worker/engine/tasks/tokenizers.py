"""What tasks ask of a tokenizer, and whether it belongs to a model. Does not know: files of vocabularies."""

from collections.abc import Sequence
from typing import Protocol

from jobs.errors import ModelError
from worker.engine.causal.protocol import CausalModel
from worker.text.causal_tokenizer import Encoded
from worker.text.marian_tokenizer import TargetPiece


class TranslationTokenizer(Protocol):
    """Of a translation model: source texts to ids, generated ids to text."""

    def check_language(self, language: str | None) -> None: ...
    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]: ...
    def decode(self, ids: Sequence[int]) -> str: ...


class PairTokenizer(Protocol):
    """Of a translation model: texts of either side to ids."""

    @property
    def eos_id(self) -> int: ...
    def check_language(self, language: str | None) -> None: ...
    def encode(self, text: str, language: str | None) -> list[int]: ...
    def cut_target(self, text: str) -> list[TargetPiece]: ...
    def target_piece(self, piece_id: int) -> str: ...


class TextTokenizer(Protocol):
    """Of a causal language model: a text to its tokens, none added, and a token to its text."""

    bos_id: int | None
    eos_id: int | None

    @property
    def max_id(self) -> int: ...
    def encode(self, text: str) -> Encoded: ...
    def token_text(self, token_id: int) -> str: ...


def check_vocabulary(tokenizer: TextTokenizer, model: CausalModel) -> None:
    """Raise ModelError where the tokenizer makes ids that the model does not have."""
    if tokenizer.max_id >= model.vocab_size:
        raise ModelError(
            f"the tokenizer gives ids up to {tokenizer.max_id}, but the model knows {model.vocab_size}: "
            "tokenizer.json and the graphs belong to different models"
        )
