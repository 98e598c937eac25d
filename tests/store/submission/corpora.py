"""Small corpora to submit, and queries of the rows that a submit has written."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlalchemy import func, select

from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.schema.tables import Job
from jobs.submission.submitted_job import SubmittedJob
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions

SPEC = JobSpec(task=Task.TRANSLATE, model="tiny", model_revision="r1", options=TranslateOptions())

GREEDY = replace(SPEC, options=TranslateOptions(beam_size=1))

Submit = Callable[..., SubmittedJob]


def lines(*texts: str | None) -> bytes:
    """One JSON line per text; None gives a line that cannot be read."""
    return b"".join(b"{\n" if text is None else json.dumps({"text": text}).encode() + b"\n" for text in texts)


def rows(database: Database, table: Any, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
    wanted = [table.__table__.c[column] for column in columns]
    with database.reading() as connection:
        found = connection.execute(select(*wanted).filter_by(**where).order_by(*table.__table__.primary_key))
        return [tuple(row) for row in found]


def num_jobs(database: Database) -> int:
    with database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(Job)) or 0
