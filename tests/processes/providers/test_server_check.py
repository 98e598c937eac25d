"""A server is asked whether it is ready: what it is sent, and what is said of it."""

from dataclasses import replace

import pytest

from tests.messages import line_with
from tests.scripted_api import Behaviour, says, serving, stalls
from worker.providers.http import server_provider
from worker.providers.http.server_provider import check_server

MEND = "start it"


def test_a_server_that_answers_is_ready_and_was_sent_the_key_alone() -> None:
    with serving(says({"data": []})) as api:
        check = check_server("openai", api.access(key="sk-key"), "/models", mend=MEND)

    assert (check.found, check.mend) == (f"127.0.0.1:{api.port} answers", "")
    (request,) = api.requests
    assert (request.path, request.headers["authorization"], request.body) == ("/v1/models", "Bearer sk-key", None)


def test_a_password_in_the_address_is_used_and_not_shown() -> None:
    with serving(says({})) as api:
        access = replace(api.access(), base_url=f"http://user:s3cret@127.0.0.1:{api.port}")
        check = check_server("ollama", access, "/api/version", mend=MEND)

    assert (check.found, api.requests[0].headers["authorization"]) == (
        f"127.0.0.1:{api.port} answers",
        "Basic dXNlcjpzM2NyZXQ=",
    )


@pytest.mark.parametrize(
    ("behaviour", "found"),
    [
        (says({"detail": "no"}, 401), "refuses access (HTTP 401: no)"),
        (says({"detail": "gone"}, 404), "HTTP 404: gone"),
        (says(b"<html>"), "not JSON"),
        (stalls, "sent no whole answer"),
    ],
    ids=("401", "404", "html", "stalls"),
)
def test_a_server_that_is_not_ready_is_asked_once_and_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, behaviour: Behaviour, found: str
) -> None:
    monkeypatch.setattr(server_provider, "TIMEOUT_S", 0.2)
    with serving(behaviour) as api:
        check = check_server("openai", api.access(), "/models", mend=MEND)

    assert found in check.found
    assert (check.mend, check.is_warning, len(api.requests)) == (MEND, False, 1)


def test_no_server_is_told_without_the_password() -> None:
    with serving(says({})) as api:
        pass
    access = replace(api.access(), base_url=f"http://user:s3cret@127.0.0.1:{api.port}")

    check = check_server("openai", access, "/models", mend=MEND)
    assert line_with(check.found, "no connection", "127.0.0.1")
    assert "s3cret" not in check.found
    assert check_server("openai", replace(access, base_url=""), "/models", mend=MEND).found == "no server is set"
