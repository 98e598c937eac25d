"""The tokenizers as tasks use them, and a check that one belongs to a model. Does not know: vocabulary files."""

from collections.abc import Sequence
from typing import Protocol, Self

from jobs.corpus.messages import Message
from jobs.errors import ModelError, SpecError
from worker.engine.causal.protocol import CausalModel
from worker.text.causal_tokenizer import Encoded
from worker.text.translation.sentence_pieces import TargetBeginning, TargetPiece


class TranslationTokenizer(Protocol):
    """The tokenizer of a translation model, to translate: source texts to ids, generated ids to text. See
    `worker.text.translation.translation_tokenizer`."""

    @property
    def source_language(self) -> str | None: ...
    def for_source(self, language: str) -> Self: ...
    def beginning(self, language: str | None) -> TargetBeginning: ...
    def check_language(self, language: str | None) -> None: ...
    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]: ...
    def unknown_share(self, text: str) -> float: ...
    def decode(self, ids: Sequence[int]) -> str: ...


class PairTokenizer(Protocol):
    """The tokenizer of a translation model, to score pairs: source texts and target texts to ids. See
    `worker.text.translation.translation_tokenizer`."""

    @property
    def eos_id(self) -> int: ...
    def for_source(self, language: str) -> Self: ...
    def beginning(self, language: str | None) -> TargetBeginning: ...
    def target_prefix(self, language: str | None) -> tuple[int, ...]: ...
    def shorten(self, ids: Sequence[int], max_tokens: int) -> list[int]: ...
    def check_language(self, language: str | None) -> None: ...
    def encode(self, text: str, language: str | None) -> list[int]: ...
    def cut_target(self, text: str) -> list[TargetPiece]: ...
    def target_piece(self, piece_id: int) -> str: ...


class TextTokenizer(Protocol):
    """The tokenizer of a causal language model: a text to its tokens, without BOS or EOS, and a token to its text."""

    bos_id: int | None
    eos_id: int | None

    @property
    def max_id(self) -> int: ...
    def encode(self, text: str) -> Encoded: ...
    def token_text(self, token_id: int) -> str: ...


class PromptTokenizer(Protocol):
    """The tokenizer of a causal language model, to continue prompts: a text to the ids that the model reads, and ids to
    text."""

    eos_id: int | None

    @property
    def max_id(self) -> int: ...
    def encode_prompt(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def is_silent(self, token_id: int) -> bool: ...


class MessageTokenizer(Protocol):
    """The chat template of a causal language model, with its tokenizer: messages to the ids that the model reads."""

    def encode(self, messages: Sequence[Message]) -> list[int]: ...


class Vocabulary(Protocol):
    """The ids of a tokenizer."""

    @property
    def max_id(self) -> int: ...


def check_vocabulary(tokenizer: Vocabulary, model: CausalModel) -> None:
    """Raise ModelError if the tokenizer has ids that the model does not have."""
    if tokenizer.max_id >= model.vocab_size:
        raise ModelError(
            f"the tokenizer gives ids up to {tokenizer.max_id}, but the model has {model.vocab_size} tokens: "
            "tokenizer.json and the graphs belong to different models"
        )


def sequence_limit(model: CausalModel, max_length: int | None) -> int:
    """Tokens of the longest sequence; `max_length` None: as many as the model reads. Raises SpecError for more."""
    if max_length is None:
        return model.max_positions
    if max_length > model.max_positions:
        raise SpecError(
            f"max_length is {max_length}, but the model takes at most {model.max_positions} tokens: lower --max-length"
        )
    return max_length
