"""Fixtures: a Redis server that belongs to the test, which may kill it, and workers with that Redis as broker."""

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NoConnection

from tests.command_line import Kvjobs, Result
from tests.end_to_end.conftest import bulletins, machine
from tests.machine import Machine, until

__all__ = ["bulletins", "machine"]


class RedisServer:
    """A Redis server without persistence: its content is lost when it ends."""

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
        pytest.skip("redis-server is not installed")
    server = RedisServer(tmp_path, free_port())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def fleet(machine: Machine, kvjobs: Kvjobs, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> "Fleet":
    """Workers with the Redis as broker. Idle workers poll the database only every ten minutes: if a worker begins at
    once, a hint woke it."""
    monkeypatch.setenv("KVJOBS_BROKER", redis_server.url)
    monkeypatch.setenv("KVJOBS_POLL_S", "600")
    return Fleet(machine, kvjobs, redis_server)


class Fleet:
    """Workers with a broker. The workers run in processes of their own, all other commands in this process."""

    def __init__(self, machine: Machine, kvjobs: Kvjobs, redis: RedisServer) -> None:
        self.machine = machine
        self.redis = redis
        self.kvjobs = kvjobs
        self.ask, self.succeeded, self.is_done = machine.ask, machine.succeeded, machine.is_done
        self.worker = machine.worker

    def submit(self, corpus: Path, *arguments: str) -> Result:
        done = self.kvjobs("submit", corpus, *arguments)
        assert done.exit_code == 0, done.err
        return done


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
