"""Fixtures that submit corpora into each database, with small shards and batches."""

from pathlib import Path
from typing import Any

import pytest

from jobs.corpus.corpus import Corpus
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.submission import shards
from jobs.submission.open_job import OpenJob, corpus_of_documents, open_job
from jobs.submission.submit import submit
from jobs.submission.submitted_job import SubmittedJob
from tests.store.submission.corpora import SPEC, Submit
from tests.store.submission.killing import corpus_of
from tests.store.submission.open_jobs import Open


@pytest.fixture
def send(database: Database, tmp_path: Path) -> Submit:
    """A function that submits these bytes as corpus.jsonl: send(b"...", name="nightly")."""

    def call(data: bytes, spec: JobSpec = SPEC, file: str = "corpus.jsonl", **how: Any) -> SubmittedJob:
        path = tmp_path / file
        path.write_bytes(data)
        return submit(database, Corpus(path=path), spec, spool=tmp_path / "spool", **how)

    return call


@pytest.fixture
def opened(database: Database) -> Open:
    """A function that opens a job: opened(key="comments")."""

    def call(spec: JobSpec = SPEC, of_documents: dict[str, Any] | None = None, **how: Any) -> OpenJob:
        return open_job(database, corpus_of_documents(spec, **of_documents or {}), spec, **how)[0]

    return call


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SHARD_TOKENS": 10, "SHARD_DOCUMENTS": 3, "BATCH_DOCUMENTS": 5}.items():
        monkeypatch.setattr(shards, name, value)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SHARD_TOKENS": 12, "SHARD_DOCUMENTS": 3, "BATCH_DOCUMENTS": 5}.items():
        monkeypatch.setattr(shards, name, value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A corpus of 20 documents, submitted in 4 batches."""
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(corpus_of(*(f"good {number}" for number in range(20))))
    return path
