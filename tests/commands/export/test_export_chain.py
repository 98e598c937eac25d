"""`kvjobs export --chain`: the results of all stages in one record, in each format that can hold them."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jobs.stage import Stage
from jobs.store.database import Database
from tests.command_line import Kvjobs
from tests.messages import line_with
from tests.small_chains import KEPT, SCORE, SCORED, begin, finish_all

MEASURES = [
    *("nll_sum", "num_tokens", "num_words", "num_bytes"),
    *("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"),
]
ERROR = ["error_code", "error", "line", "stage", "fields"]


def test_one_export_has_the_results_of_all_stages(kvjobs: Kvjobs, database: Database, tmp_path: Path) -> None:
    begin(database, tmp_path, SCORED, KEPT, bad_line=True, name="books")
    finish_all(database, failing=frozenset({4}))

    kept = kvjobs("export", "books", "--chain")

    record, last = map(json.loads, kept.out.splitlines())
    assert last["id"] == "d5"
    assert (record["id"], record["status"], record["translation"], record["lang"]) == ("d0", "ok", "t-0", "en")
    assert record["score"]["perplexity"] == pytest.approx(10.0)
    assert line_with(kept.err, "Left out", "1 failed", "3 filtered", "1 rejected")
    others = [json.loads(line) for line in kvjobs("export", 3, "--chain", "--only", "all").out.splitlines()]
    assert [(one["status"], one.get("error", {}).get("stage")) for one in others] == [
        *[("ok", None), ("skipped", 3), ("rejected", 1), ("skipped", 3)],
        *[("failed", 1), ("skipped", 3), ("ok", None)],
    ]


@pytest.mark.parametrize(("form", "sign"), [("csv", ","), ("tsv", "\t")])
def test_a_table_has_a_row_for_each_document_and_columns_of_every_stage(
    kvjobs: Kvjobs, database: Database, tmp_path: Path, form: str, sign: str
) -> None:
    begin(database, tmp_path, SCORED, KEPT, bad_line=True)
    finish_all(database, failing=frozenset({4}))

    kept = kvjobs("export", 1, "--chain", "--format", form)
    rows = list(csv.DictReader(io.StringIO(kept.out, newline=""), delimiter=sign))

    assert list(rows[0]) == ["id", "status", "translation", "flags", *MEASURES, "flags_2", "lang", *ERROR]
    assert [(row["id"], row["translation"], float(row["perplexity"]), row["lang"]) for row in rows] == [
        ("d0", "t-0", pytest.approx(10.0), "en"),
        ("d5", "t-6", pytest.approx(10.0), "en"),
    ]
    everything = kvjobs("export", 1, "--chain", "--format", form, "--only", "all").out
    failed = list(csv.DictReader(io.StringIO(everything, newline=""), delimiter=sign))[4]
    assert (failed["id"], failed["status"], failed["perplexity"]) == ("d3", "failed", "")
    assert (failed["error_code"], failed["line"], failed["stage"]) == ("engine-error", "5", "1")


def test_parquet_has_the_types_of_every_stage(kvjobs: Kvjobs, database: Database, tmp_path: Path) -> None:
    begin(database, tmp_path, SCORED, Stage(replace(SCORE, model="other"), reads=0))
    finish_all(database)

    written = kvjobs("export", 1, "--chain", "--with", "text", "--with", "tokens", "-o", "all.parquet")
    table = pq.read_table("all.parquet")

    assert line_with(written.err, "6 documents", "job 1 ", "all.parquet")
    assert table.num_rows == 6
    types = {field.name: str(field.type) for field in table.schema}
    assert [types[name] for name in ("id", "text", "translation", "lang")] == ["string"] * 4
    assert (types["flags"], types["flags_3"]) == ("list<element: string>",) * 2
    assert (types["perplexity_3"], types["num_tokens_3"], types["stage"]) == ("double", "int64", "int64")
    assert table.column("text").to_pylist() == [f"text {n}" for n in range(6)]
    assert table.column("perplexity").to_pylist() == table.column("perplexity_3").to_pylist()
    assert {"num_source_tokens", "num_source_tokens_2", "num_target_tokens"} <= types.keys()


def test_with_adds_what_some_stage_has_and_refuses_what_none_has(
    kvjobs: Kvjobs, database: Database, tmp_path: Path
) -> None:
    begin(database, tmp_path, SCORED)
    finish_all(database)

    first = json.loads(kvjobs("export", 1, "--chain", "--with", "text", "--with", "log_prob").out.splitlines()[0])

    assert list(first) == ["id", "status", "text", "translation", "log_prob", "score", "lang"]
    assert first["text"] == "text 0"
    begin(database, tmp_path, replace(KEPT, reads=0), first=SCORE)
    refused = kvjobs("export", 3, "--chain", "--with", "log_prob")
    assert (refused.exit_code, refused.out) == (2, "")
    assert line_with(refused.err, "--with log_prob", "no stage")


def test_a_condition_is_refused_rather_than_left_out(kvjobs: Kvjobs, database: Database, tmp_path: Path) -> None:
    begin(database, tmp_path, SCORED)
    finish_all(database)

    refused = kvjobs("export", 1, "--chain", "--where", "translation = 't-0'")

    assert (refused.exit_code, refused.out) == (2, "")
    assert line_with(refused.err, "filter", "chain", "stage")


@pytest.mark.parametrize("form", ["txt", "original", "trec"])
def test_a_format_for_one_result_is_refused(kvjobs: Kvjobs, database: Database, tmp_path: Path, form: str) -> None:
    begin(database, tmp_path, SCORED)

    refused = kvjobs("export", 1, "--chain", "--format", form)

    assert (refused.exit_code, refused.out) == (2, "")
    assert line_with(refused.err, "jsonl", "csv", "tsv", "parquet", f"{form}")
