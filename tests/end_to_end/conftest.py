"""Fixtures for `kvjobs` as a user runs it: `machine` runs it in processes, with a home and a folder of its own. The
fixture `kvjobs` runs it in this process on the same home, for preparations and checks: a process costs a second more.
`worker` is a thread of this process, for tests of results."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvjobs import Client, connect
from tests.machine import Machine
from tests.web_here import web_here
from tests.worker_here import worker_here
from tools.demo.examples import lines

Bulletins = Callable[..., Path]


@pytest.fixture
def machine(home: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    shutil.copy(empty_database, home / "kvjobs.db")
    folder = home.parent / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KVJOBS_LANES", "1")
    machine = Machine(home, folder)
    yield machine
    machine.end()


@pytest.fixture
def worker(machine: Machine) -> Iterator[None]:
    """A worker that processes whatever is submitted."""
    with worker_here():
        yield


@pytest.fixture(params=["local", "server"])
def kv(worker: None, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of the database of this test, and one of a server of it."""
    if request.param == "local":
        with connect() as client:
            yield client
        return
    with web_here() as address, connect(address) as client:
        yield client


@pytest.fixture
def bulletins(machine: Machine) -> Bulletins:
    """A function that writes a corpus of bulletins on which the bundled model was not trained."""

    def write(count: int, name: str = "bulletins.jsonl") -> Path:
        path = machine.folder / name
        path.write_text("".join(lines(count, seed=3, references=True)), encoding="utf-8")
        return path

    return write
