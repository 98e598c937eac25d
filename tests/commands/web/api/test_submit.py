"""A corpus as the body of a request becomes a job, as one in a file does."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from jobs.choices import Only
from jobs.store.database import Database
from jobs.store.report.documents.export import read_documents
from jobs.store.report.job_summary import list_jobs
from jobs.submission.job_options import OF_EVERY_JOB
from jobs.tasks.kinds import KINDS
from jobs.tasks.task import Task
from tests.command_line import Kvjobs

LINES = b'{"id": "a", "text": "Snow."}\n{"id": "b", "text": "Rain.", "lang": "en"}\n'


def submit(client: TestClient, body: bytes = LINES, code: int = 201, **how: Any) -> dict[str, Any]:
    answer = client.post("/api/jobs", content=body, **how)
    assert answer.status_code == code, answer.text
    found: dict[str, Any] = answer.json()
    return found


def refusal(client: TestClient, path: str, code: int, body: bytes = LINES, **how: Any) -> str:
    """The message of an error that has the form of all errors."""
    answer = client.post(path, content=body, **how)
    assert answer.status_code == code, answer.text
    assert answer.json()["error"].keys() == {"code", "message", "hint"}
    message: str = answer.json()["error"]["message"]
    return message


def num_jobs(database: Database) -> int:
    with database.reading() as connection:
        return len(list_jobs(connection))


def test_a_corpus_becomes_a_job_and_the_same_corpus_finds_it(client: TestClient, database: Database) -> None:
    first = submit(client, params={"name": "night", "priority": "high"})
    again = submit(client, params={"name": "day"}, code=200)

    assert (first["prior_state"], again["prior_state"]) == ("new", "running")
    assert first["job"]["job_id"] == again["job"]["job_id"]
    assert (first["job"]["priority"], first["job"]["documents"], first["job"]["name"]) == (10, 2, "night")
    assert first["job"]["reading"]["format"] == "jsonl"
    assert any("night" in note and "day" in note for note in again["notes"])
    assert [document.external_id for document in read_documents(database, 1, only=Only.ALL)] == ["a", "b"]
    assert num_jobs(database) == 1


def test_a_job_of_an_upload_is_the_job_of_the_same_file(client: TestClient, kvjobs: Kvjobs, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_bytes(LINES)
    made = kvjobs("submit", "corpus.jsonl", "--beam-size", "2", "--json").json

    found = submit(client, params={"beam_size": "2"}, code=200)

    assert found["job"]["job_id"] == made["job_id"]


@pytest.mark.parametrize("task", Task)
def test_a_task_takes_the_same_options_here_and_on_the_command_line(client: TestClient, task: Task) -> None:
    here = next(found for found in client.get("/api/options").json()["tasks"] if found["name"] == task)

    on_command_line = {*OF_EVERY_JOB, *KINDS[task].offered}
    files_of_the_server = {name for name, option in KINDS[task].offered.items() if option.is_file}
    assert {option["name"] for option in here["options"]} == on_command_line - files_of_the_server


def test_the_same_key_is_the_same_job_and_another_request_is_refused(client: TestClient, database: Database) -> None:
    key = {"headers": {"Idempotency-Key": "order 66"}}
    submit(client, **key)
    submit(client, **key, code=200)
    submit(client, params={"key": "order 66"}, code=200)

    assert "order 66" in refusal(client, "/api/jobs?beam_size=2", 409, **key)
    assert "differ" in refusal(client, "/api/jobs?key=other", 400, **key)
    assert num_jobs(database) == 1


@pytest.mark.parametrize("packed", [LINES, gzip.compress(LINES)], ids=["plain", "gzip"])
def test_a_dry_run_makes_no_job(client: TestClient, database: Database, packed: bytes) -> None:
    found = client.post("/api/dry-run", content=packed, params={"max_text": "1M"}).json()

    assert (found["dry_run"], found["documents"], found["rejected"]) == (True, 2, 0)
    assert num_jobs(database) == 0
    assert "there is no option 'open'" in refusal(client, "/api/dry-run?open=true", 400)


def test_stages_are_objects_of_json_or_filters(client: TestClient) -> None:
    stages = [json.dumps({"task": "translate", "model": "demo-en-zh", "beam_size": 2}), "filter log_prob > -5"]

    found = submit(client, params={"then": stages})

    assert found["job"]["chain"] == found["job"]["job_id"]
    assert [job["task"] for job in client.get("/api/jobs").json()["jobs"]] == ["filter", "translate", "translate"]


def test_types_of_fields_are_kept_in_the_reading(client: TestClient) -> None:
    found = submit(client, params={"field_types": '{"when": "datetime64[us]"}'})

    assert found["job"]["reading"]["types"] == {"when": "datetime64[us]"}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("beamsize=4", "beam_size"),
        ("beam_size=four", "beam_size"),
        ("beam_size=4&beam_size=5", "beam_size is given 2 times"),
        ("task=score&beam_size=4", "beam_size is for task translate"),
        ("task=nosuch", "task"),
        ("strict=maybe", "strict"),
        ("max_text=0", "max_text"),
        ("max_text=1T", "max_text"),
        ("model=/etc", "model is a path"),
        ("model=../../etc", "model is a path"),
        ("task=rerank&run=/etc/passwd", "run"),
        ("then={", "then"),
        ("then={}", "then"),
        ('then={"task":"score","model":"/etc"}', "model is a path"),
        ("then=" + "[" * 5000, "then"),
        ('then={"task":' + "[" * 5000, "then"),
        ("name=a%00b", "NUL"),
        ("text_field=%00", "NUL"),
        ("name=" + "n" * 5000, "name"),
        ("field_types=[]", "field_types"),
        ("columns=id,text", "columns is for csv and tsv"),
        ("format=nosuch", "nosuch"),
        ("key=%20", "key"),
        ("strict=true&max_rejected=1", "strict is the same as max_rejected 0"),
    ],
)
def test_an_option_that_cannot_be_is_named_and_makes_no_job(
    client: TestClient, database: Database, query: str, said: str
) -> None:
    message = refusal(client, f"/api/jobs?{query}", 400)

    assert said in message
    assert "--" not in message.partition("kvjobs ")[0]
    assert num_jobs(database) == 0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "there is no document"),
        (b"\n\n", "there is no document"),
        (gzip.compress(LINES * 100)[:-20], "ends too early"),
        (gzip.compress(LINES)[:-8] + b"\xff" * 8, "cannot be decompressed"),
        (b"PK\x03\x04" + b"x" * 300, "name it by ?filename=manual.zip"),
        (b"a.md".ljust(257, b"\0") + b"ustar\x0000", "name it by ?filename=manual.zip"),
        ("{}".encode("utf-16"), "encoding"),
    ],
    ids=["empty", "blank", "half a gzip", "wrong gzip", "zip", "tar", "utf-16"],
)
def test_a_body_that_is_no_corpus_makes_no_job(
    client: TestClient, database: Database, home: Path, body: bytes, said: str
) -> None:
    assert said in refusal(client, "/api/jobs", 400, body)
    assert num_jobs(database) == 0
    assert [*(home / "spool").iterdir()] == []


def test_a_form_without_a_boundary_is_no_corpus(client: TestClient) -> None:
    assert "form" in refusal(client, "/api/jobs", 400, headers={"content-type": "multipart/form-data; b=x"})


def test_a_strict_corpus_with_a_bad_line_is_refused_with_the_line(client: TestClient, database: Database) -> None:
    message = refusal(client, "/api/jobs?strict=true", 400, LINES + b"{\n")

    assert "line 3" in message
    assert num_jobs(database) == 0


def test_a_body_that_is_too_long_is_refused_before_it_is_read(client: TestClient) -> None:
    answer = client.post("/api/jobs", content=b"{}", headers={"content-length": str(10**15)})

    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


def test_a_disk_without_room_is_said_and_nothing_is_kept(
    client: TestClient, database: Database, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.web.uploads.RESERVE", 1 << 62)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Disk", (), {"total": 1 << 62, "free": 1 << 40}))

    answer = client.post("/api/jobs", content=LINES)

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert num_jobs(database) == 0
    assert [*(home / "spool").iterdir()] == []


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"origin": "http://elsewhere.example", "content-type": "text/plain"},
        {"user-agent": "Mozilla/5.0"},
        {"host": "elsewhere.example"},
    ],
)
def test_another_site_makes_no_job(client: TestClient, database: Database, headers: dict[str, str]) -> None:
    answer = client.post("/api/jobs", content=LINES, headers=headers)

    assert answer.status_code in (400, 403)
    assert num_jobs(database) == 0
