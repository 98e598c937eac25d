"""The log of a process as JSON (`log_format = "json"`): one object a line on standard error, for programs that collect
logs.

    {"time": "2026-11-27T14:10:00.123Z", "level": "info", "logger": "worker.process.work_log", "message": "job 7: ...",
     "worker": 3, "job": 7, "shard": 21, "lane": 0}

A traceback is the field `exception`. Written with the standard library: python-json-logger would leave to us what this
file does, the fields and the characters that end a line for some readers.
"""

import json
import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType, TracebackType
from typing import Any

from jobs.text.formatting import UNSAFE

TEXT, JSON = "text", "json"
LOG_FORMATS = (TEXT, JSON)
FIELDS = ("worker", "job", "shard", "lane")  # numbers: of the process, or of what its thread works on
MESSAGES = "kvjobs"  # the logger of what a command says in any case

_of_process: dict[str, int] = {}
_of_thread: ContextVar[Mapping[str, int]] = ContextVar("log fields", default=MappingProxyType({}))


def set_process_fields(**fields: int) -> None:
    """Give these fields to all later lines of this process, in place of earlier values."""
    _of_process.update(fields)


@contextmanager
def log_fields(**fields: int) -> Iterator[None]:
    """Give these fields to the lines that this thread logs within the block."""
    before = _of_thread.set({**_of_thread.get(), **fields})
    try:
        yield
    finally:
        _of_thread.reset(before)


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON. A field that the record has itself (`extra`) counts first."""

    def format(self, record: logging.LogRecord) -> str:
        known = {**_of_process, **_of_thread.get(), **record.__dict__}
        body: dict[str, Any] = {
            "time": f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: known[name] for name in FIELDS if known.get(name) is not None},
        }
        if record.exc_info:
            body["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            body["stack"] = self.formatStack(record.stack_info)
        line = json.dumps(body, ensure_ascii=False, default=str)
        # json.dumps leaves characters as they are that end a line for some readers, or steer a terminal.
        return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def log_to_stderr(level: str, form: str, text_format: str) -> None:
    """Write the log lines of this process to standard error, from a level on: as JSON, or in `text_format`. As JSON
    come the errors, too, that end the process or a thread."""
    if form == TEXT:
        logging.basicConfig(level=level.upper(), format=text_format)
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.captureWarnings(True)
    sys.excepthook = _log_end_of_process
    threading.excepthook = lambda end: _log_end(
        end.exc_value, f"the thread {end.thread.name if end.thread else '?'} ended"
    )


def is_json_log() -> bool:
    """Whether this process logs JSON."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def json_line(message: str, level: int = logging.INFO) -> str:
    """A line of the JSON log for what a command says whatever the level is."""
    record = logging.LogRecord(MESSAGES, level, "", 0, message, None, None)
    return JsonFormatter().format(record)


def error_line(message: str) -> str:
    """The same for an error."""
    return json_line(message, logging.ERROR)


def tell_stderr(message: str) -> None:
    """Write to standard error why a process ends: a line of the log where that is JSON, else the sentence."""
    print(error_line(message) if is_json_log() else message, file=sys.stderr, flush=True)


def _log_end_of_process(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
    else:
        _log_end(error, "the process ended")


def _log_end(error: BaseException | None, what: str) -> None:
    logging.getLogger(MESSAGES).critical("%s: %s", what, error, exc_info=error)
