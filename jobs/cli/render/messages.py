"""Messages on standard error: as text, as a JSON object a line, as a line of a JSON log, or none."""

import enum
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context

import click

from jobs.text.formatting import visible


class MessageFormat(enum.Enum):
    """How a command prints messages to standard error."""

    PLAIN = "plain"  # as text, for people
    JSON = "json"  # one JSON object a line, for programs
    LOG = "log"  # as lines of the JSON log: of processes that log JSON
    QUIET = "quiet"  # not at all; errors are printed as text


_format = ContextVar("format", default=MessageFormat.PLAIN)


def print_message(message: str) -> None:
    """Print a message to standard error, in the format of this command, without characters that steer a terminal."""
    lines = [visible(line) for line in message.split("\n")]
    match _format.get():
        case MessageFormat.PLAIN:
            for line in lines:
                # Not click.echo, which writes to the file behind sys.stderr: during live progress sys.stderr is rich's,
                # which prints the message above the moving line.
                print(line, file=sys.stderr, flush=True)
        case MessageFormat.JSON:
            click.echo(json.dumps({"message": "\n".join(lines)}, ensure_ascii=False), err=True)
        case MessageFormat.LOG:
            from jobs.text.log_lines import json_line  # loads logging, which most commands do without

            print(json_line(message), file=sys.stderr, flush=True)


def messages_of_log(log_format: str) -> Callable[[str], None]:
    """Print the messages of this command as its log is written; returns `print_message` for other threads, too."""
    if log_format == "json":
        _format.set(MessageFormat.LOG)
    context = copy_context()
    return lambda message: context.copy().run(print_message, message)


def message_format() -> MessageFormat:
    """The format of this command."""
    return _format.get()


def silence_messages() -> None:
    """Print no more messages in this command, except errors."""
    _format.set(MessageFormat.QUIET)


@contextmanager
def messages_as(how: MessageFormat) -> Iterator[None]:
    """Use this format inside the `with` block, unless `silence_messages` is called."""
    before = _format.set(how)
    try:
        yield
    finally:
        _format.reset(before)
