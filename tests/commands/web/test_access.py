"""Who is let in: everybody at this machine; from elsewhere those who know the token."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from jobs.settings import Settings
from jobs.store.database import Database
from jobs.web.access import MAX_FAILURES, WINDOW_S, Failures
from jobs.web.app import Options, create_app
from jobs.web.connections import peer_of
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


def of_a_program(token: str) -> dict[str, bytes]:
    return {"authorization": f"Bearer {token}".encode()}


def test_who_guesses_is_told_to_wait_and_the_right_token_never(stranger: TestClient) -> None:
    for _ in range(MAX_FAILURES):
        assert stranger.get("/jobs.json", headers=of_a_program("guess")).status_code == 401

    answer = stranger.get("/jobs.json", headers=of_a_program("guess"))
    assert answer.status_code == stranger.post("/login", data={"token": "guess"}).status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 61
    assert stranger.get("/jobs.json", headers=of_a_program(TOKEN)).status_code == 200
    assert stranger.post("/login", data={"token": TOKEN}, follow_redirects=False).status_code == 303


def test_a_peer_waits_for_its_own_wrong_tokens_alone() -> None:
    failures = Failures()
    assert {failures.add("10.0.0.1") for _ in range(MAX_FAILURES)} == {0.0}

    assert 0 < failures.add("10.0.0.1") <= WINDOW_S
    assert failures.add("10.0.0.2") == 0.0


@pytest.mark.parametrize(("one", "other", "is_one_peer"), [
    ("10.0.0.1", "10.0.0.2", False),
    ("10.0.0.1", "::ffff:10.0.0.1", True),
    ("2001:db8::1", "2001:db8::ffff", True),
    ("fe80::1%eth0", "fe80::2", True),
    ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
])  # fmt: skip
def test_an_address_or_a_network_is_a_peer(one: str, other: str, is_one_peer: bool) -> None:
    assert (peer_of((one, 1)) == peer_of((other, 2))) is is_one_peer


@pytest.mark.parametrize(
    "written", [unicodedata.normalize("NFC", "clé été 密码"), unicodedata.normalize("NFD", "clé été 密码")]
)
def test_a_token_may_have_letters_beyond_ascii(database: Database, home: Path, written: str) -> None:
    options = Options(hosts=("*",), token="clé été 密码")
    with TestClient(create_app(database, Settings(home=home, models_dir=home / "models"), options)) as client:
        assert client.get("/jobs.json", headers=of_a_program(written)).status_code == 200
        assert client.get("/jobs.json", headers=of_a_program("cle ete 密码")).status_code == 401
        assert client.get("/jobs.json", headers={"authorization": b"Bearer \xe9\xff"}).status_code == 401
        assert client.get("/jobs.json", headers={"cookie": "kvjobs_token=\xe9".encode()}).status_code == 401
        assert client.post("/login", data={"token": written}, follow_redirects=False).status_code == 303


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
