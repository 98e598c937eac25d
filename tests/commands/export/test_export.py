"""The export: every document that has ended, in the order of the corpus, with nothing lost."""

import csv
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from jobs.choices import Only
from jobs.compression import PACKINGS
from jobs.corpus.unpacking import unpacked
from jobs.store.database import Database
from jobs.store.report.documents import export as store_export
from jobs.store.report.documents.export import read_documents
from jobs.store.where.condition import Condition
from jobs.tasks.translate import TranslateOptions
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.messages import line_with
from tests.rows import AddJob, Line


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_every_ended_document_is_a_record_in_the_order_of_the_corpus(kvjobs: Kvjobs, mixed_job: int) -> None:
    result = kvjobs("export", mixed_job)

    assert result.exit_code == 0
    assert [(record["id"], record["status"]) for record in records(result.out)] == [
        ("good", "ok"),
        ("bad", "failed"),
        (None, "rejected"),
        ("poison", "quarantined"),
        ("late", "cancelled"),
    ]
    assert records(result.out)[0] == {"id": "good", "status": "ok", "translation": "好"}
    assert records(result.out)[1]["error"] == {"code": "engine-error", "message": "it broke", "line": 2}
    assert "error" not in records(result.out)[4]


@ON_BOTH
def test_the_page_size_does_not_change_the_exported_bytes(
    database: Database, add_job: AddJob, kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add_job(*(Line(str(number), "x" * number, fields={"n": number}) for number in range(50)))
    whole = kvjobs("export", job).out

    monkeypatch.setattr(store_export, "FIRST_PAGE", 3)
    monkeypatch.setattr(store_export, "CHARACTERS_PER_PAGE", 40)

    assert kvjobs("export", job).out == whole
    assert len(records(whole)) == 50


@ON_BOTH
def test_long_documents_make_small_pages(database: Database, add_job: AddJob, monkeypatch: pytest.MonkeyPatch) -> None:
    job = add_job(*(Line(str(number), "x" * 1000) for number in range(20)))
    monkeypatch.setattr(store_export, "FIRST_PAGE", 2)
    monkeypatch.setattr(store_export, "CHARACTERS_PER_PAGE", 1000)

    assert [document.position for document in read_documents(database, job)] == list(range(20))


def test_a_running_job_exports_its_results_so_far_and_reports_how_many_documents_wait(
    kvjobs: Kvjobs, running_job: int
) -> None:
    result = kvjobs("export", running_job)

    assert [record["id"] for record in records(result.out)] == ["a", "b", "c"]
    assert line_with(result.err, "waiting", "left out", "1 document")
    assert [record["status"] for record in records(kvjobs("export", running_job, "--only", "waiting").out)] == [
        "waiting"
    ]


@ON_BOTH
@pytest.mark.parametrize(
    ("only", "ids"), [("ok", ["good"]), ("failed", ["bad", None, "poison", "late"]), ("waiting", [])]
)
def test_only_selects_documents_by_outcome(kvjobs: Kvjobs, mixed_job: int, only: str, ids: list[str | None]) -> None:
    assert [record["id"] for record in records(kvjobs("export", mixed_job, "--only", only).out)] == ids


@ON_BOTH
def test_an_id_that_was_a_number_is_exported_as_a_number(kvjobs: Kvjobs, add_job: AddJob) -> None:
    numbers = ("7", "-3", "12345678901234567890123456789", "1.50")
    job = add_job(*(Line(number, "x", numeric_id=True) for number in numbers), Line("8", "x"))

    lines = kvjobs("export", job).out.splitlines()

    assert [line.split(",")[0] for line in lines] == [f'{{"id":{number}' for number in numbers] + ['{"id":"8"']


def test_fields_of_the_corpus_pass_through_but_never_replace_result_fields(kvjobs: Kvjobs, add_job: AddJob) -> None:
    fields = {"source": "wiki", "status": "draft", "translation": {"fr": "x"}, "fields": 1, "n": [1, {"a": None}]}
    job = add_job(Line("a", "甲", fields=fields))

    assert records(kvjobs("export", job).out) == [
        {
            "id": "a",
            "status": "ok",
            "translation": "甲",
            "source": "wiki",
            "n": [1, {"a": None}],
            "fields": {"status": "draft", "translation": {"fr": "x"}, "fields": 1},
        }
    ]


def test_flags_and_alternatives_are_exported_if_there_are_any(kvjobs: Kvjobs, add_job: AddJob) -> None:
    nbest = [{"translation": "甲", "score": -0.5}, {"translation": "乙", "score": -0.75}]
    job = add_job(Line("a", "甲", flags="repetition truncated", alternatives=nbest), Line("b", "乙"))

    first, second = records(kvjobs("export", job).out)

    assert first["flags"] == ["repetition", "truncated"]
    assert first["nbest"] == nbest
    assert second.keys() == {"id", "status", "translation"}


def test_extra_fields_are_added_only_on_request(kvjobs: Kvjobs, add_job: AddJob) -> None:
    job = add_job(Line("a", "甲", text="A", log_prob=-2.25))

    (record,) = records(kvjobs("export", job, "--with", "tokens", "--with", "log_prob", "--with", "text").out)

    assert record == {
        "id": "a",
        "status": "ok",
        "translation": "甲",
        "text": "A",
        "log_prob": -2.25,
        "num_source_tokens": 10,
        "num_target_tokens": 10,
        "unknown_share": None,
    }


def test_json_contains_no_control_character(kvjobs: Kvjobs, add_job: AddJob) -> None:
    hostile = "\x1b]0;pwned\x07\x9b31m\x7f\u202e"
    job = add_job(Line(hostile, hostile, fields={hostile: hostile}))

    out = kvjobs("export", job).out

    assert not any(character in out for character in hostile if not character.isascii() or character < " ")
    assert "\x7f" not in out
    assert records(out) == [{"id": hostile, "status": "ok", "translation": hostile, hostile: hostile}]


def test_csv_has_a_column_for_each_field_of_the_first_documents(kvjobs: Kvjobs, add_job: AddJob) -> None:
    job = add_job(
        Line("a", "甲,\n乙", fields={"year": 1999, "status": "draft"}),
        *(Line(str(number), "x") for number in range(100)),
        Line("z", "丙", fields={"year": None, "seen": [True], "late": 1}),
    )

    rows = table(kvjobs("export", job, "--format", "csv").out)

    assert list(rows[0]) == [*("id", "status", "translation", "flags", "year", "error_code", "error", "line", "fields")]
    assert (rows[0]["translation"], rows[0]["year"], rows[0]["fields"]) == ("甲,\n乙", "1999", '{"status":"draft"}')
    assert rows[-1]["fields"] == '{"late":1,"seen":[true]}'


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_a_table_never_starts_a_formula_with_a_text(kvjobs: Kvjobs, add_job: AddJob, form: str) -> None:
    texts = [f"{start}1+cmd" for start in "=+-@\t\r"]
    lines = [Line(text, text, fields={"note": text, "number": -3}) for text in texts]
    job = add_job(*lines, Line("-7", "x", numeric_id=True))

    guarded, raw = (
        list(csv.DictReader(io.StringIO(out), delimiter="," if form == "csv" else "\t"))
        for out in (kvjobs("export", job, "--format", form, *how).out for how in ((), ("--raw",)))
    )

    for number, text in enumerate(texts):
        written = text if form == "csv" else text.replace("\t", r"\t").replace("\r", r"\r")
        assert [guarded[number][name] for name in ("id", "translation", "note")] == [f"'{written}"] * 3
        assert [raw[number][name] for name in ("id", "translation", "note")] == [written] * 3
        assert guarded[number]["number"] == "-3"
    assert guarded[len(texts)]["id"] == "-7"


def test_tsv_has_one_line_per_document(kvjobs: Kvjobs, add_job: AddJob) -> None:
    job = add_job(Line("a", "one\n\ttwo\\three\r"), Line("b", "x"))

    head, first, second = kvjobs("export", job, "--format", "tsv").out.splitlines()

    assert head.split("\t")[:3] == ["id", "status", "translation"]
    assert first.split("\t")[2] == r"one\n\ttwo\\three\r"
    assert second.split("\t")[2] == "x"


def test_csv_has_alternatives_if_the_job_asked_for_them(kvjobs: Kvjobs, add_job: AddJob) -> None:
    options = TranslateOptions(beam_size=2, n_best=2)
    job = add_job(Line("a", "甲", alternatives=[{"translation": "甲", "score": -0.5}]), options=options)

    assert json.loads(table(kvjobs("export", job, "--format", "csv").out)[0]["nbest"])[0]["translation"] == "甲"


@ON_BOTH
def test_alignments_are_exported_if_the_job_asked_for_them(kvjobs: Kvjobs, add_job: AddJob) -> None:
    alignments = [{"source": [[0, 2]], "target": [[0, 1]], "links": "0-0"}, None]
    job = add_job(Line("a", "甲", alignments=alignments), options=TranslateOptions(alignments=True))

    assert records(kvjobs("export", job).out)[0]["alignments"] == alignments
    assert json.loads(table(kvjobs("export", job, "--format", "csv").out)[0]["alignments"]) == alignments


def test_an_export_file_is_complete_or_absent(
    kvjobs: Kvjobs, finished_job: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("before")

    def fail_half_way(*_arguments: object, **_options: object) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("jobs.export.result_lines.read_documents", fail_half_way)
        assert kvjobs("export", finished_job, "-o", target).exit_code == 130
    assert target.read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["home", "out.jsonl"]

    result = kvjobs("export", finished_job, "-o", target)

    assert (result.exit_code, result.out) == (0, "")
    assert "Wrote 3 documents" in result.err
    assert len(records(target.read_text())) == 3


def test_the_name_of_the_file_decides_its_format(kvjobs: Kvjobs, finished_job: int, tmp_path: Path) -> None:
    kvjobs("export", finished_job, "-o", tmp_path / "out.csv.gz")
    once = (tmp_path / "out.csv.gz").read_bytes()
    kvjobs("export", finished_job, "-o", tmp_path / "out.csv.gz")

    assert (tmp_path / "out.csv.gz").read_bytes() == once
    assert table(gzip.decompress(once).decode())[2]["translation"] == "译文2"


@pytest.mark.parametrize("through", ["itself", "symlink", "hardlink"])
def test_an_export_never_replaces_its_corpus(kvjobs: Kvjobs, add_job: AddJob, tmp_path: Path, through: str) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("precious")
    target = {"itself": corpus, "symlink": tmp_path / "soft", "hardlink": tmp_path / "hard"}[through]
    if through == "symlink":
        target.symlink_to(corpus)
    elif through == "hardlink":
        target.hardlink_to(corpus)
    job = add_job(Line("a", "甲"), source=str(corpus))

    result = kvjobs("export", job, "-o", target)

    assert result.exit_code == 2
    assert "the corpus itself" in result.err
    assert corpus.read_text() == "precious"


def test_a_missing_folder_is_refused_with_one_sentence(kvjobs: Kvjobs, finished_job: int, tmp_path: Path) -> None:
    result = kvjobs("export", finished_job, "-o", tmp_path / "no" / "out.jsonl")

    assert result.exit_code == 2
    assert "does not exist" in result.err
    assert kvjobs("export", finished_job, "-o", tmp_path).exit_code == 2


def test_a_device_is_written_and_not_replaced(kvjobs: Kvjobs, finished_job: int) -> None:
    assert kvjobs("export", finished_job, "-o", "/dev/null").exit_code == 0
    assert not Path("/dev/null").is_file()


@ON_BOTH
def test_where_selects_by_the_columns_of_v_documents(kvjobs: Kvjobs, add_job: AddJob, database: Database) -> None:
    job = add_job(*(Line(f"d{number}", "译", log_prob=-float(number)) for number in range(300)))

    chosen = records(kvjobs("export", job, "--where", "log_prob < -250 and num_target_tokens >= 10").out)
    between = list(read_documents(database, job, condition=Condition.parse("line between 5 and 7"), only=Only.OK))

    assert [record["id"] for record in chosen] == [f"d{number}" for number in range(251, 300)]
    assert [document.line for document in between] == [5, 6, 7]


@ON_BOTH
def test_where_and_only_both_apply_across_pages(
    database: Database, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = [Line(f"w{number}") for number in range(10)]
    job = add_job(*waiting, Line("a", "甲"), *[replace_id(line) for line in waiting], Line("b", "乙"))
    monkeypatch.setattr(store_export, "FIRST_PAGE", 2)

    found = read_documents(database, job, condition=Condition.parse("line > 0"))

    assert [document.external_id for document in found] == ["a", "b"]


@ON_BOTH
def test_a_condition_is_evaluated_once_per_document(
    database: Database, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not again for each page over all remaining documents, however few match or are estimated to match."""
    job = add_job(*(Line(f"d{number}", "译", fields={"n": number}) for number in range(40)))
    monkeypatch.setattr(store_export, "FIRST_PAGE", 4)
    monkeypatch.setattr(store_export, "LARGEST_PAGE", 4)
    pages = []

    def count_evaluations(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "v_documents" in statement:
            pages.append(statement)

    event.listen(database.engine, "before_cursor_execute", count_evaluations)
    try:
        for condition, expected in (("n = 30", [30]), ("n < 0", []), ("n >= 0", list(range(40)))):
            pages.clear()
            found = read_documents(database, job, condition=Condition.parse(condition))
            assert [document.position for document in found] == expected
            assert len(pages) == 10
            assert all("position <=" in page for page in pages)
    finally:
        event.remove(database.engine, "before_cursor_execute", count_evaluations)


def replace_id(line: Line) -> Line:
    return Line(f"again {line.id}")


@pytest.mark.parametrize(
    "condition",
    [
        "1 = 1); drop table jobs --",
        "log_prob < 0; delete from jobs",
        "line in (select id from jobs)",
        "exists (select 1)",
        "1) or (1 = 1",
        "(line = 1",
        "line = 1 --",
        "line /* */ = 1",
        "load_extension('x')",
        "randomblob(1000000000)",
        "no_such_column = 1",
        'id = "a"',
        "line = :job",
        "line =",
        "",
        "line = 1e999",
        "line + 1",
        "log_prob < 'a'",
        "status > 3",
        "substr(id, line) = 'a'",
        "length(id, id) = 1",
        "id like line",
        "line is 5",
        "json_extract(id, '$.a') = 1",
        "json_extract(fields, '$[') = 1",
        "(" * 50 + "line = 1" + ")" * 50,
        "line = " + "coalesce(" * 30 + "kind, 1" + ")" * 30,
        "line = " + "-" * 60 + " 1",
        "line = '\udcff'",
        "line = 1" + " + 1" * 2000,
        "v_documents.line = 1",
        "pragma_table_info",
    ],
)
def test_where_accepts_only_a_condition(kvjobs: Kvjobs, finished_job: int, condition: str) -> None:
    result = kvjobs("export", finished_job, "--where", condition)

    assert result.exit_code == 2
    assert result.out == ""
    assert result.err.count("\n") == 1


@ON_BOTH
def test_where_accepts_texts_with_quotes_and_special_characters(kvjobs: Kvjobs, add_job: AddJob) -> None:
    job = add_job(Line("it's; -- :x", "甲"), Line("b", "乙"))

    found = records(kvjobs("export", job, "--where", "id = 'it''s; -- :x' or translation like '%丙%'").out)

    assert [record["id"] for record in found] == ["it's; -- :x"]


def test_a_table_begins_with_a_byte_order_mark_where_it_is_asked_for(
    kvjobs: Kvjobs, mixed_job: int, tmp_path: Path
) -> None:
    plain, marked = tmp_path / "a.csv", tmp_path / "b.csv"
    assert kvjobs("export", mixed_job, "-o", plain).exit_code == 0
    assert kvjobs("export", mixed_job, "-o", marked, "--bom").exit_code == 0

    assert marked.read_bytes() == b"\xef\xbb\xbf" + plain.read_bytes()
    assert kvjobs("export", mixed_job, "-o", tmp_path / "a.jsonl", "--bom").exit_code == 2


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize("packing", [suffix.removeprefix(".") for suffix in PACKINGS])
def test_a_compressed_file_unpacks_to_the_plain_one(
    kvjobs: Kvjobs, mixed_job: int, tmp_path: Path, form: str, packing: str
) -> None:
    plain, packed = tmp_path / f"out.{form}", tmp_path / f"out.{form}.{packing}"
    for path in (plain, packed):
        assert kvjobs("export", mixed_job, "-o", path).exit_code == 0

    data = packed.read_bytes()
    assert unpacked(io.BytesIO(data), None).read() == plain.read_bytes() != b""
    assert sorted(path.name for path in tmp_path.glob("*out*")) == [plain.name, packed.name]
