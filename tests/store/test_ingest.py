"""The SQL statements of an ingest on SQLite: they use indexes, and restore the cache size."""

import json
from pathlib import Path
from typing import Any

from sqlalchemy import event

from jobs.corpus.corpus import Corpus
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.submission.submit import submit
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.databases import ON_SQLITE

SPEC = JobSpec(task=Task.TRANSLATE, model="tiny", model_revision="r1", options=TranslateOptions())


@ON_SQLITE
def test_no_statement_scans_all_documents_of_a_job(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": number % 700, "text": "x"}) + "\n" for number in range(2000)))
    asked: dict[str, Any] = {}

    def remember(
        connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, executemany: bool
    ) -> None:
        if "documents" in statement:
            asked[statement] = parameters[0] if executemany else parameters

    event.listen(database.engine, "before_cursor_execute", remember)
    assert submit(database, Corpus(path=path), SPEC, spool=tmp_path).rejected == 1300
    event.remove(database.engine, "before_cursor_execute", remember)

    searches = []
    with database.reading() as connection:
        for statement, parameters in asked.items():
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", tuple(parameters)).all()
            searches += [row[3] for row in plan if "documents" in row[3] or row[3].split()[1] == "d"]
    assert searches  # by a range of positions, or by one id
    assert all("position>?" in search or "external_id=?" in search for search in searches)


@ON_SQLITE
def test_the_cache_of_a_bulk_insert_is_restored_when_the_job_is_ready(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("x\n")
    during = []

    def look() -> tuple[Any, ...]:
        with database.reading() as connection:
            names = ("cache_size", "wal_autocheckpoint")
            return tuple(connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names)

    before = look()
    submit(database, Corpus(path=path), SPEC, spool=tmp_path, on_progress=lambda progress: during.append(look()))

    assert during == [(-131072, 32768)]
    assert look() == before == (-2000, 1000)
