"""Rows of a parquet corpus come out as they went in, with the corpus' own types."""

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.corpus.corpus import Corpus
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.submission.submit import submit
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.command_line import Kvjobs
from tests.commands.export.conftest import Export
from tests.messages import line_with
from tests.parquet_files import pa, pq, write_parquet
from tests.repetition import times
from tests.rows import AddJob, Line

SPEC = JobSpec(task=Task.SCORE, model="tiny", model_revision="r1", options=ScoreOptions())


@pytest.fixture
def send(database: Database, tmp_path: Path, parquet_here: None) -> Callable[..., int]:
    """Submit a parquet file of these columns; the job's number. None of its documents is processed."""

    def call(columns: dict[str, Any], **how: Any) -> int:
        path = write_parquet(tmp_path / "corpus.parquet", columns, **how)
        return submit(database, Corpus(path=path), SPEC, spool=tmp_path / "spool", again=True).job_id

    return call


RICH = {
    "id": [1, 2, 3, 4],
    "text": ["one", None, "three", "four"],
    "f32": pa.array([0.1, None, 2, 3], pa.float32()),
    "day": pa.array([dt.date(2026, 1, 2)] * 4),
    "price": pa.array([Decimal("1.10"), None, Decimal("2.00"), Decimal("3.30")]),
    "nested": [{"a": [1], "b": None}, None, {"a": [], "b": "x"}, {"a": [2], "b": "y"}],
    "raw": [b"\x00", b"\xff", b"", None],
    "kind": pa.array(["x", "y", "x", "z"]).dictionary_encode(),
}


def test_rows_of_a_parquet_corpus_come_out_with_their_types(export: Export, send: Callable[..., int]) -> None:
    job = send(RICH, row_group_size=2)

    table = export(job, "--format", "original", "--only", "waiting")

    assert table.equals(pa.table(RICH).take([0, 2, 3]))


def test_values_of_results_become_columns_behind_the_others(export: Export, send: Callable[..., int]) -> None:
    table = export(
        send(RICH), "--format", "original", "--only", "all", "--where", "line > 2", "--add", "perplexity=ppl"
    )

    assert table.column_names == [*RICH, "ppl"]
    assert str(table.schema.field("ppl").type) == "double"
    assert table.column("id").to_pylist() == [3, 4]


def test_an_added_column_has_a_name_of_its_own(kvjobs: Kvjobs, send: Callable[..., int]) -> None:
    job = send({"text": ["one"], "perplexity": pa.array([None], pa.float64())})

    refused = kvjobs("export", job, "--format", "original", "-o", "out.parquet", "--add", "perplexity")

    assert refused.exit_code == 2
    assert line_with(refused.err, "'perplexity'", "--add perplexity=OTHER")


def test_without_the_file_rows_are_written_from_the_database(
    kvjobs: Kvjobs, send: Callable[..., int], tmp_path: Path
) -> None:
    job = send(RICH)
    (tmp_path / "corpus.parquet").unlink()

    result = kvjobs("export", job, "--format", "original", "--only", "waiting", "-o", "out.parquet")

    assert line_with(result.err, "no longer", "written", "database")
    first, second, _ = pq.read_table("out.parquet").to_pylist()
    assert first == {
        "id": 1,
        "text": "one",
        "f32": 0.1,
        "day": "2026-01-02",
        "price": 1.1,
        "nested": '{"a":[1],"b":null}',
        "raw": "AA==",
        "kind": "x",
    }
    assert second["price"] == 2.0


def test_files_with_other_columns_make_no_one_table(
    kvjobs: Kvjobs, database: Database, tmp_path: Path, parquet_here: None
) -> None:
    (tmp_path / "folder").mkdir()
    write_parquet(tmp_path / "folder" / "1.parquet", {"text": ["one"]})
    write_parquet(tmp_path / "folder" / "2.parquet", {"text": ["two"], "n": [1]})
    job = submit(database, Corpus(path=tmp_path / "folder"), SPEC, spool=tmp_path / "spool").job_id

    refused = kvjobs("export", job, "--format", "original", "-o", "out.parquet")

    assert refused.exit_code == 2
    assert line_with(refused.err, "2.parquet", "other columns")


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-(2**63), 2**63 - 1),
    "f": st.floats(allow_nan=False, allow_infinity=False),
    "s": st.text(st.characters(exclude_categories=["Cs"])),
    "b": st.booleans(),
    "l": st.lists(st.integers(0, 9), max_size=3),
}
ROWS = st.lists(st.fixed_dictionaries({name: one | st.none() for name, one in VALUES.items()}), min_size=1, max_size=20)
SCHEMA = pa.schema(
    {
        "text": pa.string(),
        "i": pa.int64(),
        "f": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "l": pa.list_(pa.int64()),
    }
)


@settings(max_examples=times(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, group=st.integers(1, 7))
def test_what_goes_in_comes_out(
    kvjobs: Kvjobs, database: Database, tmp_path: Path, parquet_here: None, rows: list[dict[str, Any]], group: int
) -> None:
    """As rows of the corpus: the same table. As results: the same values, lists as JSON."""
    table = pa.Table.from_pylist([{"text": "x", **row} for row in rows], schema=SCHEMA)
    pq.write_table(table, tmp_path / "corpus.parquet", row_group_size=group)
    corpus = Corpus(path=tmp_path / "corpus.parquet")
    job = submit(database, corpus, SPEC, spool=tmp_path / "spool", again=True).job_id

    kvjobs("export", job, "--format", "original", "--only", "all", "-o", "original.parquet")
    kvjobs("export", job, "--only", "all", "-o", "results.parquet")

    assert pq.read_table("original.parquet").equals(table)
    for row, found in zip(rows, pq.read_table("results.parquet").to_pylist(), strict=True):
        found["l"] = None if found["l"] is None else json.loads(found["l"])
        assert {name: found[name] for name in row} == row


def test_an_exported_file_can_be_submitted_with_its_json_as_values(
    export: Export, database: Database, add_job: AddJob, tmp_path: Path, parquet_here: None
) -> None:
    export(add_job(Line("a", "eins", fields={"deep": {"x": [1, {"y": 0.5}]}})))

    again = submit(
        database, Corpus(path=tmp_path / "out.parquet", text_field="translation"), SPEC, spool=tmp_path / "spool"
    )

    with database.reading() as connection:
        fields = connection.exec_driver_sql(f"SELECT fields FROM documents WHERE job_id = {again.job_id}").scalar()
    assert json.loads(fields)["deep"] == {"x": [1, {"y": 0.5}]}
