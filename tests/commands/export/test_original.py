"""`--format original` exports the lines of the corpus unchanged, whether or not the file still exists."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.corpus.corpus import Corpus
from jobs.corpus.unpacking import unpacked
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.submission.submit import submit
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.messages import line_with
from tests.repetition import times

SPEC = JobSpec(task=Task.SCORE, model="tiny", model_revision="r1", options=ScoreOptions())
Send = Callable[..., int]


@pytest.fixture
def send(database: Database, tmp_path: Path) -> Send:
    """A function that submits bytes and returns the number of the job; none of its documents is scored."""

    def call(data: bytes, name: str = "corpus.jsonl", **how: Any) -> int:
        path = tmp_path / name
        path.write_bytes(data)
        corpus = Corpus(path=path, **how)
        return submit(database, corpus, SPEC, spool=tmp_path / "spool", again=True).job_id

    return call


def original(kvjobs: Kvjobs, job: int, *arguments: str) -> bytes:
    """The export of all waiting documents, which are all readable ones."""
    out = Path("out")
    result = kvjobs("export", job, "--format", "original", "--only", "waiting", "-o", out, *arguments)
    assert result.exit_code == 0
    return out.read_bytes()


CORPORA = {
    "a.jsonl": b'\xef\xbb\xbf{ "n": 1,"text" :"one", "id":7 }\r\n\n{"text": "zw\\u00f6lf"}\n{"id": 3, "text": " "}\n'
    b'no\n{"id": "b", "text": "\xe4\xb8\x89"}',
    "a.txt": b"one\r\n\n  two \n\xff\nthree",
    "a.csv": b'\n"text",id,n\r\n"a ""b""\n\nc",1,x\n\n\nplain,,y\nshort\n",",3,\n',
    "a.tsv": b'id\ttext\n1\t"a\tb"\n\n2\t=1\n',
}
READABLE = {
    "a.jsonl": b'{ "n": 1,"text" :"one", "id":7 }\r\n{"text": "zw\\u00f6lf"}\n{"id": "b", "text": "\xe4\xb8\x89"}',
    "a.txt": b"one\r\n  two \nthree",
    "a.csv": b'\n"text",id,n\r\n"a ""b""\n\nc",1,x\nplain,,y\n",",3,\n',
    "a.tsv": b'id\ttext\n1\t"a\tb"\n2\t=1\n',
}


def send_folder(database: Database, folder: Path, files: dict[str, bytes], **how: Any) -> int:
    """Submit a folder of these files; the job's number."""
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return submit(database, Corpus(path=folder, **how), SPEC, spool=folder.parent / "spool", again=True).job_id


@pytest.mark.parametrize("name", ["jsonl", "txt"])
def test_lines_of_a_folder_come_out_file_by_file(kvjobs: Kvjobs, database: Database, tmp_path: Path, name: str) -> None:
    """A last line without its end gets one, as another line follows."""
    lines = CORPORA[f"a.{name}"]
    files = {f"part-1.{name}": lines, f"part-2.{name}.gz": lines.replace(b'"id":7', b'"id":8').replace(b'"b"', b'"c"')}
    job = send_folder(database, tmp_path / "corpus", files)

    once = READABLE[f"a.{name}"] + b"\n"

    assert original(kvjobs, job) == once + once.replace(b'"id":7', b'"id":8').replace(b'"b"', b'"c"')
    (tmp_path / "corpus" / f"part-3.{name}").write_bytes(b"x\n")  # no longer the same corpus
    refused = kvjobs("export", job, "--format", "original", "--only", "waiting")
    assert line_with(refused.err, "no longer", "corpus")


def test_a_folder_of_tables_comes_out_under_one_header(kvjobs: Kvjobs, database: Database, tmp_path: Path) -> None:
    files = {"1.csv": b'id,text\n1,"one"\n', "2.csv": b"text,id\ntwo,2\n"}

    assert original(kvjobs, send_folder(database, tmp_path / "corpus", files)) == b"id,text\n1,one\n2,two\n"


def test_results_are_not_written_into_the_corpus(kvjobs: Kvjobs, database: Database, tmp_path: Path) -> None:
    job = send_folder(database, tmp_path / "corpus", {"1.jsonl": b'{"text": "one"}\n'})

    refused = kvjobs("export", job, "-o", tmp_path / "corpus" / "out.jsonl")

    assert refused.exit_code == 2
    assert line_with(refused.err, "would become", "corpus")


