"""Jobs over HTTP: listed, shown, acted on, their results read."""

import csv
import io
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from jobs.store.database import Database
from jobs.store.report.action_list import list_actions
from jobs.web.app import Options, create_app
from tests.command_line import Kvjobs
from tests.rows import AddJob, AddWaitingJob, Line

HOSTILE = "<script>alert(1)</script>'; DROP TABLE jobs; --"


def test_a_job_has_the_keys_that_ls_prints(client: TestClient, kvjobs: Kvjobs, add_job: AddJob) -> None:
    add_job(Line("a", "雪"), name="night")
    printed = kvjobs("ls", "--json").json[0]

    for reference in ("1", "night", "last"):
        found = client.get(f"/api/jobs/{reference}").json()
        assert {name: found[name] for name in printed.keys() - PASSING} == {
            name: value for name, value in printed.items() if name not in PASSING
        }
        assert "reading" in found
    assert client.get("/api/jobs").json()["jobs"][0].keys() == found.keys()


PASSING = {"read_at", "elapsed_s", "tokens_per_s"}


def test_a_list_goes_on_behind_the_last_job_of_the_page(client: TestClient, add_waiting_job: AddWaitingJob) -> None:
    numbers = [add_waiting_job() for _ in range(5)]
    seen, before = list[int](), None
    while True:
        answer = client.get("/api/jobs", params={"limit": 2} | ({"before": before} if before else {})).json()
        seen += [job["job_id"] for job in answer["jobs"]]
        if (before := answer["next"]) is None:
            break

    assert seen == numbers[::-1]
    assert client.get("/api/jobs?state=done").json() == {"jobs": [], "next": None}
    assert len(client.get("/api/jobs?state=done&state=waiting").json()["jobs"]) == 5


@pytest.mark.parametrize(
    "path",
    [
        "/api/jobs?state=dnoe",
        "/api/jobs?limit=0",
        "/api/jobs?limit=1001",
        "/api/jobs?limit=1e3",
        "/api/jobs?before=99999999999999999999",
        "/api/jobs?before=-1",
        "/api/jobs?search=x",
        "/api/jobs/last?x=1",
        "/api/models?x=1",
    ],
)
def test_a_wrong_parameter_is_a_sentence(client: TestClient, add_waiting_job: AddWaitingJob, path: str) -> None:
    add_waiting_job()
    answer = client.get(path)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "refused"


@pytest.mark.parametrize("reference", ["7", "0", "-1", "9" * 30, "nosuch", "..", "%2e%2e", "a%00b", "%C3%28", HOSTILE])
@pytest.mark.parametrize("rest", ["", "/results", "/events"])
def test_a_job_that_does_not_exist_is_not_found(client: TestClient, reference: str, rest: str) -> None:
    answer = client.get(f"/api/jobs/{reference}{rest}")

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


def test_hostile_names_and_texts_come_back_as_they_are(client: TestClient, add_job: AddJob) -> None:
    add_job(Line(HOSTILE, HOSTILE, fields={HOSTILE: HOSTILE}), name=HOSTILE)

    answer = client.get("/api/jobs/last")
    line = json.loads(client.get("/api/jobs/last/results").text)

    assert answer.json()["name"] == HOSTILE
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert (line["id"], line["translation"], line[HOSTILE]) == (HOSTILE, HOSTILE, HOSTILE)


LINES = [Line("a", "雪", log_prob=-1.0), Line("b", "雨", log_prob=-9.0, fields={"lang": "en"}), Line("c", None)]


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        ({}, ()),
        ({"format": "csv", "with": ["text", "tokens"]}, ("--format", "csv", "--with", "text", "--with", "tokens")),
        ({"where": "lang = 'en'"}, ("--where", "lang = 'en'")),
        ({"only": "all", "format": "txt"}, ("--only", "all", "--format", "txt")),
    ],
)
def test_results_are_the_bytes_of_an_export(
    client: TestClient, kvjobs: Kvjobs, add_job: AddJob, asked: dict[str, Any], command: tuple[str, ...]
) -> None:
    add_job(*LINES)

    answer = client.get("/api/jobs/1/results", params=asked)

    assert answer.status_code == 200
    assert answer.text.replace("\r\n", "\n") == kvjobs("export", "1", *command).out.replace("\r\n", "\n")
    assert answer.text


@pytest.mark.parametrize(
    "asked",
    [
        {"where": "nosuch < 1"},
        {"where": "1; DROP TABLE jobs"},
        {"where": "id = 'a' UNION SELECT 1"},
        {"where": "a\0b"},
        {"where": "(" * 5000},
        {"format": "nosuch"},
        {"format": "trec"},
        {"with": "nosuch"},
        {"only": "some"},
        {"add": "perplexity"},
        {"chain": "true"},
        {"chain": "yes"},
        {"follow": "true", "format": "csv"},
        {"follow": "true", "where": "log_prob < 0"},
        {"nosuch": "1"},
    ],
)
def test_what_is_wrong_with_results_is_said_before_they_begin(
    client: TestClient, database: Database, add_job: AddJob, asked: dict[str, str]
) -> None:
    add_job(*LINES)

    answer = client.get("/api/jobs/1/results", params=asked)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "refused"
    assert client.get("/api/jobs/1").status_code == 200


