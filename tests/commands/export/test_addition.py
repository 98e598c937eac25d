"""`--add` appends results to the lines of the user's own file; and results as plain lines of text."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from jobs.corpus.corpus import Corpus
from jobs.outcome import Score
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.schema.clock import db_time
from jobs.store.schema.results import RESULTS, as_stored
from jobs.store.schema.tables import Document
from jobs.submission.submit import submit
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.command_line import Kvjobs
from tests.messages import line_with
from tests.rows import AddJob, Line

SPEC = JobSpec(task=Task.SCORE, model="tiny", model_revision="r1", options=ScoreOptions())

SCORE = Score(nll_sum=0.0, num_tokens=2, num_words=1, num_bytes=3, num_source_tokens=2)

ScoreCorpus = Callable[..., int]


@pytest.fixture
def score(database: Database, tmp_path: Path) -> ScoreCorpus:
    """A function that submits bytes; each readable document gets the perplexity 1, except on the lines `unscored`."""

    def call(data: bytes, name: str, *, unscored: tuple[int, ...] = (), **how: Any) -> int:
        (tmp_path / name).write_bytes(data)
        corpus = Corpus(path=tmp_path / name, **how)
        job = submit(database, corpus, SPEC, spool=tmp_path / "spool").job_id
        whose = {"job_id": job, "shard_id": 1, "epoch": 1, "worker_id": 1, "finished_at": db_time()}
        stored = as_stored(SCORE)
        assert isinstance(stored, dict)
        with database.writing() as connection:
            readable = select(Document.position).where(
                Document.job_id == job, Document.status.is_(None), Document.line.not_in(unscored)
            )
            for position in connection.scalars(readable).all():
                connection.execute(insert(RESULTS[Task.SCORE]).values(**stored, **whose, position=position))
        return job

    return call


def original(kvjobs: Kvjobs, job: int, *arguments: str) -> bytes:
    result = kvjobs("export", job, "--format", "original", "-o", "out", *arguments)
    assert result.exit_code == 0, result.err
    return Path("out").read_bytes()


CORPORA = {
    "spaces.jsonl": (
        b'\xef\xbb\xbf{ "n": 0.10, "text": "a }" }\r\n\nno\n{"text": "b"}',
        b'{ "n": 0.10, "text": "a }", "perplexity": 1.0, "bpb": 0.0 }\r\n{"text": "b", "perplexity": 1.0, "bpb": 0.0}',
    ),
    "compact.jsonl": (b'{"text":"a"}\n', b'{"text":"a","perplexity":1.0,"bpb":0.0}\n'),
    "own.csv": (
        b'\nkey;body\r\n7;"a;\nb"\r\n\n8;too;many\n9;b',
        b'\nkey;body;perplexity;bpb\r\n7;"a;\nb";1.0;0.0\r\n9;b;1.0;0.0',
    ),
    "quoted.csv": (b'"id","text"\n"1","a"\n', b'"id","text","perplexity","bpb"\n"1","a","1.0","0.0"\n'),
    "a.tsv": (b"id\ttext\n1\t=a\n", b"id\ttext\tperplexity\tbpb\n1\t=a\t1.0\t0.0\n"),
    "a.txt": (b"a\r\n\n\xff\nb", b"a\t1.0\t0.0\r\nb\t1.0\t0.0"),
}

HOW = {"own.csv": {"delimiter": ";", "id_field": "key", "text_field": "body"}}


@pytest.mark.parametrize("name", CORPORA)
def test_parts_of_a_result_are_appended_to_lines_that_are_otherwise_unchanged(
    kvjobs: Kvjobs, score: ScoreCorpus, name: str
) -> None:
    before, after = CORPORA[name]
    job = score(before, name, **HOW.get(name, {}))

    assert original(kvjobs, job, "--add", "perplexity", "--add", "bits_per_byte=bpb") == after


def test_lines_written_from_the_database_have_the_added_parts_too(
    kvjobs: Kvjobs, score: ScoreCorpus, tmp_path: Path
) -> None:
    jsonl = score(b'{"id":1,"text":"a"}\n{"id":2,"text":"b"}\n', "a.jsonl", unscored=(2,))
    table = score(b"key;body;n\n7;a;1\n", "own.csv", **HOW["own.csv"])
    for name in ("a.jsonl", "own.csv"):
        (tmp_path / name).unlink()

    assert original(kvjobs, jsonl, "--add", "perplexity", "--only", "all") == (
        b'{"id":1,"text":"a","perplexity":1.0}\n{"id":2,"text":"b","perplexity":null}\n'
    )
    assert original(kvjobs, table, "--add", "status") == b"key;body;n;status\n7;a;1;ok\n"


def test_a_document_without_a_result_has_an_empty_cell(kvjobs: Kvjobs, score: ScoreCorpus) -> None:
    job = score(b"id,text\n1,a\n2,b\n", "a.csv", unscored=(3,))

    assert original(kvjobs, job, "--add", "perplexity", "--only", "all") == b"id,text,perplexity\n1,a,1.0\n2,b,\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--add", "perplexity=text"], "the corpus has a field 'text' already; choose another name: --add perplexity="),
        (["--add", "perplexity=n"], "has a field 'n' already"),
        (["--add", "perplexity=late"], "line 2 of the corpus has a field 'late' already"),
        (["--add", "perplexity", "--add", "num_tokens=perplexity"], "has a field 'perplexity' already"),
        (["--add", "translation"], "no such value; they have score, nll_sum, num_tokens"),
        (["--add", "tokens"], "no such value"),
        (["--with", "text"], "leave --with text out"),
    ],
)
def test_parts_that_cannot_be_added_are_refused(
    kvjobs: Kvjobs, score: ScoreCorpus, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    job = score(b'{"text": "a", "n": 1}\n{"text": "b", "late": 2}\n', "a.jsonl")
    if "perplexity=late" in arguments:
        monkeypatch.setattr("jobs.export.originals.field_names", lambda *_: ["n"])

    refused = kvjobs("export", job, "--format", "original", *arguments, "-o", "out")

    assert (refused.exit_code, refused.out) == (2, "")
    assert says in refused.err
    assert not Path("out").exists()
    of_jsonl = kvjobs("export", job, "--add", "perplexity")
    assert line_with(of_jsonl.err, "--add", "--format original")


# plain lines --------------------------------------------------------------------------------------------------------


def test_txt_has_one_line_per_document_whatever_its_outcome(kvjobs: Kvjobs, running_job: int, mixed_job: int) -> None:
    running = kvjobs("export", running_job, "--format", "txt")

    assert running.out == "甲\n乙\n\n\n"
    assert line_with(running.err, "waiting", "empty line", "1 document")
    assert kvjobs("export", mixed_job, "--format", "txt").out == "好\n\n\n\n\n"
    assert kvjobs("export", mixed_job, "--format", "txt", "--only", "ok").out == "好\n"


def test_a_line_break_in_a_text_is_a_space(kvjobs: Kvjobs, add_job: AddJob) -> None:
    job = add_job(Line("a", "one\n\ntwo \r\n three\u2028four\n"), Line("b", "\x1b[2J=x"))

    assert kvjobs("export", job, "--format", "txt").out == "one two three four\n\x1b[2J=x\n"


def test_line_n_of_a_txt_export_is_the_result_of_line_n(kvjobs: Kvjobs, score: ScoreCorpus) -> None:
    job = score(b"\na\n\n\xff\nb\n", "a.txt")

    assert kvjobs("export", job, "--format", "txt").out == "\n1.0\n\n\n1.0\n"
    assert kvjobs("export", job, "--format", "txt", "--only", "ok").out == "1.0\n1.0\n"


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("x.txt", "甲"),
        ("x.csv", "id,status,translation,"),
        ("x.tsv", "id\tstatus\ttranslation\t"),
        ("x.csv.x.jsonl", '{"id":"a"'),
        ("x", '{"id":"a"'),
    ],
)
def test_the_suffix_of_the_file_name_gives_the_format(kvjobs: Kvjobs, add_job: AddJob, name: str, first: str) -> None:
    job = add_job(Line("a", "甲"))

    assert kvjobs("export", job, "-o", name).exit_code == 0
    assert Path(name).read_text().startswith(first)


def test_the_run_format_is_refused_for_jobs_without_rankings_before_any_work(
    kvjobs: Kvjobs, finished_job: int, tmp_path: Path
) -> None:
    Path("c.jsonl").write_text(json.dumps({"text": "It rains."}))

    for call in (("export", finished_job), ("submit", "c.jsonl", "--wait")):
        refused = kvjobs(*call, "-o", "x.run")
        assert refused.exit_code == 2
        assert line_with(refused.err, ".run", "rerank")
    assert len(kvjobs("ls", "--json").json) == 1


def test_csv_may_have_another_delimiter(kvjobs: Kvjobs, add_job: AddJob) -> None:
    job = add_job(Line("a", "x;y", fields={"n": 1}))

    out = kvjobs("export", job, "--format", "csv", "--delimiter", ";").out

    (row,) = csv.DictReader(io.StringIO(out), delimiter=";")
    assert (row["id"], row["translation"], row["n"]) == ("a", "x;y", "1")
    assert kvjobs("export", job, "--delimiter", ";").exit_code == 2
