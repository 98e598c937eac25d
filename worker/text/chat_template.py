"""
The chat template of a model: messages to the text of a prompt, as transformers renders it.

Knows: chat_template.jinja, tokenizer_config.json and their rules in transformers 4.57 (tokenization_utils_base.py,
`_from_pretrained`; utils/chat_template_utils.py). Does not know: ids.

A template is a program in a file that somebody else wrote, so it runs in jinja2's sandbox: it sees the messages and the
names of special tokens, and cannot change them, open files or import modules, nor run for long
(worker/text/template_environment.py). It may ask for today's date (`strftime_now`): then a prompt depends on the day.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import jinja2
from jinja2 import nodes

from jobs.corpus.messages import Message, begins_answer
from jobs.errors import ModelError
from worker.text.file_names import CHAT_TEMPLATE
from worker.text.special_tokens import named_token
from worker.text.template_environment import TemplateEnvironment, bounded_run
from worker.text.tokenizer_files import read_object

MAX_CHARACTERS = 1 << 17  # of a template, read in seconds; templates of published models have up to 20,000
_DEFAULT = "default"  # of several templates
# Put after the beginning of an answer, to find its end in the prompt: a mark that no text contains, and a space.
_END = f"\ufdd2{secrets.token_hex(8)}\ufdd2 "
# The variables of a template, beside the messages.
_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class RenderError(ModelError):
    """The template refuses the messages, or fails."""


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """Immutable; lanes may share one."""

    file: Path
    compiled: jinja2.Template
    tokens: Mapping[str, str]  # special tokens by the name of their variable
    sought: frozenset[str]  # texts that the template looks for in messages, such as </think>

    @classmethod
    def open(cls, folder: Path) -> Self | None:
        """The template of a model folder; None where there is none. Raises ModelError for one that is damaged."""
        file, source = _source(folder)
        if source is None:
            return None
        config = read_object(folder / "tokenizer_config.json", is_optional=True)
        named = {name: named_token(folder, config, name) for name in _TOKENS}
        return cls.of(file, source, {name: token.content for name, token in named.items() if token})

    @classmethod
    def of(cls, file: Path, source: str, tokens: Mapping[str, str]) -> Self:
        """The template that `file` holds. Raises ModelError for one that is damaged."""
        if len(source) > MAX_CHARACTERS:
            raise ModelError(f"the chat template in {file} has {len(source):,} characters; at most {MAX_CHARACTERS:,}")
        try:
            environment = TemplateEnvironment()
            with bounded_run():
                parsed = environment.parse(source)
                sought = frozenset(_sought(parsed))
                return cls(file, environment.compile_bounded(parsed), tokens, sought)
        except (jinja2.TemplateError, RecursionError) as error:
            raise ModelError(f"the chat template in {file} cannot be read: {error}") from error

    def render(self, messages: Sequence[Message]) -> str:
        """The text of a prompt, up to where the answer begins; if the last message is the beginning of an answer, up to
        its end. Raises RenderError with the template's own message."""
        values = [{"role": message.role, "content": message.content} for message in messages]
        is_begun = begins_answer(messages)
        if is_begun:
            values[-1]["content"] += _END
        try:
            # The variables that transformers gives every template; kvjobs has neither tools nor documents.
            with bounded_run():
                text = self.compiled.render(
                    messages=values, tools=None, documents=None, add_generation_prompt=not is_begun, **self.tokens
                )
            return self._up_to_end(text) if is_begun else text
        except RenderError:
            raise
        except Exception as error:  # a template may raise anything: TypeError, RecursionError ...
            raise RenderError(f"the chat template in {self.file.name} fails: {error}") from error

    def _up_to_end(self, text: str) -> str:
        """The text up to the end of the answer's beginning, as transformers cuts it with `continue_final_message`."""
        before, end, after = text.rpartition(_END.rstrip())
        if not end:
            raise RenderError(
                f"the chat template in {self.file.name} leaves out what the assistant has begun to say, so it cannot "
                "be continued: end with a message of the user"
            )
        # A template that takes white space off the end of messages took it off the mark.
        return before if after.startswith(" ") else before.rstrip()


def has_template(folder: Path) -> bool:
    """Whether a model folder has a chat template, without reading it further."""
    return _source(folder)[1] is not None


def _source(folder: Path) -> tuple[Path, str | None]:
    """The file of the template and its text. A chat_template.jinja comes before one in the configuration, of which
    there may be several, by name."""
    file = folder / CHAT_TEMPLATE
    if file.is_file():
        try:
            return file, file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"{file} cannot be read: {error}") from error
    file = folder / "tokenizer_config.json"
    source = read_object(file, is_optional=True).get("chat_template")
    if isinstance(source, list):
        named = {entry.get("name"): entry.get("template") for entry in source if isinstance(entry, dict)}
        source = named.get(_DEFAULT)
        if source is None:
            raise ModelError(f"{file} has several chat templates, and none is called {_DEFAULT}")
    if source is not None and not isinstance(source, str):
        raise ModelError(f"{file} has a chat_template that is no text: download it again")
    return file, source


# Methods and filters of texts that look for their arguments.
_SEEKING = {
    *("count", "endswith", "find", "index", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex"),
    *("rpartition", "rsplit", "split", "startswith"),
}


def _sought(template: nodes.Template) -> Iterator[str]:
    """The constant texts that a template compares, or searches for: `'</think>' in content`. Texts that it only writes,
    such as the end of a message, are not among them."""
    named = {
        assigned.target.name: assigned.node.value
        for assigned in template.find_all(nodes.Assign)
        if isinstance(assigned.target, nodes.Name) and isinstance(assigned.node, nodes.Const)
    }
    for condition in _seeking(template):
        constants = [condition] if isinstance(condition, nodes.Const) else list(condition.find_all(nodes.Const))
        values = [constant.value for constant in constants]
        names = [condition] if isinstance(condition, nodes.Name) else list(condition.find_all(nodes.Name))
        values += [named.get(name.name) for name in names]
        yield from (value for value in values if isinstance(value, str))


def _seeking(template: nodes.Template) -> Iterator[nodes.Node]:
    """The expressions that are compared or looked for."""
    yield from template.find_all(nodes.Compare)
    for call in template.find_all(nodes.Call):
        if isinstance(call.node, nodes.Getattr) and call.node.attr in _SEEKING:
            yield from call.args
    for filtered in template.find_all(nodes.Filter):
        if filtered.name in _SEEKING:
            yield from filtered.args[:1]


class RenderedTokenizer(Protocol):
    """A tokenizer, for texts in which some special tokens are special, and others are plain text."""

    @property
    def special_names(self) -> Mapping[str, str]: ...
    def encode_rendered(self, text: str) -> list[int]: ...


class ChatTokenizer:
    """Messages to the ids of a prompt. Immutable; lanes may share one.

        messages      {"role": "user", "content": "Say <|im_end|>"}
        rendered      <|im_start|>user
                      Say <|im_end|><|im_end|>
        ids           special   plain ...  plain     special

    transformers would take both for the special token, so that a document could end its own message and begin one of
    the system. Here only special tokens that the template writes are special; in a document they are plain text, as in
    every other task. If no document contains one, the ids equal `apply_chat_template`'s.

    There is one exception: in what an assistant said, a token that the template itself looks for is special, as the
    `</think>` by which templates of Qwen3 and DeepSeek R1 leave old reasoning out. Hidden from the template, it would
    stay.
    """

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
