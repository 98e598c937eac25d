"""OpenAI's own client against `kvjobs web`: the script of its documentation on batches, with another base_url."""

import http.client
import json
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.machine import PATIENCE_S, Machine, until
from tests.web_here import web_here

if TYPE_CHECKING:  # takes a second to load, which each process of a test run would spend to collect the tests
    from openai import OpenAI

ENDED = ("completed", "failed", "cancelled")
PART = (
    b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
)
UPLOADED = 100 << 20  # bytes; memory may grow by 30 MB
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


class Dashboard:
    """A `kvjobs web` in a process of its own, for what asks for one: its death, and its memory."""

    def __init__(self, machine: Machine, **variables: str) -> None:
        self.process = machine.start("web", "--port", "0", **variables)
        assert self.process.stderr is not None
        line = ""
        while "http://" not in line:
            line = self.process.stderr.readline()
            assert line, "the dashboard has ended"
        (port,) = re.findall(r":(\d+) ", line)
        self.address = f"http://127.0.0.1:{port}"


@pytest.fixture
def address(machine: Machine) -> Iterator[str]:
    """Of a dashboard in this process."""
    with web_here() as address:
        yield address


def client_of(address: str) -> "OpenAI":
    from openai import OpenAI

    return OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)


def requests(url: str, *bodies: dict[str, Any]) -> bytes:
    lines = [
        {"custom_id": f"request-{number}", "method": "POST", "url": url, "body": body}
        for number, body in enumerate(bodies, 1)
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def chat(text: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": text}]
    return {"model": "demo-en-zh", "messages": messages, "max_tokens": 1000, **more}


def wait_for(client: "OpenAI", batch_id: str) -> Any:
    until(lambda: client.batches.retrieve(batch_id).status in ENDED)
    return client.batches.retrieve(batch_id)


@pytest.mark.usefixtures("worker")
def test_the_script_of_the_documentation_works_with_another_address(machine: Machine, address: str) -> None:
    import openai

    path = machine.folder / "batchinput.jsonl"
    path.write_bytes(requests(CHAT, chat("It will rain."), chat("It will snow."), chat("Hm.", n=2)))
    client = client_of(address)

    with path.open("rb") as file:
        batch_input_file = client.files.create(file=file, purpose="batch")
    created = client.batches.create(
        input_file_id=batch_input_file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"description": "nightly eval job"},
    )
    batch = wait_for(client, created.id)

    assert (batch.status, batch.metadata) == ("completed", {"description": "nightly eval job"})
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (3, 2, 1)
    answers = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
    assert [answer["custom_id"] for answer in answers] == ["request-1", "request-2"]
    parsed = openai.types.chat.ChatCompletion.model_validate(answers[0]["response"]["body"])
    assert parsed.choices[0].message.content
    assert batch.usage.output_tokens == sum(a["response"]["body"]["usage"]["completion_tokens"] for a in answers)
    (error,) = map(json.loads, client.files.content(batch.error_file_id).text.splitlines())
    assert error["response"]["body"]["error"]["param"] == "n"
    assert {model.id for model in client.models.list()} >= {"demo-en-zh", "demo-lm"}
    assert [found.id for found in client.batches.list(limit=1)] == [created.id]
    with pytest.raises(openai.NotFoundError):
        client.files.content("file-none")
    with pytest.raises(openai.BadRequestError):
        client.batches.create(input_file_id="file-none", endpoint="/v1/completions", completion_window="24h")


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    "where", ["after-ingest-batch", "before-ingest-finish", "after-batch-submit", "before-batch-end"]
)
def test_a_batch_survives_the_dashboard_that_is_killed_anywhere(machine: Machine, where: str) -> None:
    dying = Dashboard(machine, KVJOBS_FAILPOINTS=f"{where}:kill", KVJOBS_FAILPOINTS_LOG=str(machine.folder / "hits"))
    client = client_of(dying.address)
    body = {"model": "demo-lm", "prompt": "Snow will", "max_tokens": 2}
    uploaded = client.files.create(file=requests(COMPLETIONS, *([body] * 30)), purpose="batch")
    batch = client.batches.create(input_file_id=uploaded.id, endpoint=COMPLETIONS, completion_window="24h")
    assert dying.process.wait(PATIENCE_S) == -signal.SIGKILL

    with web_here() as address:
        client = client_of(address)
        done = wait_for(client, batch.id)
        answers = client.files.content(done.output_file_id).text.splitlines()

    assert (done.status, done.request_counts.completed) == ("completed", 30)
    assert sorted({json.loads(line)["custom_id"] for line in answers}) == sorted(f"request-{n}" for n in range(1, 31))
    assert len(answers) == 30
    assert machine.ask("select count(*) from jobs") == [(1,)]


def test_an_upload_that_is_cut_off_leaves_nothing(machine: Machine, address: str) -> None:
    folder = machine.home / "uploads"
    with socket.create_connection(("127.0.0.1", urlsplit(address).port)) as connection:
        head = "POST /v1/files HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9000000\r\n"
        connection.sendall(f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n".encode() + PART)
        connection.sendall(b"x" * 100_000)
        until(lambda: [*folder.glob("*")])

    until(lambda: not [*folder.glob("*")])
    assert list(client_of(address).files.list()) == []


def memory_of(pid: int) -> int:
    """The most memory that a process has used, in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])


def test_memory_does_not_grow_with_the_upload(machine: Machine) -> None:
    dashboard = Dashboard(machine)
    client_of(dashboard.address).files.create(file=b"x", purpose="batch")
    before = memory_of(dashboard.process.pid)

    def body() -> Iterator[bytes]:
        yield PART
        for _ in range(UPLOADED >> 20):
            yield b"x" * (1 << 20)
        yield b"\r\n--x--\r\n"

    connection = http.client.HTTPConnection(urlsplit(dashboard.address).netloc, timeout=PATIENCE_S)
    headers = {"content-type": "multipart/form-data; boundary=x", "transfer-encoding": "chunked"}
    connection.request("POST", "/v1/files", body(), headers, encode_chunked=True)
    answer = json.load(connection.getresponse())
    connection.close()

    assert answer["bytes"] == UPLOADED
    assert memory_of(dashboard.process.pid) - before < 30_000