def test_followers_get_each_document_once_and_the_job_until_it_has_ended(client: TestClient, add_job: AddJob) -> None:
    add_job(*LINES[:2])

    lines = client.get("/api/jobs/1/results?follow=true").text.splitlines()
    events = client.get("/api/jobs/1/events")

    assert [json.loads(line)["id"] for line in lines] == ["a", "b"]
    assert events.headers["content-type"].startswith("text/event-stream")
    (event,) = events.text.strip().split("\n\n")
    name, data = event.split("\n")
    assert name == "event: job"
    assert json.loads(data.removeprefix("data: "))["state"] == "done"


def test_an_action_is_performed_and_logged(
    client: TestClient, database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job()

    paused = client.post("/api/jobs/1/actions/pause", json={"reason": HOSTILE}).json()
    moved = client.post("/api/jobs/last/actions/priority", json={"priority": "high"}).json()
    cancelled = client.post("/api/jobs/1/actions/cancel").json()

    assert (paused["job"]["shown_state"], paused["job"]["reason"]) == ("paused", HOSTILE)
    assert moved["job"]["priority"] == 10
    assert cancelled["documents"] == cancelled["job"]["cancelled"] > 0
    with database.reading() as connection:
        assert [action.action for action in list_actions(connection, 1)] == ["cancel", "priority", "pause"]


@pytest.mark.parametrize(
    ("action", "how", "code"),
    [
        ("cancle", {}, 404),
        ("resume", {"json": {"reason": 5}}, 400),
        ("resume", {"json": {"reason": "x" * 2000}}, 400),
        ("resume", {"json": {"reason": "a\0b"}}, 400),
        ("resume", {"json": [1]}, 400),
        ("resume", {"json": {"nosuch": 1}}, 400),
        ("resume", {"content": b"{", "headers": {"content-type": "application/json"}}, 400),
        ("resume", {"content": b"[" * 60_000, "headers": {"content-type": "application/json"}}, 400),
        ("resume", {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415),
        ("resume", {"content": b" " * 70_000, "headers": {"content-type": "application/json"}}, 413),
        ("priority", {}, 400),
        ("priority", {"json": {"priority": "highest"}}, 400),
        ("priority", {"json": {"priority": 2**40}}, 400),
        ("priority", {"json": {"priority": 1.5}}, 400),
        ("cancel", {"headers": {"sec-fetch-site": "cross-site"}}, 403),
    ],
)
def test_an_action_that_cannot_be_changes_nothing(
    client: TestClient, add_waiting_job: AddWaitingJob, action: str, how: dict[str, Any], code: int
) -> None:
    add_waiting_job()
    before = client.get("/api/jobs/1").json()

    answer = client.post(f"/api/jobs/1/actions/{action}", **how)

    assert answer.status_code == code, answer.text
    assert answer.json()["error"].keys() == {"code", "message", "hint"}
    after = client.get("/api/jobs/1").json()
    assert {**after, "read_at": None} == {**before, "read_at": None}


def test_a_read_only_dashboard_takes_no_job_and_no_action(client: TestClient, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job()
    state = client.app.state  # type: ignore[attr-defined]
    app = create_app(state.database, state.settings, Options(hosts=("testserver",), read_only=True))
    with TestClient(app) as reader:
        assert reader.post("/api/jobs", content=b"{}").status_code == 403
        assert reader.post("/api/jobs/1/actions/cancel").status_code == 403
        assert reader.get("/api/jobs/1").status_code == 200


def test_without_the_api_no_path_of_it_is_there(client: TestClient) -> None:
    state = client.app.state  # type: ignore[attr-defined]
    app = create_app(state.database, state.settings, Options(hosts=("testserver",), has_api=False))
    with TestClient(app) as visitor:
        assert visitor.get("/api/jobs").status_code == 404
        assert visitor.post("/api/jobs", content=b"{}").status_code == 404
        assert visitor.get("/jobs").status_code == 200


def test_a_path_that_is_not_there_is_told_as_json(client: TestClient) -> None:
    for path in ("/api/nothing", "/api", "/api/jobs/1/nothing"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    wrong = client.delete("/api/jobs/1")
    assert (wrong.json()["error"]["code"], wrong.headers["allow"]) == ("wrong_method", "GET")
    assert client.put("/api/jobs").headers["allow"] == "GET, POST"


def test_a_table_of_results_opens_in_a_spreadsheet_as_text(client: TestClient, add_job: AddJob) -> None:
    add_job(Line("a", "=1+1"))

    rows = [*csv.DictReader(io.StringIO(client.get("/api/jobs/1/results?format=csv").text))]

    assert rows[0]["translation"] == "'=1+1"


def test_every_route_is_described_and_listed(client: TestClient) -> None:
    described = client.get("/api/openapi.json").json()["paths"]
    page = client.get("/api/docs").text

    for route in client.app.router.routes:  # type: ignore[attr-defined]
        path = getattr(route, "path", "").replace(":path}", "}")
        if path.startswith("/api/") and path not in ("/api/openapi.json", "/api/docs"):
            assert {method.lower() for method in route.methods} <= described[path].keys()
            assert path in page
