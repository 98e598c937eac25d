"""`kvjobs tokens`: the secret is shown once, alone on standard output."""

import re

import pytest

from jobs.store.database import Database
from tests.command_line import Kvjobs
from tests.messages import line_with

ADD = ("tokens", "add", "ci", "--role")


def test_the_secret_stands_alone_on_standard_output_and_is_shown_once(kvjobs: Kvjobs, database: Database) -> None:
    added = kvjobs(*ADD, "producer", "--max-jobs", 3, "--max-bytes", "1.5G")

    assert added.exit_code == 0
    assert re.fullmatch(r"kvj_[A-Za-z0-9_-]{43}\n", added.out)
    secret = added.out.strip()
    assert secret not in added.err
    assert line_with(added.err, "ci", "producer")
    (token,) = kvjobs("tokens", "ls", "--json").json
    assert (token["name"], token["role"], token["max_jobs"], token["max_bytes"]) == ("ci", "producer", 3, 3 << 29)
    assert "secret_digest" not in token
    for shown in (kvjobs("tokens", "ls"), kvjobs("tokens", "ls", "--json"), kvjobs("tokens", "ls", "--all")):
        assert secret[:10] in shown.out
        assert secret[:12] not in shown.out


def test_the_list_says_what_limits_a_token_has_and_shows_none_as_none(kvjobs: Kvjobs, database: Database) -> None:
    kvjobs(*ADD, "producer", "--max-jobs", 3, "--max-bytes", "1.5G")
    kvjobs("tokens", "add", "ann", "--role", "viewer")

    shown = kvjobs("tokens", "ls").out
    assert line_with(shown, "ci", "producer", "1.50 GiB")
    assert line_with(shown, "ann", "viewer", "-")


def test_the_first_token_and_the_end_of_the_last_say_what_changes(
    kvjobs: Kvjobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "/metrics" in kvjobs(*ADD, "viewer").err
    assert "/metrics" not in kvjobs("tokens", "add", "ben", "--role", "viewer").err
    assert len(kvjobs("tokens", "revoke", "ben").err.splitlines()) == 1
    assert len(kvjobs("tokens", "revoke", "ci").err.splitlines()) == 2
    monkeypatch.setenv("KVJOBS_WEB_TOKEN", "one that every visitor needs anyway")
    assert "/metrics" not in kvjobs(*ADD, "viewer").err


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (("add", "ci", "--role", "reader"), 2, ["viewer"]),
        (("add", "ci"), 2, ["--role"]),
        (("add", "ann@here", "--role", "viewer"), 2, ["ann@here"]),
        (("add", "nightly", "--role", "viewer"), 2, ["nightly", "kvjobs tokens revoke nightly"]),
        (("add", "ci", "--role", "viewer", "--max-jobs", "0"), 2, ["--max-jobs"]),
        (("revoke", "nihgtly"), 5, ["nihgtly", "nightly"]),
    ],
)
def test_what_cannot_be_done_says_why(
    kvjobs: Kvjobs, database: Database, arguments: tuple[str, ...], exit_code: int, said: list[str]
) -> None:
    kvjobs("tokens", "add", "nightly", "--role", "viewer")

    result = kvjobs("tokens", *arguments)

    assert (result.exit_code, result.out) == (exit_code, "")
    assert all(word in result.err for word in said)


def test_a_revoked_token_is_listed_only_where_all_are(kvjobs: Kvjobs, database: Database) -> None:
    kvjobs(*ADD, "viewer")
    kvjobs("tokens", "revoke", "ci")

    assert kvjobs("tokens", "ls", "--json").json == []
    assert "kvjobs tokens add" in kvjobs("tokens", "ls").err
    (token,) = kvjobs("tokens", "ls", "--json", "--all").json
    assert token["revoked_at"] is not None


def test_who_submits_on_the_command_line_owns_the_job(
    kvjobs: Kvjobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    assert kvjobs("submit", "-q", _corpus()).exit_code == 0

    assert kvjobs("show", "last", "--json").json["owner"] == "ann@here"
    assert line_with(kvjobs("show", "last").out, "ann@here")
    assert kvjobs("ls", "--json").json[0]["owner"] == "ann@here"
    assert kvjobs("query", "select owner from v_jobs", "--json").json == [{"owner": "ann@here"}]


def _corpus() -> str:
    with open("corpus.jsonl", "w", encoding="utf-8") as file:
        file.write('{"id": 1, "text": "Snow will fall."}\n')
    return "corpus.jsonl"
