"""The tokenizers of causal models as tasks use them, and whether one belongs to a model."""

from collections.abc import Sequence
from typing import Protocol

from jobs.corpus.messages import Message
from jobs.errors import ModelError, SpecError
from worker.engine.causal.protocol import CausalModel
from worker.text.causal_tokenizer import Encoded


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
