"""Jobs that stay open, over HTTP: opened, filled, asked for outcomes, closed."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.rows import AddJob, Line

OPEN = "/api/jobs?open=true&key=comments"


def append(client: TestClient, *documents: dict[str, Any] | bytes, code: int = 200) -> Any:
    lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in documents]
    answer = client.post("/api/jobs/1/documents", content=b"\n".join(lines))
    assert answer.status_code == code, answer.text
    return answer.json()


def test_documents_are_appended_once_until_the_job_is_closed(client: TestClient) -> None:
    first, again = client.post(OPEN), client.post(OPEN)
    assert (first.status_code, again.status_code) == (201, 200)
    assert (first.json()["prior_state"], again.json()["prior_state"]) == ("new", "running")

    snow, rain = {"id": "a", "text": "Snow."}, {"id": "b", "text": "Rain."}
    append(client, snow)
    found = append(client, snow, rain, b"{", {"text": "no id"}, {"id": "a", "text": "another"})["documents"]

    assert [document["state"] for document in found] == ["present", "added", "refused", "refused", "refused"]
    assert [document["id"] for document in found][:2] == ["a", "b"]
    assert all(document["reason"] and document["code"] for document in found[2:])
    outcomes = client.post("/api/jobs/1/outcomes", json={"ids": ["b", "nosuch"]}).json()
    assert outcomes == {"outcomes": {"b": None}}
    assert client.post("/api/jobs/1/actions/close").status_code == 200
    assert "closed" in append(client, rain, code=400)["error"]["message"]


def test_an_outcome_is_the_line_of_an_export(client: TestClient, add_job: AddJob) -> None:
    add_job(Line("a", "雪"), Line("b"), name="night")

    found = client.post("/api/jobs/night/outcomes", json={"ids": ["a", "b"]}).json()["outcomes"]

    assert found == {"a": json.loads(client.get("/api/jobs/1/results").text.splitlines()[0]), "b": None}


@pytest.mark.parametrize(
    ("path", "how", "code"),
    [
        (OPEN, {"content": b'{"id": "a"}'}, 400),
        (OPEN + "&format=csv", {}, 400),
        (OPEN + "&then=filter+x<1", {}, 400),
        (OPEN + "&beam_size=2", {}, 409),
        ("/api/jobs/2/documents", {"content": b"{}"}, 404),
        ("/api/jobs/1/documents?x=1", {"content": b"{}"}, 400),
        ("/api/jobs/1/documents", {"content": b"x", "headers": {"content-length": str(10**10)}}, 413),
        ("/api/jobs/1/outcomes", {"json": {"ids": ["x"] * 10_001}}, 400),
        ("/api/jobs/1/outcomes", {"json": {"ids": [1]}}, 400),
        ("/api/jobs/1/outcomes", {"json": {"ids": "a"}}, 400),
        ("/api/jobs/1/outcomes", {"json": {}}, 200),
        ("/api/jobs/1/outcomes", {"json": {"ids": ["a\0b", "'; DROP TABLE jobs; --"]}}, 200),
        ("/api/jobs/1/documents", {"content": b""}, 200),
        ("/api/jobs/1/documents", {"content": b"\xff\xfe\n\0\n" + b"[" * 100_000}, 200),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(client: TestClient, path: str, how: dict[str, Any], code: int) -> None:
    client.post(OPEN)

    answer = client.post(path, **how)

    assert answer.status_code == code, answer.text
    assert code == 200 or answer.json()["error"]["message"]
    assert client.get("/api/jobs/1").json()["documents"] == 0


def test_documents_of_a_job_of_a_corpus_are_refused(client: TestClient, add_job: AddJob) -> None:
    add_job(Line("a"))

    assert "open" in append(client, {"id": "b", "text": "Snow."}, code=400)["error"]["message"]