@pytest.mark.parametrize("name", CORPORA)
def test_every_readable_line_is_exported_byte_for_byte(kvjobs: Kvjobs, send: Send, name: str, home: Path) -> None:
    job = send(CORPORA[name], name)

    out = home / "out"
    wrote = kvjobs("export", job, "--format", "original", "--only", "waiting", "-o", out)

    assert (wrote.exit_code, out.read_bytes()) == (0, READABLE[name])
    assert "anew" not in wrote.err


def test_the_byte_order_mark_of_a_table_is_kept(kvjobs: Kvjobs, send: Send) -> None:
    """Without it Excel does not recognize UTF-8."""
    table = '\ufeff"id";"text";"Größe"\r\n"1";"Es regnet.";"ä"\r\n'.encode()
    job = send(table, "a.csv", delimiter=";")

    assert original(kvjobs, job) == table
    assert original(kvjobs, job, "--bom") == table  # not twice
    added = original(kvjobs, job, "--add", "perplexity")
    assert added == '\ufeff"id";"text";"Größe";"perplexity"\r\n"1";"Es regnet.";"ä";""\r\n'.encode()


NESTED = b'{"key": {"n": 7}, "t": {"en": "one", "de": "eins"}, "x": 1}\n{"key": {"n": "b"}, "t": {"en": "two"}}\n'
HEADERLESS = b'7,"a ""b""\nc",x\n8,plain,y\n'


@pytest.mark.parametrize("gone", [False, True], ids=["copied", "rewritten"])
@pytest.mark.parametrize(
    ("name", "data", "how"),
    [
        ("a.jsonl", NESTED, {"id_field": "key.n", "text_field": "t.en"}),
        ("a.csv", HEADERLESS, {"columns": ("id", "text", "n")}),
        ("a.jsonl", '{"text": "größe"}\n'.encode("utf-16"), {"encoding": "utf-16"}),
    ],
    ids=["nested", "headerless", "utf-16"],
)
def test_fields_columns_and_encodings_come_out_as_they_went_in(
    kvjobs: Kvjobs, send: Send, tmp_path: Path, name: str, data: bytes, how: dict[str, Any], gone: bool
) -> None:
    """In UTF-8, as every export."""
    job, text = send(data, name, **how), data.decode(how.get("encoding", "utf-8"))
    if gone:
        (tmp_path / name).write_bytes(b"gone\n")

    found = original(kvjobs, job).decode()

    if name == "a.csv":
        assert found == text
        assert original(kvjobs, job, "--add", "status").decode().endswith("8,plain,y,waiting\n")
    else:
        assert list(map(json.loads, found.splitlines())) == list(map(json.loads, text.splitlines()))


def test_files_without_a_header_are_copied_one_after_the_other(
    kvjobs: Kvjobs, database: Database, tmp_path: Path
) -> None:
    files = {"1.csv": b"1,'one'\n", "2.csv": b'"2",two'}

    job = send_folder(database, tmp_path / "corpus", files, columns=("id", "text"))

    assert original(kvjobs, job) == b"1,'one'\n\"2\",two\n"


def test_a_compressed_corpus_is_exported_uncompressed(kvjobs: Kvjobs, send: Send) -> None:
    import gzip

    job = send(gzip.compress(CORPORA["a.txt"]), "a.txt.gz")

    assert original(kvjobs, job) == READABLE["a.txt"]


@ON_BOTH
def test_a_condition_selects_lines(kvjobs: Kvjobs, send: Send) -> None:
    job = send(CORPORA["a.csv"], "a.csv")

    assert original(kvjobs, job, "--where", "id = '3'") == b'\n"text",id,n\r\n",",3,\n'
    assert original(kvjobs, job, "--where", "id = 'none'") == b'\n"text",id,n\r\n'


@ON_BOTH
@pytest.mark.parametrize("name", CORPORA)
def test_the_lines_of_a_missing_corpus_are_written_from_the_database(
    kvjobs: Kvjobs, send: Send, name: str, tmp_path: Path
) -> None:
    job = send(CORPORA[name], name)
    (tmp_path / name).write_bytes(b"something else\n")

    result = kvjobs("export", job, "--format", "original", "--only", "waiting")

    assert line_with(result.err, "written", "database")
    match name:
        case "a.jsonl":
            lines = [json.loads(line) for line in result.out.splitlines()]
            assert lines == [{"id": 7, "text": "one", "n": 1}, {"text": "zwölf"}, {"id": "b", "text": "三"}]
        case "a.txt":
            assert result.out == "one\n  two \nthree\n"
        case "a.csv":
            rows = list(csv.DictReader(io.StringIO(result.out)))
            assert [(row["id"], row["text"], row["n"]) for row in rows] == [
                ("1", 'a "b"\n\nc', "x"),
                ("", "plain", "y"),
                ("3", ",", ""),
            ]
        case "a.tsv":
            assert result.out == 'id\ttext\n1\t"a\tb"\n2\t=1\n'


