"""Uploads to a real server whose process is killed, and clients that go away: one job, each document once, no file."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from jobs.store.database import Database
from jobs.store.report.job_summary import list_jobs
from jobs.submission.shards import BATCH_DOCUMENTS
from tests.web_here import web_here
from tests.web_process import WebProcess, web_process

KEY = {"Idempotency-Key": "order 66"}


def lines(count: int, note: int = 0) -> bytes:
    """A corpus of so many documents, each with a field of `note` bytes that passes through."""
    documents = ({"id": str(number), "text": f"Snow {number} falls.", "note": "x" * note} for number in range(count))
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


SEVERAL = BATCH_DOCUMENTS + 1_000  # documents that a submit writes in more than one transaction
HALF_SENT = lines(800, note=4_000)  # the half of it is more than the server collects before it writes


def submit(address: str, body: Any) -> dict[str, Any]:
    answer = httpx2.post(f"{address}/api/jobs", content=body, headers=KEY, timeout=120)
    found: dict[str, Any] = answer.json()
    return found


def jobs_of(home: Path) -> list[tuple[int, int]]:
    """Number and documents of each job."""
    database = Database.open(f"sqlite:///{home / 'kvjobs.db'}")
    with database.reading() as connection:
        found = [(job.job_id, job.documents) for job in list_jobs(connection)]
    database.close()
    return found


def half_sent(web: WebProcess) -> socket.socket:
    """A connection that has declared a body, and sent a half of it."""
    where = urlsplit(web.address)
    connection = socket.create_connection((where.hostname, where.port))  # type: ignore[arg-type]  # it has both
    head = f"POST /api/jobs HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Length: {len(HALF_SENT)}\r\n\r\n"
    connection.sendall(head.encode() + HALF_SENT[: len(HALF_SENT) // 2])
    return connection


def spooled(web: WebProcess) -> int:
    """Bytes of the files without a name that the process holds in its spool."""
    num_bytes = 0
    for file in Path(f"/proc/{web.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it has been closed meanwhile
            if "/spool/" in str(file.readlink()):
                num_bytes += file.stat().st_size
    return num_bytes


def wait_for(is_so: Any) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_client_that_goes_away_in_the_middle_leaves_nothing(home: Path) -> None:
    with web_process(home) as web:
        connection = half_sent(web)
        wait_for(lambda: spooled(web) > 0)
        connection.close()

        wait_for(lambda: spooled(web) == 0)
        assert httpx2.get(f"{web.address}/api/jobs").json()["jobs"] == []
        assert [*(home / "spool").iterdir()] == []
        assert "Traceback" not in (home / "web.log").read_text()


def test_a_server_that_is_killed_during_an_upload_leaves_nothing(home: Path) -> None:
    with web_process(home) as web, half_sent(web):
        wait_for(lambda: spooled(web) > 0)
        web.kill()

    assert [*(home / "spool").iterdir()] == []
    with web_here() as address:
        assert submit(address, HALF_SENT)["prior_state"] == "new"
    assert jobs_of(home) == [(1, 800)]


@pytest.mark.parametrize(("point", "documents"), [("after-ingest-batch", SEVERAL), ("before-ingest-finish", 500)])
def test_a_server_that_is_killed_while_it_makes_a_job_goes_on_by_the_same_request(
    home: Path, point: str, documents: int
) -> None:
    body = lines(documents)
    with web_process(home, KVJOBS_FAILPOINTS=f"{point}:kill", KVJOBS_FAILPOINTS_LOG=str(home / "hits")) as web:
        with pytest.raises(httpx2.HTTPError):
            submit(web.address, body)
        web.process.wait(30)

    with web_here() as address:
        found = submit(address, body)
        again = submit(address, body)

    assert (found["prior_state"], again["prior_state"]) == ("resumed", "running")
    assert jobs_of(home) == [(1, documents)]


def test_a_job_is_made_whole_though_its_client_has_gone(home: Path) -> None:
    with web_process(home) as web:
        where = urlsplit(web.address)
        connection = socket.create_connection((where.hostname, where.port))  # type: ignore[arg-type]
        body = lines(SEVERAL)
        head = f"POST /api/jobs HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(f"{head}Idempotency-Key: order 66\r\n\r\n".encode() + body)
        wait_for(lambda: httpx2.get(f"{web.address}/api/jobs").json()["jobs"])
        connection.close()

        assert submit(web.address, body)["prior_state"] in ("resumed", "running")
        wait_for(lambda: httpx2.get(f"{web.address}/api/jobs/1").json()["state"] == "running")
    assert jobs_of(home) == [(1, SEVERAL)]


def slow_reader(web: WebProcess) -> Iterator[socket.socket]:
    where = urlsplit(web.address)
    connection = socket.create_connection((where.hostname, where.port))  # type: ignore[arg-type]
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sendall(f"GET /api/jobs/1/results?only=all HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
    yield connection


def test_sixty_slow_readers_keep_nobody_out(home: Path) -> None:
    with web_process(home) as web:
        submit(web.address, lines(3_000, note=4_000))  # results that no buffer of a socket holds
        readers = [next(slow_reader(web)) for _ in range(60)]
        time.sleep(1)

        took = []
        for _ in range(20):
            began = time.monotonic()
            assert httpx2.get(f"{web.address}/healthz", timeout=10).status_code == 200
            took.append(time.monotonic() - began)

        assert sorted(took)[10] < 1.0, took
        assert len([*Path(f"/proc/{web.process.pid}/task").iterdir()]) < len(readers)
        for reader in readers:
            reader.close()
