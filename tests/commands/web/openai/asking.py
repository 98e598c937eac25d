"""Requests of /v1 as a program sends them, and what it is answered."""

import json
from typing import Any

from starlette.testclient import TestClient

from jobs.answers import Answers
from jobs.store.database import Database
from jobs.store.queue.leases import lease
from jobs.store.queue.record import record
from tests.rows import translated

CHAT = "/v1/chat/completions"
WINDOW = {"endpoint": CHAT, "completion_window": "24h"}


def request(name: str, **body: Any) -> dict[str, Any]:
    whole = {"model": "demo-en-zh", "messages": [{"role": "user", "content": "It rains."}], **body}
    return {"custom_id": name, "method": "POST", "url": CHAT, "body": whole}


def lines(*requests: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(values).encode() + b"\n" for values in requests)


ONE = lines(request("a"))


def upload(client: TestClient, content: bytes = ONE, name: str = "b.jsonl", **headers: str) -> dict[str, Any]:
    answer = client.post("/v1/files", data={"purpose": "batch"}, files={"file": (name, content)}, headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def batch_of(client: TestClient, file_id: str, **values: Any) -> dict[str, Any]:
    answer = client.post("/v1/batches", json={"input_file_id": file_id, **WINDOW, **values})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def answer_all(database: Database) -> None:
    """Answer every document that waits, as a worker would."""
    while (work := lease(database, 1, 0, 60.0)) is not None:
        for number, documents in enumerate(work.batches):
            record(database, work, number, Answers([translated("雨") for _ in documents]), lease_s=60.0)


def shown(client: TestClient, batch: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/v1/batches/{batch['id']}").json()
    return found


def refusal(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error
