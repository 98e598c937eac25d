"""The JSON log: one object a line, whatever is logged."""

import json
import logging
import re
import sys
from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs.text import log_lines
from jobs.text.log_lines import JsonFormatter, json_line, log_fields, set_process_fields


@pytest.fixture(autouse=True)
def no_fields_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "_of_process", {})


def line(message: str, *arguments: object, **kw: Any) -> str:
    record = logging.getLogger("worker.drain").makeRecord(
        "worker.drain", logging.WARNING, "drain.py", 1, message, arguments, kw.pop("exc_info", None), extra=kw
    )
    return JsonFormatter().format(record)


def test_a_line_has_time_level_logger_and_message() -> None:
    found = json.loads(line("job %d goes on", 7))

    assert (found["level"], found["logger"], found["message"]) == ("warning", "worker.drain", "job 7 goes on")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["time"])
    assert datetime.fromisoformat(found["time"]).utcoffset() == timedelta(0)
    assert list(found) == ["time", "level", "logger", "message"]


@pytest.mark.parametrize(
    "text", ["a\nb\r\nc", "\x1b[2J\x00\x07\t", "\x85\u2028\u2029", "\u202eevil", "\ud800", '"}{\\', "雪"]
)
def test_no_character_of_a_message_ends_or_breaks_the_line(text: str) -> None:
    written = line("%s", text)

    assert json.loads(written)["message"] == text
    assert written.splitlines() == [written]
    assert written.encode()
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", written)


def test_the_fields_of_the_process_the_thread_and_the_record_are_kept_apart() -> None:
    set_process_fields(worker=3)
    with log_fields(job=7, shard=21, lane=0):
        inside = json.loads(line("x"))
        of_record = json.loads(line("x", job=8))
    after = json.loads(line("x"))

    assert {name: inside[name] for name in log_lines.FIELDS} == {"worker": 3, "job": 7, "shard": 21, "lane": 0}
    assert (of_record["job"], of_record["shard"]) == (8, 21)
    assert after.keys() & set(log_lines.FIELDS) == {"worker"}


def test_a_traceback_is_one_field() -> None:
    try:
        raise ValueError("line\nbreak")
    except ValueError:
        written = line("it failed", exc_info=sys.exc_info())

    found = json.loads(written)
    assert found["exception"].startswith("Traceback")
    assert "ValueError: line\nbreak" in found["exception"]
    assert written.splitlines() == [written]


def test_what_a_command_says_is_a_line_of_the_same_form() -> None:
    assert json.loads(json_line("The tables are up to date")) | {"time": ""} == {
        "time": "",
        "level": "info",
        "logger": "kvjobs",
        "message": "The tables are up to date",
    }
