"""A job that stays open, with a worker in processes of its own: how soon results come, and how it ends."""

import json
import time
from pathlib import Path

import pytest

from jobs.export.running_results import new_results, results_of_ids
from jobs.settings import read_settings
from jobs.store.database import Database
from jobs.store.report.job_summary import JobSummary, find_job
from jobs.submission.open_job import OpenJob, append, corpus_of_documents, open_job
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from jobs.worker_port import worker_port
from tests.command_line import Kvjobs
from tests.machine import PATIENCE_S, Machine, until

BULLETIN = "Snow will fall on Monday."
NUMBER = 5  # documents, one after the other


def opened(database: Database) -> OpenJob:
    settings, _ = read_settings({})
    spec = worker_port().admit(Task.TRANSLATE, None, TranslateOptions(), settings)
    return open_job(database, corpus_of_documents(spec), spec)[0]


def summary(database: Database, job: OpenJob) -> JobSummary:
    with database.reading() as connection:
        return find_job(connection, str(job.job_id))


def has_result(database: Database, job: OpenJob, external_id: str) -> bool:
    line = results_of_ids(database, summary(database, job), [external_id])[external_id]
    return bool(json.loads(line)["status"] == "ok")


def test_documents_are_translated_soon_after_they_are_appended_until_the_job_is_closed(
    machine: Machine, kvjobs: Kvjobs, capsys: pytest.CaptureFixture[str]
) -> None:
    database = Database.connect(f"sqlite:///{machine.home / 'kvjobs.db'}")
    job = opened(database)
    worker = machine.worker()
    took = []
    for number in range(NUMBER):
        append(database, job, [{"id": str(number), "text": f"{BULLETIN} {number}"}])
        started = time.monotonic()
        until(lambda number=number: has_result(database, job, str(number)))
        took.append(time.monotonic() - started)
        time.sleep(0.3)  # until the lane has looked, and found nothing
    with capsys.disabled():
        print("\nseconds from append to result:", *(f"{seconds:.2f}" for seconds in took))
    assert (summary(database, job).state, worker.poll()) == ("running", None)
    assert max(took[1:]) < PATIENCE_S / 10  # the first also loads the model

    waiting = machine.start("wait", str(job.job_id))
    closed = kvjobs("close", str(job.job_id))
    _, said = waiting.communicate(timeout=PATIENCE_S)

    assert (closed.exit_code, waiting.returncode) == (0, 0), said
    assert summary(database, job).state == "done"
    found = new_results(database, summary(database, job))
    assert [json.loads(line)["id"] for line in found.lines] == [str(number) for number in range(NUMBER)]
    assert found.is_last
    database.close()


def test_the_worker_of_a_watched_job_works_until_the_job_is_closed(machine: Machine, kvjobs: Kvjobs) -> None:
    database = Database.connect(f"sqlite:///{machine.home / 'kvjobs.db'}")
    job = opened(database)
    watch = machine.start("watch", str(job.job_id), "--work", "-o", "out.jsonl")
    for external_id in ("a", "b"):
        append(database, job, [{"id": external_id, "text": BULLETIN}])
        until(lambda external_id=external_id: has_result(database, job, external_id))
    assert watch.poll() is None
    kvjobs("close", str(job.job_id))
    _, said = watch.communicate(timeout=PATIENCE_S)

    assert watch.returncode == 0, said
    lines = Path(machine.folder / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["a", "b"]
    database.close()
