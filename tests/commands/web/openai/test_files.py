"""/v1/files: uploads, lists and what is refused."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from jobs.operations.batch_runner import BatchRunner
from jobs.settings import Settings
from tests.commands.web.openai.asking import ONE, refusal, upload


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
