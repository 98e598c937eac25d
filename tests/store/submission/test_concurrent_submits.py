"""Two submits of one corpus, and a submit whose job is cancelled, restarted or abandoned at the same time."""

import gzip
import io
import threading
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from jobs.errors import CorpusError, KeyTaken, KvjobsError
from jobs.store import jobs
from jobs.store.database import Database
from jobs.store.ingest import lifecycle
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Document, Job
from jobs.submission.progress import IngestProgress
from jobs.submission.submitted_job import PriorState, SubmittedJob
from tests.store.submission.killing import SPEC, Killed, corpus_of, everything, kill_after, killed, send, states

pytestmark = pytest.mark.usefixtures("small_batches")


@pytest.mark.parametrize("batches_of_other", [1, 2, 3, 4])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_two_submits_of_one_corpus_make_one_job(
    database: Database, path: Path, after: int, batches_of_other: int
) -> None:
    reference = replace(SPEC, model_revision="reference")
    expected = everything(database, send(database, path, spec=reference).job_id)
    reported = count(1)

    def run_the_other(progress: IngestProgress) -> None:
        if next(reported) == after:
            with suppress(Killed):
                send(database, path, on_progress=kill_after(batches_of_other) if batches_of_other < 4 else None)

    first = send(database, path, on_progress=run_the_other)

    assert (first.state, first.documents) == (JobState.RUNNING, 20)
    assert everything(database, first.job_id) == expected
    assert len(states(database)) == 2


def test_submits_in_threads_make_one_job(database: Database, path: Path) -> None:
    path.write_bytes(corpus_of(*(str(number % 90) for number in range(100))))
    made: list[SubmittedJob] = []

    def run() -> None:
        own = Database.open(str(database.engine.url))
        made.append(send(own, path))
        own.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {(one.state, one.documents, one.rejected) for one in made} == {(JobState.RUNNING, 100, 10)}
    # One number, not always 1: PostgreSQL spends one on an INSERT that is refused.
    assert len({one.job_id for one in made}) == 1
    assert [one.prior_state for one in made].count(PriorState.NEW) == 1
    with database.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(Document)) == 100


def cancel_once(database: Database) -> None:
    if states(database) == [(1, "ingesting")]:
        jobs.cancel(database, 1)


def test_a_submit_stops_when_its_job_is_cancelled(database: Database, path: Path) -> None:
    with pytest.raises(KvjobsError, match=r"job 1 .*cancelled or abandoned") as caught:
        send(database, path, on_progress=lambda progress: cancel_once(database))

    assert caught.value.exit_code == 1
    assert states(database) == [(1, "cancelled")]
    assert len(everything(database, 1)["Document"]) == 6


def test_a_submit_stops_when_another_submit_starts_its_job_again(database: Database, path: Path) -> None:
    def start_anew(progress: IngestProgress) -> None:
        lifecycle.abandon(database, 1, "given up by a user")
        killed(database, path, 1)

    with pytest.raises(KvjobsError, match="started again"):
        send(database, path, on_progress=lambda p: start_anew(p) if p.documents > 6 else None)

    assert send(database, path).documents == 20


def test_a_submit_stops_when_its_job_is_abandoned_or_removed(database: Database, path: Path) -> None:
    with pytest.raises(KvjobsError, match=r"abandoned .*given up by a user"):
        send(database, path, on_progress=lambda progress: lifecycle.abandon(database, 1, "given up by a user"))
    with pytest.raises(KvjobsError, match=r"job 1 .*removed"):
        send(database, path, on_progress=lambda progress: lifecycle.remove(database, 1))

    assert states(database) == []


@pytest.mark.parametrize("verb", ["abandon", "remove"])
def test_after_a_kill_while_an_ingest_is_abandoned_the_next_submit_starts_from_the_beginning(
    database: Database, path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    expected = everything(database, send(database, path, spec=replace(SPEC, model_revision="reference")).job_id)
    killed(database, path, 3)

    def die(*args: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "_remove_documents", die)
        with pytest.raises(Killed):
            lifecycle.abandon(database, 2, "why") if verb == "abandon" else lifecycle.remove(database, 2)
    left = everything(database, 2)
    assert (len(left["Document"]), left["Shard"], left["JobCounts"][0]["documents"]) == (18, [], 0)

    anew = send(database, path, name="nightly")

    assert (anew.job_id, anew.prior_state, anew.name) == (2, PriorState.NEW, "nightly")
    assert everything(database, 2) == expected


def test_only_an_unfinished_ingest_can_be_abandoned(database: Database, path: Path) -> None:
    send(database, path)
    before = everything(database, 1)

    lifecycle.abandon(database, 1, "why")
    lifecycle.remove(database, 1)

    assert everything(database, 1) == before


def test_documents_are_removed_in_several_transactions(
    database: Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "ROWS_PER_DELETE", 7)
    killed(database, path, 3)
    with database.writing() as connection:
        connection.execute(update(Job).values(name="nightly"))

    lifecycle.remove(database, 1)

    assert states(database) == []
    assert everything(database, 1) == {"Document": [], "Shard": [], "JobCounts": [], "Job": []}


@pytest.mark.parametrize("documents_of_other", [3, 20, 40])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_two_corpora_with_one_key_are_never_mixed(
    database: Database, path: Path, tmp_path: Path, after: int, documents_of_other: int
) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(corpus_of(*(str(1000 + number) for number in range(documents_of_other))))
    refused, reported = list[KeyTaken](), count(1)

    def send_the_other(progress: IngestProgress) -> None:
        if next(reported) == after:
            with pytest.raises(KeyTaken, match="order 66") as caught:
                send(database, other, key="order 66")
            refused.append(caught.value)

    first = send(database, path, key="order 66", on_progress=send_the_other)

    assert (len(refused), first.documents) == (1, 20)
    assert send(database, other, key="order 66").prior_state == PriorState.RUNNING
    alone = send(database, path, spec=replace(SPEC, model_revision="reference"))
    assert everything(database, first.job_id)["Document"] == everything(database, alone.job_id)["Document"]


def test_a_damaged_corpus_of_the_same_key_leaves_the_job_of_another_as_it_is(
    database: Database, path: Path, tmp_path: Path
) -> None:
    whole = gzip.compress(path.read_bytes())
    (tmp_path / "half.jsonl.gz").write_bytes(whole[:-8])

    def send_half(progress: IngestProgress) -> None:
        if progress.documents == 20:
            with pytest.raises(CorpusError, match="too early"):
                send(database, tmp_path / "half.jsonl.gz", key="k")

    assert send(database, path, key="k", on_progress=send_half).documents == 20


def test_a_stream_that_cannot_be_read_to_its_end_leaves_no_job(database: Database, path: Path) -> None:
    half = gzip.compress(path.read_bytes())[:-8]

    with pytest.raises(CorpusError, match="too early"):
        send(database, Path("-"), stream=io.BytesIO(half))

    assert states(database) == []
