"""The export of a translation through two models: the text in the middle stands beside the translation."""

import csv
import io
import json

import pytest

from jobs.store.schema.states import DocumentStatus
from tests.command_line import Kvjobs
from tests.commands.export.conftest import Export
from tests.databases import ON_BOTH
from tests.rows import PIVOT_COLUMNS, AddJob, Line, pivoted


@pytest.fixture
def job(add_job: AddJob) -> int:
    """Two documents, of which the second failed; the corpus has a field named `via`."""
    return add_job(
        Line("a", text="du vent", result=pivoted("Wind", "wind"), fields={"via": "mail"}),
        Line("b", status=DocumentStatus.FAILED, error=("non-finite", "it broke")),
        **PIVOT_COLUMNS,
    )


@ON_BOTH
def test_both_texts_are_in_each_record_and_a_field_of_that_name_is_kept(kvjobs: Kvjobs, job: int) -> None:
    out = kvjobs("export", job, "--with", "log_prob", "--with", "tokens").out.splitlines()

    assert json.loads(out[0]) == {
        "id": "a",
        "status": "ok",
        "translation": "Wind",
        "via": "wind",
        "log_prob": -1.0,
        "via_log_prob": -2.0,
        "num_source_tokens": 5,
        "num_target_tokens": 4,
        "unknown_share": None,
        "via_source_tokens": 6,
        "via_target_tokens": 7,
        "fields": {"via": "mail"},
    }
    assert json.loads(out[1])["via"] is None


def test_a_table_has_the_text_in_the_middle_in_a_column(kvjobs: Kvjobs, job: int) -> None:
    rows = list(csv.DictReader(io.StringIO(kvjobs("export", job, "--format", "csv").out)))

    assert [(row["translation"], row["via"]) for row in rows] == [("Wind", "wind"), ("", "")]


def test_parquet_has_it_typed(export: Export, job: int) -> None:
    table = export(job, "--with", "log_prob", "--with", "tokens")

    types = {field.name: str(field.type) for field in table.schema if field.name.startswith("via")}
    assert types == {
        "via": "string",
        "via_log_prob": "double",
        "via_source_tokens": "int64",
        "via_target_tokens": "int64",
    }
    assert table.column("via").to_pylist() == ["wind", None]


@ON_BOTH
def test_it_is_searched_with_a_condition(kvjobs: Kvjobs, job: int) -> None:
    for condition, found in (("contains(via, 'WIN')", 1), ("via is null", 1), ("via = 'mail'", 0)):
        assert len(kvjobs("export", job, "--where", condition).out.splitlines()) == found


def test_a_job_of_one_model_is_exported_as_before(kvjobs: Kvjobs, add_job: AddJob) -> None:
    plain = add_job(Line("a", "x", fields={"via": "mail"}))

    assert json.loads(kvjobs("export", plain).out) == {"id": "a", "status": "ok", "translation": "x", "via": "mail"}
