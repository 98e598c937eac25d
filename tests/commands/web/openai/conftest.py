"""A dashboard that takes files of 64 kB, and its thread that moves batches."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from jobs.operations.batch_runner import BatchRunner
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.web.app import Options, create_app


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=home, models_dir=home / "models", max_upload="64k")


@pytest.fixture
def client(database: Database, settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(database, settings, Options(hosts=("testserver",)))) as client:
        yield client


@pytest.fixture
def runner(database: Database, settings: Settings) -> BatchRunner:
    """The thread of a dashboard, which moves batches when a test asks it to."""
    return BatchRunner(database, settings)
