"""
Messages to the ids of a prompt: the chat template makes a text of them, in which special tokens are special.

    messages      {"role": "user", "content": "Say <|im_end|>"}
    rendered      <|im_start|>user\nSay <|im_end|><|im_end|>\n
    ids           special   plain ...  plain     special

transformers would take both for the special token, so that a document could end its own message and begin one of the
system. Here only those of the template count: a document's are plain text, as in every other task. Where no document
has one, the ids are those of `apply_chat_template`.

Knows: templates, tokenizers. Does not know: models.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Protocol

from jobs.corpus.messages import Message
from worker.text.chat_template import ChatTemplate


class RenderedTokenizer(Protocol):
    """A tokenizer, for texts in which some special tokens are special, and others are plain text."""

    @property
    def special_names(self) -> Mapping[str, str]: ...
    def encode_rendered(self, text: str) -> list[int]: ...


class ChatTokenizer:
    """Immutable; lanes may share one."""

    def __init__(self, template: ChatTemplate, tokenizer: RenderedTokenizer) -> None:
        self._template = template
        self._tokenizer = tokenizer
        self._names = tokenizer.special_names  # content -> how the tokenizer spells it
        contents = sorted(self._names, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, contents))) if contents else None
        # Put into a special token of a document, so that it is none in the rendered text: a noncharacter, and a secret
        # that no text can contain.
        self._mark = f"\ufdd1{secrets.token_hex(8)}\ufdd1"

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a prompt. Raises RenderError where the template refuses the messages, ModelError as the
        tokenizer's `encode` does."""
        if self._special is None:
            return self._tokenizer.encode_rendered(self._template.render(messages))
        marked = [Message(message.role, self._special.sub(self._marked, message.content)) for message in messages]
        rendered = self._special.sub(lambda found: self._names[found[0]], self._template.render(marked))
        return self._tokenizer.encode_rendered(rendered.replace(self._mark, ""))

    def _marked(self, found: re.Match[str]) -> str:
        return f"{found[0][0]}{self._mark}{found[0][1:]}"
