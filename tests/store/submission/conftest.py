"""Fixtures that submit corpora into each database, with small shards and batches."""

from pathlib import Path
from typing import Any

import pytest

from jobs.corpus.corpus import Corpus
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.submission import shards
from jobs.submission.submit import submit
from jobs.submission.submitted_job import SubmittedJob
from tests.store.submission.corpora import SPEC, Submit
from tests.store.submission.killing import corpus_of


@pytest.fixture
def send(database: Database, tmp_path: Path) -> Submit:
    """A function that submits these bytes as corpus.jsonl: send(b"...", name="nightly")."""

    def call(data: bytes, spec: JobSpec = SPEC, file: str = "corpus.jsonl", **how: Any) -> SubmittedJob:
        path = tmp_path / file
        path.write_bytes(data)
        return submit(database, Corpus(path=path), spec, spool=tmp_path / "spool", **how)

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
