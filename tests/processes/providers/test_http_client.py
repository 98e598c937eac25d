"""The HTTP client of providers, against a server that behaves in every wrong way: each has its own clear outcome."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from jobs.answers import Unanswered
from jobs.errors import Stopped
from jobs.outcome import Failed, Outcome
from jobs.providers import Reason
from tests.scripted_api import Behaviour, ScriptedApi, answers, cuts, drips, floods, hangs_up, says, serving, stalls
from worker.engine.runtime.run_context import RunContext
from worker.providers.http import client as client_module
from worker.providers.http.client import Exchange, JsonClient, RequestRefused
from worker.providers.http.document_requests import EventLoop, request_each
from worker.providers.protocol import ProviderFailure

OK = says({"ok": True})
KEY = "sk-never-shown"
LOOP, RUN = EventLoop(), RunContext()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_PAUSE_S", 0.01)


def post(api: ScriptedApi, **access: Any) -> tuple[Any, Exchange]:
    client, exchange = JsonClient(api.access(key=KEY, **access)), Exchange()
    try:
        return LOOP.run(client.post("/completions", {"prompt": "rain"}, exchange), RUN), exchange
    finally:
        LOOP.run(client.close(), RUN)


@pytest.mark.parametrize(
    ("behaviour", "code", "says_what"),
    [
        (stalls, Reason.TIMEOUT, "sent no whole answer within 0.3 s"),
        (drips, Reason.TIMEOUT, "sent no whole answer within 0.3 s"),
        (hangs_up, Reason.UNREACHABLE, "cut the connection"),
        (cuts({"choices": [1, 2, 3]}), Reason.UNREACHABLE, "cut the connection"),
        (floods, Reason.BAD_ANSWER, "more than 1 MiB"),
        (says(b"<html>rain</html>"), Reason.BAD_ANSWER, "not JSON: <html>rain</html>"),
        (says(b'{"half": '), Reason.BAD_ANSWER, "not JSON"),
        (says({"error": {"message": "out of tokens"}}), Reason.BAD_ANSWER, "out of tokens"),
        (says({}, 301, Location="http://elsewhere/"), Reason.BAD_ANSWER, "a redirect is not followed"),
        (says({"detail": "no key"}, 401), Reason.NO_ACCESS, "refuses access (HTTP 401: no key)"),
        (says({"error": "not for you"}, 403), Reason.NO_ACCESS, "HTTP 403: not for you"),
        (says({"message": "no credit"}, 402), Reason.NO_ACCESS, "HTTP 402: no credit"),
        (says({}, 407), Reason.NO_ACCESS, "HTTP 407"),
        (says({"message": "too slow"}, 408), Reason.TIMEOUT, "gave the request up (HTTP 408: too slow)"),
        (says({"message": "no tea"}, 418), Reason.BAD_ANSWER, "HTTP 418 instead of an answer: no tea"),
        (says(b"worker died", 500), Reason.SERVER_ERROR, "failed (HTTP 500: worker died)"),
        (says({"message": "slow down"}, 429), Reason.RATE_LIMIT, "HTTP 429: slow down"),
        (says(b"\x1b[31mred\x1b[0m \xff", 500), Reason.SERVER_ERROR, "red"),
    ],
    ids=lambda value: value.value if isinstance(value, Reason) else None,
)
def test_every_wrong_behaviour_is_a_failure_with_a_sentence(
    behaviour: Behaviour, code: Reason, says_what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_BYTES", 1 << 20)
    with serving(behaviour) as api, pytest.raises(ProviderFailure) as failure:
        post(api, timeout_s=0.3)

    assert failure.value.reason is code
    assert says_what in str(failure.value)
    assert "\x1b" not in str(failure.value)
    assert KEY not in f"{failure.value} {failure.value!r} {api.access(key=KEY)!r}"
    assert f"127.0.0.1:{api.port}" in str(failure.value)


def test_a_port_without_a_server_is_unreachable() -> None:
    with serving(OK) as api:
        pass
    with pytest.raises(ProviderFailure, match=r"no connection .*127") as failure:
        post(api)
    assert failure.value.reason is Reason.UNREACHABLE


def test_a_server_without_tls_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(OK) as api:
        access = api.access(timeout_s=2.0)
        secure = type(access)(base_url=access.base_url.replace("http:", "https:"), concurrency=1, timeout_s=2.0)
        client = JsonClient(secure)
        with pytest.raises(ProviderFailure, match="TLS") as failure:
            LOOP.run(client.get("/models", Exchange()), RUN)
        LOOP.run(client.close(), RUN)
    assert failure.value.reason is Reason.UNREACHABLE


@pytest.mark.parametrize(
    "first",
    [says({}, 503), says({}, 500), says({}, 409), says({}, 429, Retry_After="0.01"), hangs_up, cuts({"ok": True})],
    ids=["503", "500", "409", "429", "hangs-up", "cuts"],
)
def test_a_busy_server_and_a_broken_connection_are_tried_again(first: Behaviour) -> None:
    with serving(first, OK) as api:
        answer, exchange = post(api)

    assert answer == {"ok": True}
    assert len(api.requests) == 2
    assert [timing.phase for timing in exchange.timings][-2:] == ["wait", "request"]


def test_the_wait_that_a_server_asks_for_is_kept_and_a_long_one_is_not_waited_for() -> None:
    with serving(says({}, 429, Retry_After="0.3"), OK) as api:
        _, exchange = post(api)
    (waited,) = [timing.seconds for timing in exchange.timings if timing.phase == "wait"]
    assert waited >= 0.3

    in_an_hour = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    with serving(says({}, 429, Retry_After=in_an_hour)) as api, pytest.raises(ProviderFailure, match="asks to wait"):
        post(api)
    assert len(api.requests) == 1


def test_the_pauses_of_a_request_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "LONGEST_WAIT_S", 0.25)
    with serving(says({}, 429, Retry_After="0.1")) as api, pytest.raises(ProviderFailure, match="limits the rate"):
        post(api, attempts=50)
    assert len(api.requests) == 3


def test_a_date_that_no_calendar_has_is_no_reason_to_fail() -> None:
    with serving(says({}, 429, Retry_After="Fri, 31 Dec 99999999999999 23:59:59 GMT"), OK) as api:
        assert post(api)[0] == {"ok": True}


@pytest.mark.parametrize(
    ("name", "value", "says_what"),
    [
        (
            "SSL_CERT_FILE",
            "/nowhere/ca.pem",
            "the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read",
        ),
        ("HTTP_PROXY", "ftp://user:hidden@proxy", "the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names"),
        ("ALL_PROXY", "http://[::1", "the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names"),
    ],
)
def test_what_the_environment_says_and_cannot_be_used_is_a_failure_with_a_sentence(
    name: str, value: str, says_what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with serving(OK) as api, pytest.raises(ProviderFailure, match=says_what) as failure:
        post(api)
    assert failure.value.reason is Reason.OPEN_ERROR
    assert "hidden" not in str(failure.value)


def test_a_key_that_no_header_can_hold_is_not_shown() -> None:
    with serving(OK) as api, pytest.raises(ProviderFailure, match=r"URL.*key") as failure:
        LOOP.run(JsonClient(api.access(key=f"{KEY}\n")).get("/models", Exchange()), RUN)
    assert KEY not in str(failure.value)


def test_a_request_that_is_refused_is_no_failure_and_is_not_sent_again() -> None:
    said = says({"error": {"message": "context length is 4096"}}, 400)
    with serving(said) as api, pytest.raises(RequestRefused) as refused:
        post(api)

    assert (refused.value.status, refused.value.message) == (400, "context length is 4096")
    assert len(api.requests) == 1


def test_the_key_is_sent_as_a_bearer_token() -> None:
    with serving(OK) as api:
        post(api)

    assert api.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert api.requests[0].body == {"prompt": "rain"}


def test_events_are_read_until_the_last_and_their_connection_is_not_used_again() -> None:
    """llama-cpp-python closes the connection of a stream as soon as another request arrives on it."""
    events = says(b'data: {"text": "It"}\n\ndata: {"text": " rains"}\n\ndata: [DONE]\n\n')
    with serving(events, OK) as api:
        client = JsonClient(api.access())
        found = LOOP.run(client.post_for_events("/completions", {"stream": True}, Exchange()), RUN)
        LOOP.run(client.post("/completions", {}, Exchange()), RUN)
        LOOP.run(client.close(), RUN)

    assert found == [{"text": "It"}, {"text": " rains"}]
    assert [request.headers["connection"] for request in api.requests] == ["close", "keep-alive"]


@contextlib.contextmanager
def asking(*behaviours: Behaviour, **access: Any) -> Iterator[tuple[ScriptedApi, Any]]:
    """Ask for documents, each a number: the answer is the failed outcome that carries what the server said."""
    with serving(*behaviours) as api:
        client = JsonClient(api.access(**access))

        async def ask(document: int, exchange: Exchange) -> Outcome | Unanswered:
            found = await client.post("/completions", {"prompt": document}, exchange)
            return Failed("said", str(found["said"]))

        def ask_all(documents: int, run: RunContext = RUN) -> list[Outcome | Unanswered]:
            concurrency = client.access.concurrency
            found, _ = request_each(LOOP, range(documents), ask, concurrency=concurrency, run=run)
            return found

        try:
            yield api, ask_all
        finally:
            LOOP.run(client.close(), RUN)


def test_documents_are_asked_side_by_side_within_the_limit_and_come_back_in_order() -> None:
    echo = answers(lambda request: {"said": request.body["prompt"]}, after_s=0.02)
    with asking(echo, concurrency=3) as (api, ask_all):
        found = ask_all(20)

    assert [one.message for one in found if isinstance(one, Failed)] == [str(number) for number in range(20)]
    assert api.most_at_once == 3


def test_after_a_failure_no_document_is_begun_and_what_was_answered_stays() -> None:
    echo = answers(lambda request: {"said": request.body["prompt"]})
    with asking(echo, echo, says({"detail": "revoked"}, 401), concurrency=1) as (api, ask_all):
        found = ask_all(10)

    assert [isinstance(one, Failed) for one in found] == [True, True, *([False] * 8)]
    assert {one.code for one in found if isinstance(one, Unanswered)} == {Reason.NO_ACCESS}
    assert len(api.requests) == 3


def test_a_worker_that_is_to_stop_does_not_wait_for_an_answer() -> None:
    with asking(stalls, timeout_s=30.0) as (_, ask_all), pytest.raises(Stopped):
        ask_all(4, RunContext(should_stop=lambda: True))
