"""What may reach a terminal: words from a corpus never steer it. And in which voice messages are said."""

import enum
import json
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import click


class Voice(enum.Enum):
    """To whom a command speaks on standard error."""

    PLAIN = "plain"  # to people
    JSON = "json"  # to a program: a JSON object a line
    QUIET = "quiet"  # to nobody, but of errors


_voice = ContextVar("voice", default=Voice.PLAIN)

# Control characters, the marks that reverse the direction of writing, line separators, and halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: object) -> str:
    r"""One line that is safe to print: an escape character shows as \x1b, and a newline as \n."""
    return _UNSAFE.sub(_escape, str(text))


def say(message: str) -> None:
    """Print a message: to standard error, line by line safe; in the voice of this command."""
    lines = [visible(line) for line in message.split("\n")]
    match _voice.get():
        case Voice.PLAIN:
            for line in lines:
                # Not click.echo, which looks up the file behind sys.stderr: while a line of progress moves, that is
                # rich's, and a message has to go above it.
                print(line, file=sys.stderr, flush=True)
        case Voice.JSON:
            click.echo(json.dumps({"message": "\n".join(lines)}, ensure_ascii=False), err=True)


def voice() -> Voice:
    """That of this command."""
    return _voice.get()


def hush() -> None:
    """Say nothing more in this command; only an error is told."""
    _voice.set(Voice.QUIET)


@contextmanager
def speaking(how: Voice) -> Iterator[None]:
    """While inside, unless `hush` is called."""
    before = _voice.set(how)
    try:
        yield
    finally:
        _voice.reset(before)


def this_command() -> str:
    """What was typed, to be typed again."""
    return shlex.join(["kvjobs", *sys.argv[1:]])


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _SHORT.get(match[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
