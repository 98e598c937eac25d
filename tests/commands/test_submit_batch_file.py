"""`kvjobs submit` of a batch file of OpenAI: what it makes of the requests, and what it refuses."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Kvjobs
from tests.messages import line_with

CHAT = {"model": "demo-en-zh", "messages": [{"role": "user", "content": "It will rain in Arden."}]}


def batch_file(path: Path, *bodies: dict[str, Any], url: str = "/v1/chat/completions") -> Path:
    lines = [
        {"custom_id": f"r{number}", "method": "POST", "url": url, "body": body} for number, body in enumerate(bodies)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def shown(kvjobs: Kvjobs) -> dict[str, Any]:
    found: dict[str, Any] = kvjobs("show", "last", "--json").json
    return found


def test_the_first_request_says_the_task_and_the_model(home: Path, tmp_path: Path, kvjobs: Kvjobs) -> None:
    done = kvjobs("submit", batch_file(tmp_path / "b.jsonl", CHAT))

    assert done.exit_code == 0, done.err
    job = shown(kvjobs)
    assert (job["task"], job["model"], job["documents"]) == ("translate", "demo-en-zh", 1)


def test_a_batch_file_comes_from_a_pipe_too(
    home: Path, tmp_path: Path, kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = batch_file(tmp_path / "b.jsonl", CHAT).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))  # type: ignore[arg-type]

    done = kvjobs("submit", "-", "-q")

    assert done.exit_code == 0, done.err
    assert shown(kvjobs)["task"] == "translate"


@pytest.mark.parametrize(
    ("change", "arguments", "code", "says"),
    [
        ({}, ["--task", "score"], 2, "/v1/chat/completions"),
        ({}, ["--id-field", "x"], 2, "--id-field"),
        ({}, ["--text-field", "x"], 2, "--text-field"),
        ({}, ["--format", "jsonl"], 2, "--format openai"),
        ({"model": "gpt-4o"}, [], 5, "demo-en-zh"),
        ({"model": "/etc"}, [], 2, "--model"),
        ({"n": 2}, [], 2, "n: "),
    ],
)
def test_what_cannot_be_done_is_refused_before_there_is_a_job(
    home: Path, tmp_path: Path, kvjobs: Kvjobs, change: dict[str, Any], arguments: list[str], code: int, says: str
) -> None:
    done = kvjobs("submit", batch_file(tmp_path / "b.jsonl", {**CHAT, **change}), *arguments)

    assert done.exit_code == code
    assert line_with(done.err, says)
    assert kvjobs("ls", "--json").json == []


def test_a_model_of_the_command_answers_in_place_of_that_of_the_requests(
    home: Path, tmp_path: Path, kvjobs: Kvjobs
) -> None:
    path = batch_file(tmp_path / "b.jsonl", {**CHAT, "model": "gpt-4o"}, {**CHAT, "model": "gpt-4"})

    assert kvjobs("submit", path, "--model", "demo-en-zh").exit_code == 0
    job = shown(kvjobs)
    assert (job["model"], job["rejected"]) == ("demo-en-zh", 0)


def test_requests_that_wait_are_no_output_lines_until_they_are_asked_for(
    home: Path, tmp_path: Path, kvjobs: Kvjobs
) -> None:
    kvjobs("submit", batch_file(tmp_path / "b.jsonl", CHAT, {**CHAT, "n": 3}))

    (refused,) = map(json.loads, kvjobs("export", "last").out.splitlines())
    _, second = map(json.loads, kvjobs("export", "last", "--only", "all", "--format", "openai").out.splitlines())

    assert (refused["custom_id"], refused["response"]["body"]["error"]["param"]) == ("r1", "n")
    assert second == refused
    assert json.loads(kvjobs("export", "last", "--format", "jsonl").out)["id"] == "r1"
