"""
The prompt of Qwen3-Reranker, which a causal model answers with yes or no.

    <|im_start|>system ... answer can only be "yes" or "no".<|im_end|> <|im_start|>user        head
    <Instruct>: ... <Query>: {query} <Document>: {document}                                    body, the template
    <|im_end|> <|im_start|>assistant <think> </think>                                          tail

Prompt, the three parts that are tokenized one by one, and the cut at the end of the body: Qwen3-Reranker's model card
(Zhang et al. 2025, arXiv:2506.05176). Texts are plain text: `<|im_end|>` in a document does not end the message.

Knows: the tokenizer of a causal model. Does not know: models, scores.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jobs.errors import SpecError
from jobs.tasks.rerank import Method
from worker.text.causal_tokenizer import Encoded
from worker.text.chat_template import RenderedTokenizer

BODY = (
    "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
    "<Query>: {query}\n"
    "<Document>: {document}"
)
_START, _END = "<|im_start|>", "<|im_end|>"
_HEAD = (
    f"{_START}system\n"
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the "
    f'answer can only be "yes" or "no".{_END}\n'
    f"{_START}user\n"
)
_TAIL = f"{_END}\n{_START}assistant\n<think>\n\n</think>\n\n"
_PLACEHOLDER = re.compile(r"(\{query\}|\{document\})")


class YesNoTokenizer(RenderedTokenizer, Protocol):
    """The tokenizer of a causal language model, for a prompt in which some special tokens are special."""

    @property
    def max_id(self) -> int: ...
    def encode(self, text: str) -> Encoded: ...
    def token_text(self, token_id: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """The ids of a query with a document."""

    ids: Sequence[int]
    is_cut: bool  # whether the end of the body was cut to fit


class YesNoPrompt:
    """Makes prompts of `max_length` tokens at most."""

    def __init__(self, tokenizer: YesNoTokenizer, body: str, max_length: int) -> None:
        """`body`: with {query} and {document}. Raises SpecError where the tokenizer lacks a token of the prompt, or a
        sequence has no room for the body."""
        self._tokenizer = tokenizer
        self._parts = _PLACEHOLDER.split(body)
        self._head, self._tail = (_encode_special(tokenizer, text) for text in (_HEAD, _TAIL))
        self._room = max_length - len(self._head) - len(self._tail)
        if self._room < 1:
            raise SpecError(
                f"max_length is {max_length}, and the prompt of the method {Method.YES_NO} alone has "
                f"{len(self._head) + len(self._tail)} tokens: raise --max-length"
            )
        self.yes, self.no = (_answer(tokenizer, word) for word in ("yes", "no"))

    def make(self, query: str, document: str) -> Prompt:
        """The prompt. Raises ModelError for a text that the tokenizer cannot encode."""
        body = self._body(query, document)
        return Prompt([*self._head, *body[: self._room], *self._tail], len(body) > self._room)

    def whole(self, query: str, document: str) -> list[int]:
        """The ids of the prompt without a cut."""
        return [*self._head, *self._body(query, document), *self._tail]

    def _body(self, query: str, document: str) -> list[int]:
        texts = {"{query}": query, "{document}": document}
        return self._tokenizer.encode("".join(texts.get(part, part) for part in self._parts)).ids


def _encode_special(tokenizer: YesNoTokenizer, text: str) -> list[int]:
    names = tokenizer.special_names
    for content in (_START, _END):
        if content not in names:
            raise SpecError(_refusal(f"no special token {content}"))
        text = text.replace(content, names[content])
    return tokenizer.encode_rendered(text)


def _answer(tokenizer: YesNoTokenizer, word: str) -> int:
    """The token that is the word, as `convert_tokens_to_ids` finds it."""
    ids = tokenizer.encode(word).ids
    if len(ids) != 1 or tokenizer.token_text(ids[0]) != word:
        raise SpecError(_refusal(f"no token {word!r}"))
    return ids[0]


def _refusal(lacks: str) -> str:
    return (
        f"the model's tokenizer has {lacks}, and the method {Method.YES_NO} asks as Qwen3-Reranker is asked: name such "
        f"a model, or use --method {Method.QUERY_LIKELIHOOD}"
    )
