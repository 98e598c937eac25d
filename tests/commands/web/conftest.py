"""The dashboard, asked in this process."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from jobs.settings import Settings
from jobs.store.database import Database
from jobs.web.app import Options, create_app

Visit = Callable[..., TestClient]


@pytest.fixture
def client(database: Database, home: Path) -> Iterator[TestClient]:
    """Somebody at this machine, with no token."""
    app = create_app(database, Settings(home=home, models_dir=home / "models"), Options(hosts=("testserver",)))
    with TestClient(app) as client:
        yield client
