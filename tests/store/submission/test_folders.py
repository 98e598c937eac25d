"""Folders of files and parquet files become jobs, and killed submits of them continue, as with one file of lines."""

import lzma
from pathlib import Path
from typing import Any

import pytest

from jobs.corpus.corpus import Corpus
from jobs.errors import CorpusError
from jobs.store.database import Database
from jobs.store.schema.tables import Document
from jobs.submission.submit import submit
from jobs.submission.submitted_job import PriorState, SubmittedJob
from tests.messages import line_with
from tests.parquet_files import write_parquet
from tests.store.submission.corpora import rows
from tests.store.submission.killing import SPEC, corpus_of, everything, kill_after, killed, send, states

pytestmark = pytest.mark.usefixtures("small_batches", "parquet_here")

TEXTS = [f"good {number}" for number in range(20)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """20 documents in three files."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number, some in enumerate((TEXTS[:7], TEXTS[7:8], TEXTS[8:])):
        (folder / f"part-{number}.jsonl").write_bytes(corpus_of(*some))
    return folder


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    columns = {"id": TEXTS, "text": TEXTS, "n": list(range(20))}
    return write_parquet(tmp_path / "corpus.parquet", columns, row_group_size=6)


def test_a_folder_makes_the_documents_that_one_file_makes(database: Database, folder: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(corpus_of(*TEXTS))

    one, several = send(database, whole), send(database, folder)

    assert everything(database, several.job_id) == everything(database, one.job_id)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl.xz"
    path.write_bytes(lzma.compress(corpus_of(*TEXTS)))
    return path


@pytest.fixture
def utf16(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(corpus_of(*TEXTS).decode().encode("utf-16"))
    return path


@pytest.mark.parametrize("corpus", ["folder", "parquet", "packed", "utf16"])
def test_a_killed_submit_continues_where_it_stopped(
    database: Database, corpus: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(corpus)
    encoding = "utf-16" if corpus == "utf16" else None
    killed(database, path, 2, encoding=encoding)
    assert states(database) == [(1, "ingesting")]

    resumed = send(database, path, encoding=encoding)

    assert (resumed.job_id, resumed.prior_state, resumed.documents) == (1, PriorState.RESUMED, 20)
    assert [row for (row,) in rows(database, Document, "text", job_id=1)] == TEXTS
    assert send(database, path, encoding=encoding).prior_state == PriorState.RUNNING


def test_a_pattern_and_its_folder_are_one_job(database: Database, folder: Path) -> None:
    def by_pattern() -> SubmittedJob:
        return submit(database, Corpus(path=f"{folder}/part-*.jsonl"), SPEC, spool=folder.parent)

    assert send(database, folder).job_id == by_pattern().job_id == 1


def test_a_folder_that_has_changed_is_refused_until_it_is_as_it_was(database: Database, folder: Path) -> None:
    killed(database, folder, 2)
    more = folder / "part-3.jsonl"
    more.write_bytes(corpus_of("new"))

    with pytest.raises(CorpusError, match=r"changed .*job 1 "):
        send(database, folder)

    more.unlink()
    assert send(database, folder).documents == 20


@pytest.mark.parametrize("corpus", ["folder", "parquet"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    database: Database, corpus: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(corpus)
    file = path / "part-2.jsonl" if path.is_dir() else path
    content = file.read_bytes()

    def change(_progress: Any) -> None:
        if file.suffix == ".jsonl":
            file.write_bytes(content.replace(b"good 19", b"evil 19"))
        else:
            with file.open("ab") as end:
                end.write(b"more")

    with pytest.raises(CorpusError, match=r"changed .*read"):
        send(database, path, on_progress=change)

    assert states(database) == [(1, "failed")]


def test_an_id_in_two_files_is_rejected_with_both_places(database: Database, folder: Path) -> None:
    (folder / "part-3.jsonl").write_bytes(corpus_of("new", "good 7"))

    job = send(database, folder)

    assert job.rejected == 1
    (error,) = [error for (error,) in rows(database, Document, "error", job_id=job.job_id) if error]
    assert line_with(error, "'good 7'", "line 1 ", "part-1.jsonl")


def test_progress_of_a_parquet_file_reaches_its_end(database: Database, parquet: Path) -> None:
    told: list[Any] = []
    send(database, parquet, on_progress=told.append)

    assert (told[-1].lines, told[-1].bytes_read, told[-1].num_bytes) == (20, *[parquet.stat().st_size] * 2)
    assert kill_after(1)
