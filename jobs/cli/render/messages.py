"""Messages on standard error: as text, as a JSON object a line, or none."""

import enum
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import click

from jobs.cli.render.terminal import visible


class MessageFormat(enum.Enum):
    """To whom a command speaks on standard error."""

    PLAIN = "plain"  # to people
    JSON = "json"  # to a program: a JSON object a line
    QUIET = "quiet"  # to nobody, but of errors


_voice = ContextVar("voice", default=MessageFormat.PLAIN)


def print_message(message: str) -> None:
    """Print a message: to standard error, line by line safe; in the voice of this command."""
    lines = [visible(line) for line in message.split("\n")]
    match _voice.get():
        case MessageFormat.PLAIN:
            for line in lines:
                # Not click.echo, which looks up the file behind sys.stderr: while a line of progress moves, that is
                # rich's, and a message has to go above it.
                print(line, file=sys.stderr, flush=True)
        case MessageFormat.JSON:
            click.echo(json.dumps({"message": "\n".join(lines)}, ensure_ascii=False), err=True)


def message_format() -> MessageFormat:
    """That of this command."""
    return _voice.get()


def silence_messages() -> None:
    """Say nothing more in this command; only an error is told."""
    _voice.set(MessageFormat.QUIET)


@contextmanager
def messages_as(how: MessageFormat) -> Iterator[None]:
    """While inside, unless `silence_messages` is called."""
    before = _voice.set(how)
    try:
        yield
    finally:
        _voice.reset(before)
