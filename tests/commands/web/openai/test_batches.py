"""/v1: files, batches and models, as programs ask for them."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from jobs.operations.batch_runner import BatchRunner
from jobs.store.database import Database
from jobs.store.jobs import cancel
from jobs.store.report.job_summary import find_job
from tests.commands.web.openai.asking import WINDOW, answer_all, batch_of, lines, refusal, request, shown, upload

# batches ------------------------------------------------------------------------------------------------------------


def test_a_batch_becomes_a_job_and_its_results_become_files(
    client: TestClient, database: Database, runner: BatchRunner
) -> None:
    file = upload(client, lines(request("a"), request("b", n=2), request("c")))
    batch = batch_of(client, file["id"], metadata={"team": "weather"})
    assert (batch["status"], batch["metadata"]) == ("validating", {"team": "weather"})

    runner.look()
    going = shown(client, batch)
    answer_all(database)
    runner.look()
    done = shown(client, batch)

    assert (going["status"], going["request_counts"]) == ("in_progress", {"total": 3, "completed": 0, "failed": 1})
    assert (done["status"], done["request_counts"]) == ("completed", {"total": 3, "completed": 2, "failed": 1})
    assert done["created_at"] <= done["in_progress_at"] <= done["finalizing_at"] <= done["completed_at"]
    assert done["usage"]["total_tokens"] > 0
    output, errors = (
        [json.loads(line) for line in client.get(f"/v1/files/{done[name]}/content").text.splitlines()]
        for name in ("output_file_id", "error_file_id")
    )
    assert [line["custom_id"] for line in output] == ["a", "c"]
    assert [line["custom_id"] for line in errors] == ["b"]
    assert client.get(f"/v1/files/{done['output_file_id']}").json()["purpose"] == "batch_output"
    with database.reading() as connection:
        assert find_job(connection, batch["id"]).state == "done"


def test_the_page_of_the_job_shows_the_metadata_of_its_batch(client: TestClient, runner: BatchRunner) -> None:
    batch = batch_of(client, upload(client)["id"], metadata={"team": "<b>rain</b>"})
    runner.look()

    page = client.get("/jobs/1").text

    assert "team: &lt;b&gt;rain&lt;/b&gt;" in page
    assert batch["id"] in page


def test_two_batches_of_a_file_are_two_jobs(client: TestClient, database: Database, runner: BatchRunner) -> None:
    file = upload(client)
    batches = [batch_of(client, file["id"]) for _ in range(2)]

    runner.look()

    with database.reading() as connection:
        assert len({find_job(connection, batch["id"]).job_id for batch in batches}) == 2


def test_a_process_that_was_killed_behind_its_submit_makes_no_second_job(
    client: TestClient, database: Database, runner: BatchRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = batch_of(client, upload(client)["id"])

    def killed(*_: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr("jobs.operations.batch_runner.wake_workers", killed)
        with pytest.raises(SystemExit):
            runner.look()
    assert shown(client, batch)["status"] == "validating"
    runner.look()

    assert shown(client, batch)["status"] == "in_progress"
    with database.reading() as connection:
        assert find_job(connection, "last").job_id == find_job(connection, batch["id"]).job_id == 1


@pytest.mark.parametrize("is_read", [False, True])
def test_a_batch_that_is_cancelled_ends_with_what_it_has(
    client: TestClient, runner: BatchRunner, is_read: bool
) -> None:
    batch = batch_of(client, upload(client)["id"])
    if is_read:
        runner.look()

    answer = client.post(f"/v1/batches/{batch['id']}/cancel")
    runner.look()
    done = shown(client, batch)

    assert answer.json()["status"] == "cancelling"
    assert (done["status"], done["output_file_id"]) == ("cancelled", None)
    assert done["cancelling_at"] <= done["cancelled_at"]
    assert (done["error_file_id"] is not None) is is_read
    assert client.post(f"/v1/batches/{batch['id']}/cancel").json()["status"] == "cancelled"


def test_a_batch_whose_job_is_cancelled_by_somebody_is_cancelled(
    client: TestClient, database: Database, runner: BatchRunner
) -> None:
    batch = batch_of(client, upload(client)["id"])
    runner.look()
    cancel(database, 1)
    runner.look()

    assert shown(client, batch)["status"] == "cancelled"
    assert refusal(client.post("/v1/batches/batch_x/cancel"), 404)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"nonsense\n", "/v1/rerank"),
        (b"", "/v1/rerank"),
        (lines(request("a", model="no-such")), "demo-en-zh"),
        (lines(request("a", model="/etc")), "/etc"),
        (lines(request("a", model="../x")), "../x"),
        (lines(request("a", n=2)), "n: "),
        (lines({**request("a"), "url": "/v1/completions"}), "demo-en-zh"),
        (lines({"custom_id": "a", "url": "/score", "body": {"model": "demo-en-zh"}}), "text_1|demo-en-zh|/v1/score"),
        (bytes(range(256)), "request"),
    ],
)
def test_a_file_that_cannot_be_answered_fails_its_batch_with_the_reason(
    client: TestClient, runner: BatchRunner, content: bytes, says: str
) -> None:
    batch = batch_of(client, upload(client, content)["id"])

    runner.look()
    found = shown(client, batch)

    assert found["status"] == "failed"
    assert any(part in found["errors"]["data"][0]["message"] for part in says.split("|"))


def test_a_file_that_a_batch_has_to_read_is_not_deleted(client: TestClient, runner: BatchRunner) -> None:
    file = upload(client)
    batch_of(client, file["id"])

    assert refusal(client.delete(f"/v1/files/{file['id']}"), 409)["code"] == "file_in_use"
    runner.look()
    assert client.delete(f"/v1/files/{file['id']}").json()["deleted"]


@pytest.mark.parametrize(
    ("values", "param", "code"),
    [
        ({"input_file_id": None}, "input_file_id", "missing_required_parameter"),
        ({"input_file_id": 7}, "input_file_id", "invalid_type"),
        ({"input_file_id": "file-none"}, "input_file_id", "not_found"),
        ({"input_file_id": "../../x"}, "input_file_id", "not_found"),
        ({"input_file_id": "file-\0"}, "input_file_id", "not_found"),
        ({"endpoint": "/v1/embeddings"}, "endpoint", "invalid_value"),
        ({"endpoint": None}, "endpoint", "missing_required_parameter"),
        ({"completion_window": "soon"}, "completion_window", "invalid_value"),
        ({"metadata": []}, "metadata", "invalid_type"),
        ({"metadata": {"a": 1}}, "metadata", "invalid_value"),
        ({"metadata": {"a": "\0"}}, "metadata", "invalid_value"),
        ({"metadata": {str(number): "" for number in range(17)}}, "metadata", "invalid_value"),
        ({"metadata": {"a": "x" * 513}}, "metadata", "invalid_value"),
        ({"rain": 1}, "rain", "unknown_parameter"),
    ],
)
def test_a_batch_that_cannot_be_is_refused_by_its_parameter(
    client: TestClient, values: dict[str, Any], param: str, code: str
) -> None:
    file_id = upload(client)["id"]

    error = refusal(client.post("/v1/batches", json={"input_file_id": file_id, **WINDOW, **values}), 400)

    assert (error["param"], error["code"]) == (param, code)
    assert client.get("/v1/batches").json()["data"] == []


@pytest.mark.parametrize("body", [b"{", b"[]", b"7", b"\xff", b"[" * 5000])
def test_a_body_that_is_no_object_is_refused(client: TestClient, body: bytes) -> None:
    assert refusal(client.post("/v1/batches", content=body), 400)["type"] == "invalid_request_error"
