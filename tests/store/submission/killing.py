"""Submits that are killed between two batches, and queries of all the rows that they have written."""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from jobs.corpus.corpus import Corpus
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.schema.tables import Document, Job, JobCounts, Shard
from jobs.submission.progress import IngestProgress
from jobs.submission.submit import submit
from jobs.submission.submitted_job import SubmittedJob
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions

SPEC = JobSpec(task=Task.TRANSLATE, model="tiny", model_revision="r1", options=TranslateOptions())


class Killed(BaseException):
    """In place of the death of the process."""


def corpus_of(*texts: str) -> bytes:
    return b"".join(json.dumps({"id": text, "text": text}).encode() + b"\n" for text in texts)


def send(database: Database, path: Path, **how: Any) -> SubmittedJob:
    corpus = Corpus(path=path, encoding=how.pop("encoding", None), stream=how.pop("stream", None))
    return submit(database, corpus, how.pop("spec", SPEC), spool=path.parent, **how)


def kill_after(num_batches: int) -> Callable[[IngestProgress], None]:
    """A progress callback that kills the submit after this number of batches."""
    reported = count(1)

    def report(progress: IngestProgress) -> None:
        if next(reported) >= num_batches:
            raise Killed

    return report


def killed(database: Database, path: Path, num_batches: int = 2, **how: Any) -> None:
    with pytest.raises(Killed):
        send(database, path, on_progress=kill_after(num_batches), **how)


def everything(database: Database, job_id: int) -> dict[str, list[dict[str, Any]]]:
    """All rows of a job, without the ids and times that differ between any two jobs."""
    found = {}
    with database.reading() as connection:
        for table in (Document, Shard, JobCounts):
            of_job = select(table.__table__).where(table.__table__.c.job_id == job_id)
            ordered = of_job.order_by(*table.__table__.primary_key)
            found[table.__name__] = [dict(row._mapping) for row in connection.execute(ordered)]
        job = select(Job.state, Job.ingested, Job.reason).where(Job.id == job_id)
        found["Job"] = [dict(row._mapping) for row in connection.execute(job)]
    for row in (row for rows in found.values() for row in rows):
        for name in ("id", "job_id", "available_at"):
            row.pop(name, None)
    return found


def states(database: Database) -> list[tuple[int, str]]:
    with database.reading() as connection:
        return [tuple(row) for row in connection.execute(select(Job.id, Job.state).order_by(Job.id))]
