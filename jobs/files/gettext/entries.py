r"""The entries of a .po file with their positions.

By the grammar of the manual of GNU gettext, node "PO Files"; obsolete entries (`#~`) are comments here.

Knows: the grammar. Does not know: which entries are translated.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from jobs.documents import quoted
from jobs.errors import CorpusError
from jobs.files.gettext.plural_rules import MAX_FORMS
from jobs.files.gettext.strings import unescaped

_TOKEN = re.compile(
    r"(?P<blank>[ \t\r\n\f\v]++)|(?P<comment>\#[^\r\n]*+)|(?P<string>\"(?:[^\"\\\n]|\\[^\n])*+\")|"
    r"(?P<keyword>msgctxt|msgid_plural|msgid|msgstr[ \t]*+(?:\[[ \t]*+(?P<form>\d{1,9})[ \t]*+\])?|domain)(?![\w\[])"
)


@dataclass(slots=True)
class Message:
    """A keyword with its strings. `start` and `stop` are positions in the text of the file."""

    keyword: str
    form: int  # of msgstr[2]: 2
    start: int
    stop: int
    strings: list[tuple[int, int, str]] = field(default_factory=list)  # from quotation mark to quotation mark

    @property
    def text(self) -> str:
        return "".join(text for _, _, text in self.strings)


@dataclass(slots=True)
class Entry:
    """A message with its comments and its translations."""

    comments: list[tuple[int, str]]  # where each begins, with its `#`
    start: int  # of the first keyword
    messages: list[Message] = field(default_factory=list)

    def message(self, keyword: str) -> Message | None:
        return next((message for message in self.messages if message.keyword == keyword), None)

    @property
    def translations(self) -> Sequence[Message]:
        return [message for message in self.messages if message.keyword == "msgstr"]


def entries_of(text: str) -> list[Entry]:
    """In the order of the file. Raises CorpusError with the line of what the grammar does not have."""
    entries: list[Entry] = []
    comments: list[tuple[int, str]] = []
    entry: Entry | None = None
    at = 1 if text.startswith("\ufeff") else 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            _refuse(text, at, f"{quoted(text[at : at + 40], 30)} is not expected here")
        if found.lastgroup == "comment":
            if entry is not None and entry.messages[-1].keyword == "msgstr" and not found[0].startswith("#~"):
                entry = None
            comments.append((at, found[0]))
        elif found.lastgroup == "string":
            if entry is None:
                _refuse(text, at, "a text without msgid or msgstr in front of it")
            message = entry.messages[-1]
            message.strings.append((at, found.end(), unescaped(found[0][1:-1])))
            message.stop = found.end()
        elif found["keyword"]:
            keyword = found["keyword"] if not found["keyword"].startswith("msgstr") else "msgstr"
            if entry is None or _begins(entry, keyword):
                entry = Entry([each for each in comments if not each[1].startswith("#~")], at)
                comments = []
                entries.append(entry)
            form = int(found["form"] or 0)
            if form >= MAX_FORMS:
                _refuse(text, at, f"plural form {form}, and no language has more than {MAX_FORMS}")
            entry.messages.append(Message(keyword, form, at, found.end()))
        at = found.end()
    entries = [entry for entry in entries if entry.messages[0].keyword != "domain"]
    for entry in entries:
        _check(text, entry)
    return entries


def _begins(entry: Entry, keyword: str) -> bool:
    last = entry.messages[-1].keyword
    return keyword in ("msgctxt", "msgid", "domain") and not (keyword == "msgid" and last == "msgctxt")


def _check(text: str, entry: Entry) -> None:
    keywords = [message.keyword for message in entry.messages]
    expected = [each for each in ("msgctxt", "msgid", "msgid_plural") if each in keywords]
    forms = keywords[len(expected) :]
    if "msgid" not in keywords or not forms or keywords[: len(expected)] != expected or set(forms) != {"msgstr"}:
        _refuse(text, entry.start, f"{', '.join(keywords[:6])}: an entry is msgctxt, msgid, msgid_plural, msgstr")
    if len(forms) > 1 and "msgid_plural" not in keywords:
        _refuse(text, entry.start, "several msgstr without msgid_plural")
    if [message.form for message in entry.translations] != list(range(len(forms))):
        _refuse(text, entry.start, "the forms of msgstr are not 0, 1, 2, ...")
    for message in entry.messages:
        if not message.strings:
            _refuse(text, message.start, f"{message.keyword} without a text")


def _refuse(text: str, at: int, what: str) -> NoReturn:
    raise CorpusError(f"line {text.count(chr(10), 0, at) + 1}: {what}")
