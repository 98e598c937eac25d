"""What every request and every answer must obey."""

import asyncio
import re

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from jobs.web.guards import BodyLimit, Guards

PATHS = ("/", "/jobs", "/jobs.json", "/jobs/99", "/nothing", "/static/style.css", "/login", "/jobs?before=x")


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_forbids_foreign_and_inline_scripts_frames_and_guessing(client: TestClient, path: str) -> None:
    headers = client.get(path).headers

    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("path", PATHS)
def test_no_page_has_an_inline_script_or_style_or_a_foreign_file(client: TestClient, path: str) -> None:
    page = client.get(path).text

    assert "<style" not in page
    assert " style=" not in page
    assert " onclick=" not in page
    assert "//cdn" not in page
    assert "<script>" not in page


def test_pages_are_not_stored_and_libraries_are_kept(client: TestClient) -> None:
    assert client.get("/jobs").headers["cache-control"] == "no-store"
    assert "immutable" in client.get("/static/vendor/htmx-2.0.11.min.js").headers["cache-control"]


def test_what_is_too_long_is_refused_before_it_is_read(client: TestClient) -> None:
    assert client.get("/jobs?search=" + "x" * 20_000).status_code == 414
    assert client.post("/login", content=b"x" * 70_000).status_code == 413
    a_form = {"content-type": "application/x-www-form-urlencoded"}
    without_length = iter([b"token=" + b"x" * 40_000] * 3)
    assert client.post("/login", content=without_length, headers=a_form).status_code == 413


@pytest.mark.parametrize(
    "path",
    [
        "/jobs?before=0",
        "/jobs?before=99999999999999999999",
        "/jobs?state=nosuch",
        "/jobs/0",
        "/jobs/99999999999999999999",
    ],
)
def test_a_wrong_parameter_is_a_sentence(client: TestClient, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code in (400, 404)
    assert "Traceback" not in answer.text
    assert "<h1>" in answer.text


def test_a_page_that_is_not_there_is_told_as_json_where_json_was_asked(client: TestClient) -> None:
    assert client.get("/jobs/99.json").json() == {"error": "there is no job '99'; to list all jobs: kvjobs ls --all"}
    assert client.get("/jobs/99").status_code == 404


def test_a_search_is_a_text_not_a_pattern(client: TestClient) -> None:
    for search in ("%", "_", "' OR 1=1 --", "\x00", "<script>alert(1)</script>"):
        answer = client.get("/jobs", params={"search": search})
        assert answer.status_code in (200, 400)
        assert "<script>alert" not in answer.text


async def length_of_body(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers how many bytes have come."""
    try:
        body = await Request(scope, receive).body()
    except HTTPException as error:
        await PlainTextResponse(error.detail, error.status_code)(scope, receive, send)
    else:
        await PlainTextResponse(str(len(body)))(scope, receive, send)


def test_a_route_may_take_more_than_a_form() -> None:
    limit = BodyLimit("upload", 1 << 20, 10.0)
    client = TestClient(Guards(length_of_body, [("POST", re.compile("/upload"), limit)]))

    assert client.post("/upload", content=b"x" * (1 << 20)).text == str(1 << 20)
    assert client.post("/upload", content=iter([b"x" * (1 << 20), b"x"])).status_code == 413
    assert client.post("/upload", content=b"x" * ((1 << 20) + 1)).status_code == 413
    for elsewhere in ("/uploads", "/upload/", "/"):
        assert client.post(elsewhere, content=b"x" * (1 << 20)).status_code == 413
    assert client.put("/upload", content=b"x" * (1 << 20)).status_code == 413
    assert client.post("/upload", content=b"", headers={"content-length": "9" * 5000}).status_code == 413


@pytest.mark.parametrize(("limit", "code"), [((0.1, 1000.0), 200), ((0.05,), 408)])
def test_a_body_has_more_time_the_more_of_it_has_come(limit: tuple[float, ...], code: int) -> None:
    async def receive() -> Message:
        await asyncio.sleep(0.02)
        parts.pop()
        return {"type": "http.request", "body": b"x" * 100, "more_body": bool(parts)}

    async def send(message: Message) -> None:
        codes.append(message.get("status"))

    parts, codes = [None] * 8, list[int | None]()
    guards = Guards(length_of_body, [("POST", re.compile("/upload"), BodyLimit("upload", 1 << 20, *limit))])
    scope = {"type": "http", "method": "POST", "path": "/upload", "raw_path": b"/upload", "query_string": b""}
    asyncio.run(guards({**scope, "headers": []}, receive, send))

    assert codes[0] == code
