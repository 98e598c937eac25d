"""A corpus becomes a job: what its rows say, what is rejected, what is refused."""

import gzip
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, func, select, update

from jobs.corpus.corpus import Corpus
from jobs.documents import Reject
from jobs.errors import CorpusError, SpecError
from jobs.spec import JobSpec, Task, TranslateOptions
from jobs.store.database import Database
from jobs.store.ingest import lifecycle
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Document, Job, JobCounts, Shard
from jobs.submission import corpus_check, progress, shards
from jobs.submission.progress import IngestProgress
from jobs.submission.submit import submit
from jobs.submission.submitted_job import PriorState, SubmittedJob
from tests.databases import ON_SQLITE

SPEC = JobSpec(task=Task.TRANSLATE, model="tiny", model_revision="r1", options=TranslateOptions())
GREEDY = replace(SPEC, options=TranslateOptions(beam_size=1))
Submit = Callable[..., SubmittedJob]


@pytest.fixture(autouse=True)
def without_fsync(database: Database) -> None:
    """No test here cuts the power; on a busy disk the fsyncs are most of the time."""
    if database.is_sqlite:
        database.engine.dispose()
        event.listen(database.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF"))


@pytest.fixture
def send(database: Database, tmp_path: Path) -> Submit:
    """Submit these bytes: send(b"...", name="nightly"); the file's name is corpus.jsonl."""

    def call(data: bytes, spec: JobSpec = SPEC, file: str = "corpus.jsonl", **how: Any) -> SubmittedJob:
        path = tmp_path / file
        path.write_bytes(data)
        return submit(database, Corpus(path=path), spec, spool=tmp_path / "spool", **how)

    return call


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SHARD_TOKENS": 10, "SHARD_DOCUMENTS": 3, "BATCH_DOCUMENTS": 5}.items():
        monkeypatch.setattr(shards, name, value)


def lines(*texts: str | None) -> bytes:
    """A line a text; None is a line that cannot be read."""
    return b"".join(b"{\n" if text is None else json.dumps({"text": text}).encode() + b"\n" for text in texts)


def rows(database: Database, table: Any, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
    wanted = [table.__table__.c[column] for column in columns]
    with database.reading() as connection:
        found = connection.execute(select(*wanted).filter_by(**where).order_by(*table.__table__.primary_key))
        return [tuple(row) for row in found]


def num_jobs(database: Database) -> int:
    with database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(Job)) or 0


# rows ---------------------------------------------------------------------------------------------------------------


def test_a_corpus_becomes_documents_in_its_order(database: Database, send: Submit) -> None:
    corpus = b'{"id": 7, "text": "one", "lang": "en"}\n\n{"id": "b", "text": "two"}\n{"text": "three"}\n'

    submitted = send(corpus)

    assert (submitted.documents, submitted.rejected, submitted.prior_state) == (3, 0, PriorState.NEW)
    columns = ("position", "external_id", "numeric_id", "line", "text", "fields", "estimated_tokens", "status")
    assert rows(database, Document, *columns) == [
        (0, "7", True, 1, "one", '{"lang":"en"}', 1, None),
        (1, "b", False, 3, "two", None, 1, None),
        (2, "4", True, 4, "three", None, 2, None),
    ]


def test_the_job_says_what_was_asked(database: Database, send: Submit, tmp_path: Path) -> None:
    submitted = send(lines("a"), name="nightly", priority=3)

    columns = ("name", "task", "model", "model_revision", "options", "options_digest", "source", "state", "priority")
    assert rows(database, Job, *columns, id=submitted.job_id) == [
        (
            "nightly",
            "translate",
            "tiny",
            "r1",
            SPEC.options_json(),
            SPEC.digest(),
            str(tmp_path / "corpus.jsonl"),
            "running",
            3,
        )
    ]
    assert rows(database, Job, "paused", "ingested", "started_at", "finished_at") == [(False, 1, None, None)]


@pytest.mark.usefixtures("small_shards")
def test_shards_wait_for_a_worker_and_hold_every_document_once(database: Database, send: Submit) -> None:
    texts = ["a" * 4, "a" * 4, "a" * 100, "a" * 4, None, "a" * 4, None, None, None, "a" * 4]

    submitted = send(lines(*texts))

    columns = ("start", "stop", "estimated_tokens", "queue", "state", "lease_epoch", "attempts", "crashes")
    assert rows(database, Shard, *columns) == [
        (0, 2, 2, "cpu", "ready", 0, 0, 0),
        (2, 3, 25, "cpu", "ready", 0, 0, 0),
        (3, 6, 2, "cpu", "ready", 0, 0, 0),
        (9, 10, 1, "cpu", "ready", 0, 0, 0),  # 6 to 8 are all rejected: nothing to do, no shard
    ]
    assert all(available_at is not None for (available_at,) in rows(database, Shard, "available_at"))
    assert (submitted.shards, submitted.estimated_tokens) == (4, 30)


@pytest.mark.usefixtures("small_shards")
def test_the_counters_are_a_recount(database: Database, send: Submit) -> None:
    send(b'{"id": 1, "text": "x"}\n' * 4 + lines("a" * 50, None, "b", " "))

    counts = ("documents", "rejected", "shards", "shards_open", "estimated_tokens", "succeeded", "estimated_done")
    assert rows(database, JobCounts, *counts) == [(8, 5, 3, 3, 15, 0, 0)]
    with database.reading() as connection:
        assert connection.scalar(select(func.sum(Document.estimated_tokens))) == 18 - 3
        assert connection.scalar(select(func.sum(Shard.estimated_tokens))) == 15


def test_nothing_left_to_do_is_done_at_once(database: Database, send: Submit) -> None:
    submitted = send(b'{"id": 1}\n{"id": 1, "text": "x"}\n')

    assert (submitted.state, submitted.documents, submitted.rejected, submitted.shards) == (JobState.DONE, 2, 2, 0)
    ((finished_at,),) = rows(database, Job, "finished_at")
    assert finished_at is not None


def test_hostile_text_is_stored_as_it_is(database: Database, send: Submit) -> None:
    hostile = ["<b>&amp;", "\x1b[2J", "'; DROP TABLE jobs; --", "=cmd()", "</s> >>fr<< <unk>", "?", "%s", ":a"]

    send(lines(*hostile))

    assert [text for (text,) in rows(database, Document, "text")] == hostile


# rejected -----------------------------------------------------------------------------------------------------------


def test_a_rejected_line_keeps_its_place_its_reason_and_a_usable_id(database: Database, send: Submit) -> None:
    send(b'{"id": "a"}\n{\n{"id": "c", "text": "x"}\n')

    columns = ("position", "external_id", "line", "text", "status", "error_code", "estimated_tokens")
    assert rows(database, Document, *columns) == [
        (0, "a", 1, None, "rejected", "no-text", 0),
        (1, None, 2, None, "rejected", "bad-json", 0),
        (2, "c", 3, "x", None, None, 1),
    ]
    assert all(error.isprintable() for (error,) in rows(database, Document, "error", status="rejected"))


@pytest.mark.usefixtures("small_shards")
def test_an_id_belongs_to_the_line_that_had_it_first(database: Database, send: Submit) -> None:
    ids = ["a", "b", "a", "c", "d", "e", "f", "a", "3", None, "b"]
    corpus = [json.dumps({"id": i, "text": f"text {n}"}) for n, i in enumerate(ids)]
    corpus[8] = '{"text": "line 9 has the id 9"}'
    corpus[9] = '{"id": 9, "text": "the number and the text 9 are one id"}'

    submitted = send("\n".join(corpus).encode())

    assert submitted.rejected == 4
    rejected = rows(database, Document, "line", "external_id", "error_code", "error", status="rejected")
    assert [row[:3] for row in rejected] == [(line, None, Reject.DUPLICATE_ID.value) for line in (3, 8, 10, 11)]
    assert [row[3].split("; ")[0] for row in rejected] == [
        "the id 'a' was used before, on line 1",
        "the id 'a' was used before, on line 1",
        "the id '9' was used before, on line 9",
        "the id 'b' was used before, on line 2",
    ]


def test_a_rejected_line_too_has_its_id_to_itself(database: Database, send: Submit) -> None:
    send(b'{"id": "a"}\n{"id": "a", "text": "x"}\n{"id": "a", "text": 1}\n')

    codes = rows(database, Document, "external_id", "error_code")
    assert codes == [("a", "no-text"), (None, "duplicate-id"), (None, "duplicate-id")]


def test_ids_are_compared_within_a_job_alone(send: Submit) -> None:
    assert send(b'{"id": 1, "text": "x"}\n').rejected == 0
    assert send(b'{"id": 1, "text": "y"}\n').rejected == 0


# refused ------------------------------------------------------------------------------------------------------------


def test_a_corpus_without_documents_leaves_no_job(database: Database, send: Submit) -> None:
    for file, data in (("a.jsonl", b"\n"), ("a.csv", b"id,text\n"), ("a.csv", b"id,body\n1,x\n")):
        with pytest.raises(CorpusError):
            send(data, file=file)

    assert num_jobs(database) == 0


@pytest.mark.parametrize(
    ("file", "data", "says"),
    [
        ("a.jsonl", b'{"query": "q", "candidates": []}\n', "the lines have query and candidates: --task rerank?"),
        ("a.jsonl", b'{"source": "a", "target": "b"}\n', "--task score with a model that translates?"),
        (
            "a.jsonl",
            b'{"id": "1", "content": "a b"}\n' * 2,
            "the text is in the field 'content': --text-field content?",
        ),
        ("a.jsonl", b'{"id": "1", "lang": "en", "words": "two words"}\n', "--text-field words?"),
        ("a.jsonl", b'{"text": " "}\n{"text": 5}\n', "none of its 2 lines can be used; line 1: the field 'text' holds"),
        ("a.jsonl", b"id,text\n1,one\n", "the first line is the header of a table: --format csv?"),
        ("a.jsonl", b"id;text\n1;one\n", "--format csv --delimiter ';'?"),
        ("a.jsonl", b"id;body\n1;one\n", "--format csv --delimiter ';' --text-field body?"),
        ("a.jsonl", b"id\ttext\n1\tone\n", "--format tsv?"),
        ("a.jsonl", b"It rains.\nIt snows.\n", "the lines are plain text: --format txt?"),
        ("a.jsonl", b'[\n  {"text": "a"}\n]\n', "one JSON list, not an object per line: jq -c '.[]'"),
        ("a.jsonl", b'{\n  "text": "a"\n}\n', "an object spans several lines: jq -c ."),
        ("a.jsonl", b'{"text": "a"\n', "its one line cannot be used; line 1: the line is not JSON"),
        ("a.jsonl", b"caf\xe9\n", "is not UTF-8"),
        ("a.txt", b'{"text": "a"}\n' * 2, "the lines are JSON objects: --format jsonl?"),
        ("a.txt", b"\xff\n", "its one line cannot be used; line 1: byte 1"),
        ("a.csv", b"id;text\n1;one\n", "--delimiter ';'?"),
        ("a.csv", b"id,text\n1,one,two\n", "its one line cannot be used; line 2: the row has 3 cells"),
    ],
)
@ON_SQLITE
def test_a_corpus_of_which_nothing_can_be_used_is_refused_with_what_was_probably_meant(
    database: Database, send: Submit, file: str, data: bytes, says: str
) -> None:
    with pytest.raises(CorpusError, match=re.escape(says)) as caught:
        send(data, file=file)

    assert str(caught.value).isprintable()
    assert num_jobs(database) == 0


@pytest.mark.parametrize("num_rejected", [0, 1, 2, 3, 50])
def test_rejected_lines_before_the_first_document_are_all_kept(
    database: Database, send: Submit, monkeypatch: pytest.MonkeyPatch, num_rejected: int
) -> None:
    monkeypatch.setattr(corpus_check, "MAX_HELD", 2)

    submitted = send(lines(*[None] * num_rejected, "x", None, "y"))

    assert (submitted.documents, submitted.rejected) == (num_rejected + 3, num_rejected + 1)
    assert rows(database, Document, "position", text="x") == [(num_rejected,)]
    with pytest.raises(CorpusError, match="none of its 50 lines can be used"):
        send(lines(*[None] * 50))


@ON_SQLITE
def test_a_delimiter_makes_another_job_only_where_it_is_not_that_of_the_format(
    database: Database, tmp_path: Path
) -> None:
    def job_of(data: bytes, **how: Any) -> int:
        (tmp_path / "a.csv").write_bytes(data)
        return submit(database, Corpus(path=tmp_path / "a.csv", **how), SPEC, spool=tmp_path).job_id

    commas = job_of(b"id,text\n1,one\n")
    semicolons = job_of(b"id;text\n1;one\n", delimiter=";")

    assert job_of(b"id,text\n1,one\n", delimiter="comma") == commas
    assert rows(database, Document, "external_id", "text", job_id=semicolons) == [("1", "one")]


def test_strict_refuses_the_file_lists_the_first_lines_and_leaves_no_job(database: Database, send: Submit) -> None:
    corpus = lines("good", *[None] * 30, "good")

    with pytest.raises(CorpusError) as caught:
        send(corpus, strict=True, name="nightly")

    head, *told = str(caught.value).split("\n")
    assert "30 of 32 documents cannot be read" in head
    assert told[0].startswith("  line 2: the line is not JSON")
    assert len(told) == 21
    assert told[-1] == "  ... and 10 more"
    assert num_jobs(database) == 0
    assert (
        rows(database, Document, "position") == rows(database, Shard, "id") == rows(database, JobCounts, "job_id") == []
    )
    assert send(corpus, name="nightly").rejected == 30


def test_strict_sees_duplicate_ids_and_takes_a_good_corpus(send: Submit) -> None:
    with pytest.raises(CorpusError, match="line 2: the id '1' was used before, on line 1"):
        send(b'{"id": 1, "text": "x"}\n' * 2, strict=True)

    assert send(lines("x"), strict=True).prior_state == PriorState.NEW


def test_strict_refuses_a_corpus_that_a_job_has_already_and_leaves_that_job(database: Database, send: Submit) -> None:
    first = send(lines("x", None))

    with pytest.raises(CorpusError, match="1 of 2"):
        send(lines("x", None), strict=True)

    assert rows(database, Job, "id", "state") == [(first.job_id, "running")]
    assert len(rows(database, Document, "position")) == 2


def test_a_corpus_that_breaks_off_fails_its_job_and_frees_its_name(database: Database, send: Submit) -> None:
    packed = gzip.compress(b"".join(b'{"id": %d, "text": "x"}\n' % n for n in range(30_000)))

    with pytest.raises(CorpusError, match="ends too early"):
        send(packed[:-20], file="a.jsonl.gz", name="nightly")

    ((state, reason, name),) = rows(database, Job, "state", "reason", "name")
    assert (state, name) == ("failed", None)
    assert "ends too early" in reason
    assert rows(database, Document, "position") == rows(database, Shard, "id") == []
    assert rows(database, JobCounts, "documents", "shards", "estimated_tokens") == [(0, 0, 0)]
    assert send(packed, file="a.jsonl.gz", name="nightly").documents == 30_000


# names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["17", "٣", "last", "-x", "", " a", "a\n", "a\x1b[0m", "a" * 101])
def test_a_name_that_could_not_be_used_is_refused(database: Database, send: Submit, name: str) -> None:
    with pytest.raises(SpecError, match="the name"):
        send(lines("x"), name=name)

    assert num_jobs(database) == 0


@pytest.mark.parametrize("name", ["nightly", "2026-11-21", "v1.2", "夜间", "a b"])
def test_other_names_are_taken(send: Submit, name: str) -> None:
    assert send(lines("x"), name=name).name == name


def test_the_name_of_another_job_is_refused(database: Database, send: Submit) -> None:
    first = send(lines("x"), name="nightly")

    with pytest.raises(SpecError, match=f"'nightly' belongs to job {first.job_id}"):
        send(lines("y"), name="nightly")

    assert num_jobs(database) == 1


def test_a_job_keeps_its_name_and_one_without_takes_one(send: Submit) -> None:
    first = send(lines("x"))

    assert send(lines("x"), name="a") == replace(first, name="a", prior_state=PriorState.RUNNING, without_id=0)
    assert send(lines("x"), name="b").name == "a"
    assert send(lines("y"), name="b").name == "b"


# the same job -------------------------------------------------------------------------------------------------------


def test_the_same_corpus_and_spec_are_the_same_job_wherever_the_file_is(database: Database, send: Submit) -> None:
    first = send(lines("x", "y"))

    again = send(lines("x", "y"), file="moved.jsonl")

    assert again == replace(first, prior_state=PriorState.RUNNING, without_id=0)
    with database.writing() as connection:
        connection.execute(update(Job).values(state=JobState.DONE))
    assert send(lines("x", "y")).prior_state == PriorState.COMPLETE
    with database.writing() as connection:
        connection.execute(update(Job).values(state=JobState.CANCELLED))
    assert send(lines("x", "y")).prior_state == PriorState.CANCELLED
    assert num_jobs(database) == 1


def test_another_text_spec_format_or_field_is_another_job(database: Database, send: Submit, tmp_path: Path) -> None:
    data = b'{"text": "x", "body": "y"}\n'
    jobs = {send(data).job_id, send(data + b"\n").job_id, send(data, GREEDY).job_id}
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(data)
    for how in ({"text_field": "body"}, {"id_field": "body"}, {"max_line_bytes": 100}, {"format": "txt"}):
        jobs.add(submit(database, Corpus(path=path, **how), SPEC, spool=tmp_path).job_id)  # type: ignore[arg-type]

    assert len(jobs) == num_jobs(database) == 7


def test_again_makes_another_job_each_time(database: Database, send: Submit) -> None:
    jobs = [send(lines("x"), again=True).job_id for _ in range(3)]

    assert len(set(jobs)) == num_jobs(database) == 3
    assert send(lines("x")).job_id == jobs[0]


def test_standard_input_is_the_same_job_by_what_came_through_it(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pipe(data: bytes) -> SubmittedJob:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return submit(database, Corpus(path="-"), SPEC, spool=tmp_path / "spool")

    first = pipe(lines("x"))

    assert pipe(lines("x")).job_id == first.job_id
    assert pipe(lines("y")).job_id != first.job_id
    assert {source for (source,) in rows(database, Job, "source")} == {"standard input"}
    assert list((tmp_path / "spool").iterdir()) == []


# on the way ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_shards")
def test_progress_is_told_after_each_batch(send: Submit) -> None:
    told: list[IngestProgress] = []
    data = lines(*["x"] * 11, None)

    submitted = send(data, on_progress=told.append)

    assert [progress.documents for progress in told] == [6, 12]
    assert [progress.rejected for progress in told] == [0, 1]
    assert {(progress.job_id, progress.num_bytes) for progress in told} == {(submitted.job_id, len(data))}
    assert told[-1].bytes_read == len(data)


@ON_SQLITE
def test_lines_that_are_no_documents_do_not_pass_in_silence(
    database: Database, send: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "REPORT_EVERY_S", 0.0)
    told: list[IngestProgress] = []
    packed = gzip.compress(b"\n" * 3_000_000 + lines("x"))

    submitted = send(packed, file="a.jsonl.gz", on_progress=told.append)

    while_blank = [progress for progress in told if progress.job_id is None]
    assert len(while_blank) > 5
    assert all(progress.documents == 0 for progress in while_blank)
    numbers = [progress.lines for progress in told]
    assert numbers == sorted(numbers)
    assert (told[-1].job_id, told[-1].documents, told[-1].lines) == (submitted.job_id, 1, 3_000_001)


def test_a_file_that_changes_while_it_is_read_fails_its_job(
    database: Database, send: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = lifecycle.begin

    def meddle(*args: Any) -> Any:
        (tmp_path / "corpus.jsonl").write_bytes(data.replace(b"last", b"LAST"))
        return real(*args)

    data = lines(*["x" * 1000] * 1000, "last")
    monkeypatch.setattr(lifecycle, "begin", meddle)
    with pytest.raises(CorpusError, match="changed while it was read"):
        send(data, name="nightly")

    ((state, reason),) = rows(database, Job, "state", "reason")
    assert state == "failed"
    assert "changed while it was read" in reason
    assert rows(database, Document, "position") == rows(database, Shard, "id") == []
    monkeypatch.setattr(lifecycle, "begin", real)
    retried = send(data, name="nightly")
    assert (retried.prior_state, retried.documents, retried.name) == (PriorState.NEW, 1001, "nightly")
    assert rows(database, Job, "state", "reason") == [("running", None)]
