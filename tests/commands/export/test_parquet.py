"""Results as parquet: typed columns, nothing lost."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from jobs.corpus.corpus import Corpus
from jobs.export.parquet import table_bytes
from jobs.outcome import Flag, RankedCandidate, Ranking, Score, TokenScore
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.report.documents import export as store_export
from jobs.store.schema.states import DocumentStatus
from jobs.submission.submit import submit
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.command_line import Kvjobs
from tests.commands.export.conftest import Export
from tests.databases import ON_BOTH
from tests.messages import line_with
from tests.parquet_files import pq
from tests.rows import AddJob, Line

BROKEN = {"status": DocumentStatus.FAILED, "error": ("engine-error", "it broke")}
SPEC = JobSpec(task=Task.SCORE, model="tiny", model_revision="r1", options=ScoreOptions())


def types(table: Any) -> dict[str, str]:
    return {field.name: str(field.type) for field in table.schema}


ERROR = {"error_code": "string", "error": "string", "line": "int64", "fields": "string"}
FLAGS = {"flags": "list<element: string>"}


# types --------------------------------------------------------------------------------------------------------------


@ON_BOTH
def test_translations_are_typed_columns(export: Export, add_job: AddJob) -> None:
    alternatives = [{"text": "zwei", "log_prob": -2.0}]
    job = add_job(
        Line("a", "eins", fields={"n": 1, "lang": "de"}, flags="truncated", alternatives=alternatives),
        Line("b", fields={"n": 2.5}, **BROKEN),
        Line(None, status=DocumentStatus.REJECTED, text=None, error=("bad-json", "no JSON")),
        options=TranslateOptions(beam_size=2, n_best=2),
    )

    table = export(job, "--with", "text", "--with", "log_prob", "--with", "tokens")

    assert types(table) == {
        "id": "string",
        "status": "string",
        "translation": "string",
        **FLAGS,
        "nbest": "string",
        "text": "string",
        "log_prob": "double",
        "num_source_tokens": "int64",
        "num_target_tokens": "int64",
        "unknown_share": "double",
        "n": "double",
        "lang": "string",
        **ERROR,
    }
    first, second, third = table.to_pylist()
    assert (first["id"], first["status"], first["translation"]) == ("a", "ok", "eins")
    assert (first["n"], first["lang"], first["flags"], first["line"]) == (1.0, "de", ["truncated"], 1)
    assert json.loads(first["nbest"]) == alternatives
    assert (second["translation"], second["n"], second["lang"]) == (None, 2.5, None)
    assert (second["error_code"], second["error"]) == ("engine-error", "it broke")
    assert (third["id"], third["status"], third["error_code"]) == (None, "rejected", "bad-json")


def test_scores_are_columns_of_numbers(export: Export, add_job: AddJob) -> None:
    tokens = (TokenScore("It", 0, 2, None), TokenScore(" rains", 2, 8, -6.0))
    job = add_job(
        Line("good", result=Score(6.0, 3, 2, 12, tokens=tokens)),
        Line("none", result=Score(0.0, 0, 0, 0, flags=(Flag.UNSCORED,))),
        task=Task.SCORE,
        options=ScoreOptions(token_scores=True),
    )

    table = export(job)

    counts = dict.fromkeys(("num_tokens", "num_words", "num_bytes"), "int64")
    measures = dict.fromkeys(("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"), "double")
    assert types(table) == {
        "id": "string",
        "status": "string",
        "nll_sum": "double",
        **counts,
        **measures,
        **FLAGS,
        "tokens": "string",
        **ERROR,
    }
    good, none = table.to_pylist()
    assert good["perplexity"] == math.exp(2)
    assert (none["perplexity"], none["flags"]) == (None, ["unscored"])
    assert len(json.loads(good["tokens"])) == 2


def test_a_ranking_is_a_list_of_candidates(export: Export, add_job: AddJob) -> None:
    ranked = (RankedCandidate("b", 1, -0.5, 1.0), RankedCandidate("a", 2, None, None, error="no text"))
    job = add_job(
        Line("q1", text='{"query": "q", "candidates": []}', result=Ranking(ranked, 7, 20, 4)),
        Line("q2", text="{}", **BROKEN),
        task=Task.RERANK,
        options=RerankOptions(),
    )

    first, second = export(job).to_pylist()

    assert first["ranking"] == [
        {"id": "b", "rank": 1, "score": -0.5, "first_score": 1.0, "error": None},
        {"id": "a", "rank": 2, "score": None, "first_score": None, "error": "no text"},
    ]
    assert second["ranking"] is None


def test_ids_are_integers_where_all_are(export: Export, add_job: AddJob) -> None:
    def ids(*lines: tuple[str, bool]) -> Any:
        job = add_job(*(Line(one, "x", numeric_id=is_number) for one, is_number in lines))
        return export(job).column("id")

    assert ids(("7", True), ("-9", True)).to_pylist() == [7, -9]
    assert ids(("7", True), ("7a", False)).to_pylist() == ["7", "7a"]
    assert ids(("7", True), ("12345678901234567890", True)).to_pylist() == ["7", "12345678901234567890"]


@pytest.mark.parametrize(
    ("values", "kind", "read"),
    [
        ([1, None, -(2**63)], "int64", [1, None, -(2**63)]),
        ([1, 2.5], "double", [1.0, 2.5]),
        ([1, 2**53 + 1, 0.5], "double", [1.0, None, 0.5]),
        ([True, False], "bool", [True, False]),
        ([True, 1], "string", ["true", "1"]),
        (["a", None], "string", ["a", None]),
        (["a", 1], "string", ['"a"', "1"]),
        ([[1, 2], {"a": None}], "string", ["[1,2]", '{"a":null}']),
        ([None, None], "string", [None, None]),
        ([2**63, 1], "string", ["9223372036854775808", "1"]),
    ],
)
def test_a_field_has_the_narrowest_type_that_holds_it(
    export: Export, add_job: AddJob, values: list[Any], kind: str, read: list[Any]
) -> None:
    table = export(add_job(*(Line(f"{n}", "x", fields={"v": value}) for n, value in enumerate(values))))

    assert (types(table)["v"], table.column("v").to_pylist()) == (kind, read)


def test_a_later_value_that_does_not_fit_is_kept_in_fields(
    export: Export, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_export.first_fields, "__defaults__", (100,))
    lines = [Line(f"{number}", "x", fields={"n": number}) for number in range(100)]
    job = add_job(*lines, Line("odd", "x", fields={"n": "many", "new": [1]}))

    *_, last = export(job).to_pylist()

    assert (last["n"], json.loads(last["fields"])) == (None, {"n": "many", "new": [1]})


def test_fields_with_the_names_of_results_are_kept_in_fields(export: Export, add_job: AddJob) -> None:
    job = add_job(Line("a", "eins", fields={"translation": "mine", "status": 3, "candidate": 1}))

    (row,) = export(job).to_pylist()

    assert (row["translation"], row["candidate"]) == ("eins", 1)
    assert json.loads(row["fields"]) == {"status": 3, "translation": "mine"}


# which documents, which files ---------------------------------------------------------------------------------------


def test_conditions_and_choices_apply(export: Export, add_job: AddJob) -> None:
    job = add_job(*(Line(f"{n}", "x", fields={"n": n}) for n in range(5)), Line("b", **BROKEN), Line("w"))

    assert export(job, "--where", "n >= 3").column("n").to_pylist() == [3, 4]
    assert export(job, "--only", "failed").column("id").to_pylist() == ["b"]
    assert export(job, "--only", "all").num_rows == 7
    assert export(job, "--where", "n > 99").num_rows == 0


def test_row_groups_are_written_as_they_fill(
    export: Export, add_job: AddJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_bytes, "ROWS", 40)
    monkeypatch.setattr(table_bytes, "PIECE_ROWS", 10)

    table = export(add_job(*(Line(f"{n}", "x") for n in range(101))))

    about = pq.read_metadata(tmp_path / "out.parquet")
    assert [about.row_group(group).num_rows for group in range(about.num_row_groups)] == [40, 40, 21]
    assert table.column("id").to_pylist() == [f"{n}" for n in range(101)]


def test_the_same_results_are_the_same_bytes(kvjobs: Kvjobs, add_job: AddJob, tmp_path: Path) -> None:
    job = add_job(Line("a", "eins", fields={"n": 1}))
    for name in ("one.parquet", "two.parquet"):
        result = kvjobs("export", job, "-o", tmp_path / name)
        assert result.err == f"Wrote 1 document of job {job} to {tmp_path / name}.\n"

    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-o", "out.parquet.gz"], "parquet compresses its own pages; name the file out.parquet"),
        (["-o", "out.parquet", "--format", "csv"], "out.parquet would hold csv"),
        (["-o", "out.parquet", "--format", "original"], "the corpus is jsonl, and what is written of it is jsonl too"),
        (["-o", "out.parquet", "--add", "translation"], "--add is for --format original"),
    ],
)
def test_what_cannot_be_parquet_is_refused(
    kvjobs: Kvjobs, database: Database, tmp_path: Path, arguments: list[str], says: str
) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"text": "one"}\n')
    job = submit(database, Corpus(path=tmp_path / "corpus.jsonl"), SPEC, spool=tmp_path).job_id

    refused = kvjobs("export", job, *arguments)

    assert refused.exit_code == 2
    assert says in refused.err
    assert not Path("out.parquet").exists()


def test_without_pyarrow_no_file_is_written_and_the_command_that_installs_it_is_named(
    kvjobs: Kvjobs, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add_job(Line("a", "eins"))
    monkeypatch.setattr("jobs.export.export_options.is_installed", lambda package: package != "pyarrow")

    refused = kvjobs("export", job, "-o", "out.parquet")

    assert refused.exit_code == 2
    assert line_with(refused.err, "pyarrow", "pip install")
    assert not Path("out.parquet").exists()
