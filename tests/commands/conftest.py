"""Commands start no process here; `kvjobs doctor` tries the compiled kernels in one."""

from pathlib import Path

import pytest

from tests.commands.corpora import corpus_of


@pytest.fixture
def corpus(home: Path, tmp_path: Path) -> Path:
    """A corpus of two documents."""
    return corpus_of(tmp_path / "corpus.jsonl", "It will rain in Arden.", "It will snow in Arden.")


@pytest.fixture(autouse=True)
def kernels_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.kernels.library.try_kernels", lambda: None)


class WaitingWorker:
    """In place of the process of an embedded worker that waits for its job."""

    has_job = False

    def __init__(self, *_: object) -> None:
        self.is_killed = False

    def serve(self, job_id: int) -> None:
        raise AssertionError("a test of the commands has no worker process that could serve a job")

    def kill(self) -> None:
        self.is_killed = True


@pytest.fixture(autouse=True)
def waiting_workers(monkeypatch: pytest.MonkeyPatch) -> list[WaitingWorker]:
    """The workers that `submit --wait` has started early."""
    started: list[WaitingWorker] = []

    def start(*_: object) -> WaitingWorker:
        started.append(WaitingWorker())
        return started[-1]

    monkeypatch.setattr("jobs.cli.commands.submit.EmbeddedWorker", start)
    return started
