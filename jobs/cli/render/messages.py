"""Messages on standard error: as text, as a JSON object a line, or none."""

import enum
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import click

from jobs.cli.render.terminal import visible


class Voice(enum.Enum):
    """To whom a command speaks on standard error."""

    PLAIN = "plain"  # to people
    JSON = "json"  # to a program: a JSON object a line
    QUIET = "quiet"  # to nobody, but of errors


_voice = ContextVar("voice", default=Voice.PLAIN)


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
