"""A server of S3 a process of the run, with a bucket a test."""

import itertools
from collections.abc import Iterator

import pytest

from tests.file_server import FileServer, file_server
from tests.moto_server import Bucket, MotoServer, bucket_of, moto_server

_numbers = itertools.count()


@pytest.fixture(scope="session")
def s3() -> Iterator[MotoServer]:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    with moto_server() as server:
        yield server


@pytest.fixture
def bucket(s3: MotoServer, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty bucket, which programs find by their environment."""
    bucket = bucket_of(s3, f"bucket-{next(_numbers)}")
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    return bucket


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as served:
        yield served