def test_a_line_without_an_id_gets_none_and_an_id_equal_to_the_line_number_is_kept(
    kvjobs: Kvjobs, send: Send, tmp_path: Path
) -> None:
    job = send(b'{"id": 1, "text": "a"}\n{"text": "b"}\n{"id": "3", "text": "c"}\n')
    (tmp_path / "corpus.jsonl").unlink()

    assert [json.loads(line) for line in original(kvjobs, job).splitlines()] == [
        {"id": 1, "text": "a"},
        {"text": "b"},
        {"id": "3", "text": "c"},
    ]


NUMBERS = ("18446744073709551616", "-0", "0.10", "1e5", "1E400", "-1.50")


@ON_BOTH
def test_every_number_is_exported_to_the_byte_in_every_format(kvjobs: Kvjobs, send: Send, tmp_path: Path) -> None:
    lines = [f'{{"id":{place},"text":"x","n":{n},"m":[{{"k":{n}}}]}}\n' for place, n in enumerate(NUMBERS)]
    job = send("".join(lines).encode() + b'{"id":-0,"text":"x","n":-5,"m":[]}\n')
    (tmp_path / "corpus.jsonl").unlink()

    def export(form: str) -> str:
        return kvjobs("export", job, "--format", form, "--only", "waiting").out

    for number, line in zip(NUMBERS, export("jsonl").splitlines(), strict=False):
        assert f'"n":{number},"m":[{{"k":{number}}}]' in line
    for form, delimiter in (("csv", ","), ("tsv", "\t")):
        rows = list(csv.DictReader(io.StringIO(export(form)), delimiter=delimiter))
        assert [row["n"] for row in rows] == [*NUMBERS, "-5"]
        assert [json.loads(row["m"], parse_int=str, parse_float=str) for row in rows[:-1]] == [
            [{"k": number}] for number in NUMBERS
        ]
        assert rows[-1]["id"] == "-0"
    assert export("original").splitlines(keepends=True)[: len(lines)] == lines


def test_a_job_of_an_older_version_is_refused_with_the_reason(kvjobs: Kvjobs, finished_job: int) -> None:
    refused = kvjobs("export", finished_job, "--format", "original")

    assert refused.exit_code == 2
    assert "older kvjobs" in refused.err


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=2),
    max_leaves=4,
)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).filter(str.strip)
LINES = st.fixed_dictionaries({"text": TEXTS}, optional={"n": VALUES, "id": st.integers(0, 9)})


@given(lines=st.lists(LINES, min_size=1, max_size=5, unique_by=lambda line: line.get("id", object())), data=st.data())
@settings(max_examples=times(4), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_round_trip_preserves_every_value(
    kvjobs: Kvjobs, send: Send, tmp_path: Path, lines: list[dict[str, Any]], data: st.DataObject
) -> None:
    """The bytes are equal if copied from the corpus, the values if written from the database. (A line whose id is the
    line number of another is a duplicate there.)"""
    lines = [line for line in lines if "id" in line] or lines
    spaced = data.draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")]))
    written = [json.dumps(line, separators=spaced, ensure_ascii=data.draw(st.booleans())) for line in lines]
    corpus = "".join(f"{line}\n" for line in written).encode()
    job = send(corpus)
    assert original(kvjobs, job) == corpus

    (tmp_path / "corpus.jsonl").write_bytes(b"gone\n")
    assert [json.loads(line) for line in original(kvjobs, job).splitlines()] == lines


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_lines_of_the_corpus_can_be_compressed_too(kvjobs: Kvjobs, send: Send, tmp_path: Path, packing: str) -> None:
    job, out = send(CORPORA["a.txt"], "a.txt"), tmp_path / f"kept.txt.{packing}"

    assert kvjobs("export", job, "--format", "original", "--only", "waiting", "-o", out).exit_code == 0

    data = out.read_bytes()
    assert unpacked(io.BytesIO(data), None).read() == READABLE["a.txt"]
