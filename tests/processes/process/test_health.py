"""The health check of a worker on this machine through its socket, without a database or a broker."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.dispatch.health import FOLDER, LONGEST_ADDRESS, Health, address, ask, socket_folder_and_prefix
from jobs.settings import Settings, read_settings
from jobs.system.process import this_machine
from tests.command_line import Kvjobs
from worker.process.health import serve_health

WELL = Health(worker_id=7, host="here", pid=123, machine=this_machine(), lives=True, silent_s=1.5)


@pytest.fixture
def settings(home: Path) -> Settings:
    return read_settings({})[0]


@contextmanager
def hanging_worker(settings: Settings, pid: int) -> Iterator[None]:
    """The socket of a worker that accepts connections but does not answer, as if it hangs."""
    folder, prefix = socket_folder_and_prefix(settings)
    folder.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener, address(folder / f"{prefix}{pid}-abcd1234.sock") as name:
        listener.bind(name)
        listener.listen()
        yield


def test_a_worker_answers_without_a_database_or_a_broker(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVJOBS_BROKER", "redis://127.0.0.1:1/0")
    code = """
import sys
from jobs.cli.main import run
assert run(["worker", "ping", "--here", "--json"]) == 0
print("LOADED", [name for name in ("sqlalchemy", "celery", "kombu", "redis", "numpy") if name in sys.modules])
"""
    with serve_health(settings, lambda: WELL):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)

    assert '"worker_id":7' in done.stdout, done.stderr
    assert "LOADED []" in done.stdout
    assert not (settings.home / "kvjobs.db").exists()


@pytest.mark.parametrize(("lives", "exit_code"), [(True, 0), (False, 1)])
def test_the_exit_code_follows_the_answer_of_the_worker(
    settings: Settings, kvjobs: Kvjobs, lives: bool, exit_code: int
) -> None:
    with serve_health(settings, lambda: replace(WELL, lives=lives)):
        result = kvjobs("worker", "ping", "--here", "--json")

    assert (result.exit_code, [row["lives"] for row in result.json]) == (exit_code, [lives])


def test_a_worker_that_does_not_answer_counts_as_dead_and_does_not_delay_the_others(settings: Settings) -> None:
    with hanging_worker(settings, 55), serve_health(settings, lambda: WELL), hanging_worker(settings, 66):
        found = ask(settings, 0.2)

    assert {(one.pid, one.lives) for one in found} == {(55, False), (66, False), (123, True)}


def test_the_socket_of_a_killed_worker_is_ignored_and_removed_by_the_next_worker(settings: Settings) -> None:
    with hanging_worker(settings, 55):
        pass

    assert ask(settings, 0.2) == []
    with serve_health(settings, lambda: WELL):
        assert len(list((settings.home / FOLDER).iterdir())) == 1
    assert list((settings.home / FOLDER).iterdir()) == []


def test_workers_of_another_machine_or_another_database_are_not_checked(settings: Settings) -> None:
    with serve_health(settings, lambda: replace(WELL, machine="another boot")):
        assert ask(settings, 0.2) == []
    with serve_health(replace(settings, database="postgresql://host/jobs"), lambda: WELL):
        assert ask(settings, 0.2) == []


def test_the_socket_works_even_if_the_path_of_the_home_is_too_long_for_one(settings: Settings) -> None:
    deep = replace(settings, home=settings.home / ("d" * LONGEST_ADDRESS))

    with serve_health(deep, lambda: WELL):
        assert ask(deep, 0.2) == [WELL]
    with address(socket_folder_and_prefix(deep)[0] / "x") as name:
        assert len(name) < LONGEST_ADDRESS


def test_a_worker_whose_home_is_read_only_runs_without_the_socket(settings: Settings) -> None:
    settings.home.joinpath(FOLDER).touch()  # a file where the folder would be

    with serve_health(settings, lambda: WELL):
        assert ask(settings, 0.2) == []
