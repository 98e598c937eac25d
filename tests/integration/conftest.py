"""A Redis of the test's own, which it may kill; and `kvjobs` as a user runs it, with that Redis as its broker."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NoConnection

from jobs.store.database import Database
from tests.end_to_end.conftest import Machine, bulletins, machine

__all__ = ["bulletins", "machine"]


class RedisServer:
    """One that keeps nothing: whatever it held is lost when it ends."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self.url = f"redis://127.0.0.1:{port}/0"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
        )
        until(self._answers)

    def kill(self) -> None:
        """As the kernel would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def client(self) -> Redis:
        return Redis(port=self.port)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except NoConnection:
            return False


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    if shutil.which("redis-server") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("redis-server is not installed")
    server = RedisServer(tmp_path, free_port())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def fleet(machine: Machine, redis_server: RedisServer) -> Iterator["Fleet"]:
    """Idle workers look for work every few minutes only: what is quick was woken by a hint."""
    machine.environment.update(KVJOBS_BROKER=redis_server.url, KVJOBS_POLL_S="600")
    fleet = Fleet(machine, redis_server)
    yield fleet
    fleet.end()


class Fleet:
    """Workers with a broker, and what the database says about them."""

    def __init__(self, machine: Machine, redis: RedisServer) -> None:
        self.machine = machine
        self.redis = redis
        self.kvjobs = machine.kvjobs
        self._workers: list[subprocess.Popen[str]] = []

    def worker(self, *arguments: str) -> "subprocess.Popen[str]":
        """A worker that has begun to look for work."""
        known = self.ask("select count(*) from workers")[0][0] if self._has_database() else 0
        worker = self.machine.start("worker", *arguments)
        self._workers.append(worker)
        until(lambda: self._has_database() and self.ask("select count(*) from workers")[0][0] > known)
        return worker

    def submit(self, corpus: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
        done = self.kvjobs("submit", str(corpus), *arguments)
        assert done.returncode == 0, done.stderr
        return done

    def ask(self, sql: str) -> list[Any]:
        database = Database.connect(f"sqlite:///{self.machine.environment['KVJOBS_HOME']}/kvjobs.db")
        try:
            with database.reading() as connection:
                return list(connection.exec_driver_sql(sql).all())
        finally:
            database.close()

    def succeeded(self) -> int:
        return int(self.ask("select coalesce(sum(succeeded), 0) from job_counts")[0][0])

    def is_done(self) -> bool:
        return all(state == "done" for (state,) in self.ask("select state from jobs"))

    def end(self) -> None:
        for worker in self._workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
        for worker in self._workers:
            worker.communicate(timeout=30)

    def _has_database(self) -> bool:
        home = Path(self.machine.environment["KVJOBS_HOME"])
        if not (home / "kvjobs.db").exists():
            return False
        return bool(self.ask("select count(*) from sqlite_master where name = 'posts'")[0][0])


def until(condition: Callable[[], object], timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def child_of(pid: int) -> int | None:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else None
