"""Processes that append documents to an open job at the same time, and one that is killed meanwhile."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import select

from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema.tables import Document
from jobs.submission.open_job import OpenJob, append, corpus_of_documents, open_job
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions

SPEC = JobSpec(task=Task.TRANSLATE, model="tiny", model_revision="r1", options=TranslateOptions())

# Appends documents with the ids FIRST to LAST - 1, three at a time, and prints how many were new.
SENDER = """
import sys
from jobs.store.database import Database
from jobs.submission.open_job import append, find_open_job

url, job_id, first, last = sys.argv[1:]
database = Database.open(url)
job = find_open_job(database, int(job_id))
added = 0
for start in range(int(first), int(last), 3):
    ids = range(start, min(start + 3, int(last)))
    appended = append(database, job, [{"id": i, "text": f"text of {i}"} for i in ids])
    added += sum(found.state == "added" for found in appended)
print(added)
"""


@pytest.fixture
def job(database: Database) -> OpenJob:
    return open_job(database, corpus_of_documents(SPEC), SPEC)[0]


def start(database: Database, job: OpenJob, first: int, last: int, **variables: str) -> "subprocess.Popen[str]":
    url = database.engine.url.render_as_string(hide_password=False)
    return subprocess.Popen(
        [sys.executable, "-c", SENDER, url, str(job.job_id), str(first), str(last)],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
    )


def added_by(processes: "Sequence[subprocess.Popen[str]]") -> list[int]:
    found = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [int(text) for text in found]


def check(database: Database, job: OpenJob, num_documents: int) -> None:
    """Each document is there once, at a position of its own, and nothing contradicts that."""
    with database.reading() as connection:
        stored = connection.execute(
            select(Document.position, Document.external_id, Document.text)
            .where(Document.job_id == job.job_id)
            .order_by(Document.position)
        ).all()
        assert find_contradictions(connection, job.job_id) == []
    assert [row.position for row in stored] == list(range(num_documents))
    assert {row.external_id for row in stored} == {str(number) for number in range(num_documents)}
    assert all(row.text == f"text of {row.external_id}" for row in stored)


def test_two_processes_that_send_the_same_documents_add_each_once(database: Database, job: OpenJob) -> None:
    added = added_by([start(database, job, 0, 60), start(database, job, 30, 90)])

    assert sum(added) == 90
    check(database, job, 90)


@pytest.mark.parametrize("place", ["before-append-commit", "after-append"])
def test_documents_of_a_sender_that_was_killed_are_sent_again_and_there_once(
    database: Database, job: OpenJob, tmp_path: Path, place: str
) -> None:
    points = {"KVJOBS_FAILPOINTS": f"{place}:kill", "KVJOBS_FAILPOINTS_LOG": str(tmp_path / "hits")}
    killed = start(database, job, 0, 3, **points)
    killed.communicate(timeout=120)
    appended = append(database, job, [{"id": number, "text": f"text of {number}"} for number in range(9)])
    added = sum(found.state == "added" for found in appended)

    assert killed.returncode == -9
    assert added == (9 if place == "before-append-commit" else 6)
    check(database, job, 9)
