"""/v1: files, batches and models, as programs ask for them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from jobs.answers import Answers
from jobs.choices import Role
from jobs.operations.batch_runner import BatchRunner
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.jobs import cancel
from jobs.store.queue.leases import lease
from jobs.store.queue.record import record
from jobs.store.report.job_summary import find_job
from jobs.store.tokens import add_token
from jobs.web.app import Options, create_app
from tests.rows import translated

CHAT = "/v1/chat/completions"
WINDOW = {"endpoint": CHAT, "completion_window": "24h"}


def request(name: str, **body: Any) -> dict[str, Any]:
    whole = {"model": "demo-en-zh", "messages": [{"role": "user", "content": "It rains."}], **body}
    return {"custom_id": name, "method": "POST", "url": CHAT, "body": whole}


def lines(*requests: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(values).encode() + b"\n" for values in requests)


ONE = lines(request("a"))


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=home, models_dir=home / "models", max_upload="64k")


@pytest.fixture
def client(database: Database, settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(database, settings, Options(hosts=("testserver",)))) as client:
        yield client


@pytest.fixture
def runner(database: Database, settings: Settings) -> BatchRunner:
    """The thread of a dashboard, which moves batches when a test asks it to."""
    return BatchRunner(database, settings)


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


# files --------------------------------------------------------------------------------------------------------------


def test_a_file_comes_back_as_it_was_sent_until_it_is_deleted(client: TestClient, settings: Settings) -> None:
    sent = upload(client)

    assert (sent["object"], sent["bytes"], sent["filename"], sent["purpose"]) == ("file", len(ONE), "b.jsonl", "batch")
    assert client.get(f"/v1/files/{sent['id']}").json() == sent
    assert client.get(f"/v1/files/{sent['id']}/content").content == ONE
    assert [file["id"] for file in client.get("/v1/files").json()["data"]] == [sent["id"]]
    assert client.delete(f"/v1/files/{sent['id']}").json()["deleted"]
    assert refusal(client.get(f"/v1/files/{sent['id']}"), 404)["code"] == "not_found"
    assert list((settings.home / "uploads").iterdir()) == []


def test_files_and_their_folder_are_private(client: TestClient, settings: Settings) -> None:
    sent = upload(client)

    folder = settings.home / "uploads"
    assert (folder.stat().st_mode & 0o777, (folder / sent["id"]).stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.parametrize("name", ["../../etc/passwd", "..\\x", "/abs", "a\nb\x1b[2J", "x" * 300, "雨.jsonl", "."])
def test_the_name_of_a_file_is_a_word_and_no_path(client: TestClient, settings: Settings, name: str) -> None:
    sent = upload(client, name=name)

    assert "/" not in sent["filename"]
    assert sent["filename"].isprintable()
    assert len(sent["filename"]) <= 255
    assert [path.name for path in (settings.home / "uploads").iterdir()] == [sent["id"]]


def test_lists_have_pages_in_both_orders(client: TestClient) -> None:
    ids = [upload(client)["id"] for _ in range(5)]

    first = client.get("/v1/files?limit=2").json()
    second = client.get(f"/v1/files?limit=2&after={first['last_id']}").json()
    rest = client.get(f"/v1/files?limit=9&order=asc&after={ids[0]}").json()

    assert [file["id"] for file in (*first["data"], *second["data"])] == ids[:0:-1]
    assert (first["has_more"], first["first_id"]) == (True, ids[4])
    assert ([file["id"] for file in rest["data"]], rest["has_more"]) == (ids[1:], False)
    assert client.get("/v1/files?purpose=batch_output").json()["data"] == []


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limit=99999999", "order=up", "after=%00"])
def test_a_page_that_there_cannot_be_is_refused(client: TestClient, query: str) -> None:
    answer = client.get(f"/v1/files?{query}")

    assert answer.status_code in (400, 404)
    assert "error" in answer.json()


FORM = "multipart/form-data; boundary=x"
PURPOSE = b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        ("application/json", b"{}", "invalid_content_type"),
        ("multipart/form-data", b"", "invalid_content_type"),
        (FORM, b"", "incomplete_form"),
        (FORM, b"nonsense", "invalid_form"),
        (FORM, PURPOSE + b"--x--\r\n", "missing_required_parameter"),
        (FORM, FILE + b"abc\r\n--x--\r\n", "missing_required_parameter"),
        (FORM, PURPOSE + FILE + b"abc", "incomplete_form"),
        (FORM, PURPOSE + FILE + b"abc\r\n" + FILE + b"abc\r\n--x--\r\n", "invalid_value"),
        (FORM, PURPOSE * 20 + FILE + b"abc\r\n--x--\r\n", "too_many_parts"),
        (FORM, PURPOSE.replace(b"batch", b"b" * 5000) + FILE + b"abc\r\n--x--\r\n", "invalid_value"),
        (FORM, PURPOSE.replace(b"batch", b"rain") + FILE + b"abc\r\n--x--\r\n", "invalid_value"),
        (FORM, PURPOSE.replace(b"purpose", b"porpoise") + FILE + b"abc\r\n--x--\r\n", "unknown_parameter"),
        (FORM, PURPOSE.replace(b"\r\n\r\n", b"\r\nA: " + b"a" * 30_000 + b"\r\n\r\n"), "invalid_form"),
        (FORM, PURPOSE.replace(b"\r\n\r\n", b"\r\nA: a" * 500 + b"\r\n\r\n"), "invalid_form"),
    ],
)
def test_a_form_that_is_none_is_refused_and_leaves_nothing(
    client: TestClient, settings: Settings, kind: str, body: bytes, code: str
) -> None:
    assert refusal(client.post("/v1/files", content=body, headers={"content-type": kind}), 400)["code"] == code
    assert [*(settings.home / "uploads").glob("*")] == []
    assert client.get("/v1/files").json()["data"] == []


@pytest.mark.parametrize("declares", [True, False])
def test_a_file_that_is_too_long_is_refused_and_leaves_nothing(
    client: TestClient, settings: Settings, declares: bool
) -> None:
    body = PURPOSE + FILE + b"a" * 70_000 + b"\r\n--x--\r\n"
    parts = (body[start : start + 4096] for start in range(0, len(body), 4096))

    answer = client.post("/v1/files", content=body if declares else parts, headers={"content-type": FORM})

    assert refusal(answer, 413)["code"] == "too_large"
    assert [*(settings.home / "uploads").glob("*")] == []


def test_a_disk_that_is_full_is_an_error_object(
    client: TestClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)

    error = refusal(client.post("/v1/files", data={"purpose": "batch"}, files={"file": ("f", b"x")}), 503)
    assert "No space left" in error["message"]
    assert [*(settings.home / "uploads").glob("*")] == []


def test_what_a_killed_process_left_is_deleted(client: TestClient, settings: Settings, runner: BatchRunner) -> None:
    sent = upload(client)
    left = settings.home / "uploads" / ".partial-0123"
    left.write_bytes(b"half")

    runner.look()

    assert [path.name for path in (settings.home / "uploads").iterdir()] == [sent["id"]]


def test_a_file_is_deleted_when_its_time_is_over(client: TestClient) -> None:
    expiry = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    answer = client.post("/v1/files", data={"purpose": "batch", **expiry}, files={"file": ("f", b"x")})

    assert answer.json()["expires_at"] == answer.json()["created_at"] + 3600
    wrong = {"purpose": "batch", "expires_after[seconds]": "5"}
    assert refusal(client.post("/v1/files", data=wrong, files={"file": ("f", b"x")}), 400)["param"] == "expires_after"


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


# who may ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def bearer(database: Database) -> Callable[[str, Role], dict[str, str]]:
    def make(name: str, role: Role) -> dict[str, str]:
        return {"authorization": f"Bearer {add_token(database, name, role, 'test@here')}"}

    return make


def test_files_and_batches_are_their_owners(
    client: TestClient, runner: BatchRunner, bearer: Callable[[str, Role], dict[str, str]]
) -> None:
    ada, bob = bearer("ada", Role.PRODUCER), bearer("bob", Role.PRODUCER)
    operator = bearer("eve", Role.OPERATOR)
    file = upload(client, **ada)
    body = {"input_file_id": file["id"], **WINDOW}
    batch = client.post("/v1/batches", json=body, headers=ada).json()
    addresses = [f"/v1/files/{file['id']}", f"/v1/files/{file['id']}/content", f"/v1/batches/{batch['id']}"]

    for address in addresses:
        assert [client.get(address, headers=who).status_code for who in (ada, operator, bob)] == [200, 200, 404]
    assert refusal(client.post("/v1/batches", json=body, headers=bob), 400)["code"] == "not_found"
    assert refusal(client.delete(f"/v1/files/{file['id']}", headers=bob), 404)
    assert refusal(client.post(f"/v1/batches/{batch['id']}/cancel", headers=bob), 404)
    for address in ("/v1/files", "/v1/batches"):
        assert [len(client.get(address, headers=who).json()["data"]) for who in (ada, operator, bob)] == [1, 1, 0]
    assert refusal(client.get("/v1/files"), 401)["code"] == "invalid_api_key"


def test_who_may_only_look_sends_nothing(client: TestClient, bearer: Callable[[str, Role], dict[str, str]]) -> None:
    viewer = bearer("vic", Role.VIEWER)

    refusal(client.post("/v1/batches", json={}, headers=viewer), 403)
    refusal(client.post("/v1/files", content=b"", headers=viewer), 403)


@pytest.mark.parametrize(("options", "status"), [({"read_only": True}, 403), ({"has_api": False}, 404)])
def test_a_dashboard_without_changes_or_without_api_takes_nothing(
    database: Database, settings: Settings, options: dict[str, bool], status: int
) -> None:
    with TestClient(create_app(database, settings, Options(hosts=("testserver",), **options))) as client:
        refusal(client.post("/v1/batches", json={}), status)


# models and the rest ------------------------------------------------------------------------------------------------


def test_the_models_are_those_that_requests_may_name(client: TestClient) -> None:
    listed = client.get("/v1/models").json()["data"]

    assert [model["id"] for model in listed] == ["demo-en-zh", "demo-lm"]
    assert client.get("/v1/models/demo-lm").json() == listed[1]
    refusal(client.get("/v1/models/%2e%2e%2fetc"), 404)
    refusal(client.get("/v1/models/a/b"), 404)


@pytest.mark.parametrize(
    ("method", "address", "status"),
    [
        ("GET", "/v1", 404),
        ("GET", "/v1/rain", 404),
        ("PUT", "/v1/files", 405),
        ("GET", "/v1/files/..%2f..%2fetc", 404),
        ("GET", "/v1/files/file-%00", 404),
        ("GET", "/v1/files/.partial-1/content", 404),
        ("GET", "/v1/batches/batch_%00", 404),
        ("GET", f"/v1/batches/{'x' * 3000}", 404),
    ],
)
def test_an_address_that_there_is_not_is_an_error_object(
    client: TestClient, method: str, address: str, status: int
) -> None:
    refusal(client.request(method, address), status)
