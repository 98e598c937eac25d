"""OpenAI's own client against `kvjobs web`: the script of its documentation on batches, with another base_url."""

import http.client
import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.machine import PATIENCE_S, Machine, until

ENDED = ("completed", "failed", "cancelled")
PART = (
    b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
)
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


class Dashboard:
    """A `kvjobs web`, which can be killed and started again at the same port."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.port, self.process = 0, None
        self.start()

    def start(self, **variables: str) -> None:
        self.process: subprocess.Popen[str] | None = self.machine.start("web", "--port", str(self.port), **variables)
        assert self.process.stderr is not None
        line = ""
        while "http://" not in line:
            line = self.process.stderr.readline()
            assert line, "the dashboard has ended"
        (port,) = re.findall(r":(\d+) ", line)
        self.port = int(port)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @property
    def client(self) -> OpenAI:
        return OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", max_retries=0)


@pytest.fixture
def dashboard(machine: Machine) -> Iterator[Dashboard]:
    return Dashboard(machine)


def requests(url: str, *bodies: dict[str, Any]) -> bytes:
    lines = [
        {"custom_id": f"request-{number}", "method": "POST", "url": url, "body": body}
        for number, body in enumerate(bodies, 1)
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def chat(text: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": text}]
    return {"model": "demo-en-zh", "messages": messages, "max_tokens": 1000, **more}


def wait_for(client: OpenAI, batch_id: str) -> Any:
    until(lambda: client.batches.retrieve(batch_id).status in ENDED)
    return client.batches.retrieve(batch_id)


@pytest.mark.usefixtures("worker")
def test_the_script_of_the_documentation_works_with_another_address(machine: Machine, dashboard: Dashboard) -> None:
    path = machine.folder / "batchinput.jsonl"
    path.write_bytes(requests(CHAT, chat("It will rain."), chat("It will snow."), chat("Hm.", n=2)))
    client = dashboard.client

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
def test_a_batch_survives_the_dashboard_that_is_killed_anywhere(
    machine: Machine, dashboard: Dashboard, where: str
) -> None:
    body = {"model": "demo-lm", "prompt": "Snow will", "max_tokens": 2}
    uploaded = dashboard.client.files.create(file=requests(COMPLETIONS, *([body] * 30)), purpose="batch")
    dashboard.kill()
    dashboard.start(KVJOBS_FAILPOINTS=f"{where}:kill", KVJOBS_FAILPOINTS_LOG=str(machine.folder / "hits"))
    batch = dashboard.client.batches.create(input_file_id=uploaded.id, endpoint=COMPLETIONS, completion_window="24h")
    assert dashboard.process is not None
    dashboard.process.wait(PATIENCE_S)
    dashboard.start()

    done = wait_for(dashboard.client, batch.id)

    assert (done.status, done.request_counts.completed) == ("completed", 30)
    answers = dashboard.client.files.content(done.output_file_id).text.splitlines()
    assert sorted({json.loads(line)["custom_id"] for line in answers}) == sorted(f"request-{n}" for n in range(1, 31))
    assert len(answers) == 30
    assert machine.ask("select count(*) from jobs") == [(1,)]


def test_an_upload_that_is_cut_off_leaves_nothing(machine: Machine, dashboard: Dashboard) -> None:
    folder = machine.home / "uploads"
    with socket.create_connection(("127.0.0.1", dashboard.port)) as connection:
        head = "POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n"
        connection.sendall(f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n".encode() + PART)
        connection.sendall(b"x" * 100_000)
        until(lambda: [*folder.glob("*")])

    until(lambda: not [*folder.glob("*")])
    assert list(dashboard.client.files.list()) == []


def memory_of(pid: int) -> int:
    """The most memory that a process has used, in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])


def test_memory_does_not_grow_with_the_upload(dashboard: Dashboard) -> None:
    client = dashboard.client
    client.files.create(file=b"x", purpose="batch")
    assert dashboard.process is not None
    before = memory_of(dashboard.process.pid)

    def body() -> Iterator[bytes]:
        yield PART
        for _ in range(300):
            yield b"x" * (1 << 20)
        yield b"\r\n--x--\r\n"

    connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=PATIENCE_S)
    headers = {"content-type": "multipart/form-data; boundary=x", "transfer-encoding": "chunked"}
    connection.request("POST", "/v1/files", body(), headers, encode_chunked=True)
    answer = json.load(connection.getresponse())
    connection.close()

    assert answer["bytes"] == 300 << 20
    assert memory_of(dashboard.process.pid) - before < 30_000
