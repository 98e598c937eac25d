"""
Messages to the ids of a prompt: the chat template makes a text of them, in which special tokens are special.

    messages      {"role": "user", "content": "Say <|im_end|>"}
    rendered      <|im_start|>user\nSay <|im_end|><|im_end|>\n
    ids           special   plain ...  plain     special

transformers would take both for the special token, so that a document could end its own message and begin one of the
system. Here only special tokens that the template writes are special; in a document they are plain text, as in every
other task. If no document contains one, the ids equal `apply_chat_template`'s.

There is one exception: in what an assistant said, a token that the template itself looks for is special, as the
`</think>` by which templates of Qwen3 and DeepSeek R1 leave old reasoning out. Hidden from the template, it would stay.

Knows: templates, tokenizers. Does not know: models.
"""

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
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
        self._sought = {name for name in self._names if any(name in text for text in template.sought)}
        # Put into a special token of a document, so that the rendered text does not contain the token: a noncharacter,
        # and a secret that no text can contain.
        self._mark = f"\ufdd1{secrets.token_hex(8)}\ufdd1"

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a prompt. Raises RenderError where the template refuses the messages, ModelError as the
        tokenizer's `encode` does."""
        if self._special is None:
            return self._tokenizer.encode_rendered(self._template.render(messages))
        marked = [Message(turn.role, self._special.sub(self._hiding(turn.role), turn.content)) for turn in messages]
        rendered = self._special.sub(lambda match: self._names[match[0]], self._template.render(marked))
        return self._tokenizer.encode_rendered(rendered.replace(self._mark, ""))

    def _hiding(self, role: str) -> Callable[[re.Match[str]], str]:
        return self._hidden_unless_sought if role == "assistant" else self._hidden

    def _hidden(self, match: re.Match[str]) -> str:
        return f"{match[0][0]}{self._mark}{match[0][1:]}"

    def _hidden_unless_sought(self, match: re.Match[str]) -> str:
        return match[0] if match[0] in self._sought else self._hidden(match)
