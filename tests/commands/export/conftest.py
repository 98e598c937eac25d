"""A fixture for what is exported as parquet."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Kvjobs

Export = Callable[..., Any]


@pytest.fixture
def export(kvjobs: Kvjobs, tmp_path: Path) -> Export:
    """Export a job; the table that was written."""
    pq = pytest.importorskip("pyarrow.parquet")  # here: a file that is imported for all tests must not skip them

    def call(job: int, *arguments: str) -> Any:
        result = kvjobs("export", job, "-o", tmp_path / "out.parquet", *arguments)
        assert result.exit_code == 0, result.err
        return pq.read_table(tmp_path / "out.parquet")

    return call
