"""Corpora that are refused as a whole: no documents, too many rejected lines, or changed while being read."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import CorpusError
from jobs.store.database import Database
from jobs.store.ingest import lifecycle
from jobs.store.schema.tables import Document, Job, JobCounts, Shard
from jobs.submission import corpus_check, shards
from jobs.submission.submitted_job import PriorState
from tests.databases import ON_SQLITE
from tests.messages import line_with
from tests.store.submission.corpora import Submit, lines, num_jobs, rows


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
def test_a_corpus_without_a_usable_line_is_refused_with_the_probably_intended_options(
    database: Database, send: Submit, file: str, data: bytes, says: str
) -> None:
    with pytest.raises(CorpusError, match=re.escape(says)) as caught:
        send(data, file=file)

    assert str(caught.value).isprintable()
    assert num_jobs(database) == 0


@pytest.mark.parametrize("num_rejected", [0, 1, 2, 3, 50])
def test_rejected_lines_before_the_first_document_are_all_stored(
    database: Database, send: Submit, monkeypatch: pytest.MonkeyPatch, num_rejected: int
) -> None:
    monkeypatch.setattr(corpus_check, "MAX_HELD", 2)

    submitted = send(lines(*[None] * num_rejected, "x", None, "y"))

    assert (submitted.documents, submitted.rejected) == (num_rejected + 3, num_rejected + 1)
    assert rows(database, Document, "position", text="x") == [(num_rejected,)]
    with pytest.raises(CorpusError, match=r"none .*50 lines"):
        send(lines(*[None] * 50))


def test_strict_refuses_a_file_with_rejected_lines_lists_the_first_and_leaves_no_job(
    database: Database, send: Submit
) -> None:
    corpus = lines("good", *[None] * 30, "good")

    with pytest.raises(CorpusError) as caught:
        send(corpus, strict=True, name="nightly")

    head, *listed = str(caught.value).split("\n")
    assert "30 of 32 " in head
    assert listed[0].startswith("  line 2: the line is not JSON")
    assert len(listed) == 21
    assert listed[-1] == "  ... and 10 more"
    assert num_jobs(database) == 0
    assert (
        rows(database, Document, "position") == rows(database, Shard, "id") == rows(database, JobCounts, "job_id") == []
    )
    assert send(corpus, name="nightly").rejected == 30


def test_strict_refuses_duplicate_ids_and_accepts_a_good_corpus(send: Submit) -> None:
    with pytest.raises(CorpusError, match=r"line 2: .*'1'.*line 1"):
        send(b'{"id": 1, "text": "x"}\n' * 2, strict=True)

    assert send(lines("x"), strict=True).prior_state == PriorState.NEW


def test_strict_refuses_a_corpus_that_was_submitted_already_and_keeps_that_job(
    database: Database, send: Submit
) -> None:
    first = send(lines("x", None))

    with pytest.raises(CorpusError, match="1 of 2"):
        send(lines("x", None), strict=True)

    assert rows(database, Job, "id", "state") == [(first.job_id, "running")]
    assert len(rows(database, Document, "position")) == 2


def test_a_corpus_that_ends_too_early_fails_its_job_and_frees_its_name(
    database: Database, send: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "BATCH_DOCUMENTS", 500)
    # More than BUFFER_BYTES of jobs/corpus/unpacking.py: a batch is written before the missing end is detected.
    packed = gzip.compress(b"".join(b'{"id": %d, "text": "%s"}\n' % (n, b"x" * 250) for n in range(1_500)))

    with pytest.raises(CorpusError, match="ends too early"):
        send(packed[:-20], file="a.jsonl.gz", name="nightly")

    ((state, reason, name),) = rows(database, Job, "state", "reason", "name")
    assert (state, name) == ("failed", None)
    assert "ends too early" in reason
    assert rows(database, Document, "position") == rows(database, Shard, "id") == []
    assert rows(database, JobCounts, "documents", "shards", "estimated_tokens") == [(0, 0, 0)]
    assert send(packed, file="a.jsonl.gz", name="nightly").documents == 1_500


def test_a_file_that_changes_while_it_is_read_fails_its_job(
    database: Database, send: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = lifecycle.begin

    def change_the_file(*args: Any) -> Any:
        (tmp_path / "corpus.jsonl").write_bytes(data.replace(b"last", b"LAST"))
        return real(*args)

    data = lines(*["x" * 1000] * 1000, "last")
    monkeypatch.setattr(lifecycle, "begin", change_the_file)
    with pytest.raises(CorpusError, match=r"changed .*read"):
        send(data, name="nightly")

    ((state, reason),) = rows(database, Job, "state", "reason")
    assert state == "failed"
    assert line_with(reason, "changed", "read")
    assert rows(database, Document, "position") == rows(database, Shard, "id") == []
    monkeypatch.setattr(lifecycle, "begin", real)
    retried = send(data, name="nightly")
    assert (retried.prior_state, retried.documents, retried.name) == (PriorState.NEW, 1001, "nightly")
    assert rows(database, Job, "state", "reason") == [("running", None)]
