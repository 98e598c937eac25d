"""Who is let in: everybody at this machine; from elsewhere those who know the token."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from jobs.settings import Settings
from jobs.store.database import Database
from jobs.web.access import MAX_FAILURES
from jobs.web.app import Options, create_app
from tests.command_line import Kvjobs

TOKEN = "correct horse"
HTML = {"accept": "text/html"}


@pytest.fixture
def stranger(database: Database, home: Path) -> Iterator[TestClient]:
    """A visitor of a dashboard that has a token."""
    settings = Settings(home=home, models_dir=home / "models")
    with TestClient(create_app(database, settings, Options(hosts=("*",), token=TOKEN))) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs.json", "/jobs/1", "/query?sql=select+1", "/events", "/nothing"])
def test_without_the_token_nothing_is_shown(stranger: TestClient, path: str) -> None:
    assert stranger.get(path).status_code == 401
    answer = stranger.get(path, headers=HTML, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/login")
    assert stranger.post("/jobs/1/actions/cancel").status_code == 401


def test_the_login_page_and_its_style_need_no_token(stranger: TestClient) -> None:
    assert stranger.get("/login").status_code == 200
    assert stranger.get("/static/style.css").status_code == 200
    assert stranger.get("/static/../app.py").status_code in (401, 404)


def test_the_token_opens_the_page_that_was_asked_for(stranger: TestClient) -> None:
    answer = stranger.post("/login", data={"token": TOKEN, "to": "/jobs"}, follow_redirects=False)

    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie, "a cookie that is read from a disk does not tell the token"
    assert stranger.get("/jobs").status_code == 200


@pytest.mark.parametrize("to", ["https://elsewhere.example", "//elsewhere.example", "/\\elsewhere.example", "jobs"])
def test_after_the_login_nobody_is_sent_elsewhere(stranger: TestClient, to: str) -> None:
    answer = stranger.post("/login", data={"token": TOKEN, "to": to}, follow_redirects=False)

    assert answer.headers["location"] == "/"


def test_a_program_brings_the_token_in_a_header(stranger: TestClient) -> None:
    assert stranger.get("/jobs.json", headers={"authorization": f"Bearer {TOKEN}"}).json()["jobs"] == []
    for wrong in ("Bearer wrong", f"Basic {TOKEN}", "Bearer ", TOKEN):
        assert stranger.get("/jobs.json", headers={"authorization": wrong}).status_code == 401


def test_programs_that_guess_wait_too_and_visitors_who_are_in_stay_in(stranger: TestClient) -> None:
    stranger.post("/login", data={"token": TOKEN})
    cookies = dict(stranger.cookies)
    stranger.cookies.clear()
    for _ in range(MAX_FAILURES):
        assert stranger.get("/jobs.json", headers={"authorization": "Bearer guess"}).status_code == 401

    assert stranger.get("/jobs.json", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 429
    stranger.cookies.update(cookies)
    assert stranger.get("/jobs.json").status_code == 200


def test_after_some_wrong_tokens_everybody_waits(stranger: TestClient) -> None:
    for _ in range(MAX_FAILURES):
        assert stranger.post("/login", data={"token": "guess"}).status_code == 401

    answer = stranger.post("/login", data={"token": TOKEN})

    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 61


def test_a_dashboard_of_this_machine_answers_to_its_own_names_alone(client: TestClient) -> None:
    assert client.get("/jobs", headers={"host": "testserver"}).status_code == 200
    for other in ("rebound.example", "testserver.rebound.example", ""):
        assert client.get("/jobs", headers={"host": other}).status_code == 400


def test_another_address_than_this_machine_needs_a_token(kvjobs: Kvjobs) -> None:
    result = kvjobs("web", "--host", "0.0.0.0")

    assert result.exit_code == 2
    assert "KVJOBS_WEB_TOKEN_FILE" in result.err


def test_the_settings_show_no_token(kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVJOBS_WEB_TOKEN", "s3cret")

    result = kvjobs("config")

    assert "web_token" in result.out
    assert "s3cret" not in result.out
