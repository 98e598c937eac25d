"""Parquet files for tests, and reading them without a process of their own."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from jobs.corpus.parquet.rows import RefusedFileError, RowsRequest, json_lines
from jobs.errors import CorpusError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install '.[parquet]')")
pq = pytest.importorskip("pyarrow.parquet")


def write_parquet(path: Path, columns: dict[str, Any], **how: Any) -> Path:
    """A file of these columns: lists of values, or Arrow arrays."""
    pq.write_table(pa.table(columns), path, **how)
    return path


class _Lines(io.BytesIO):
    on_bytes: Any = None

    def readinto(self, buffer: Any, /) -> int:
        num_bytes = super().readinto(buffer)
        if num_bytes and self.on_bytes:
            self.on_bytes(bytes(buffer[:num_bytes]))
        return num_bytes


@contextmanager
def rows_of_this_process(raw: BinaryIO, request: RowsRequest) -> Iterator[_Lines]:
    """In place of `jobs.corpus.parquet.reader.open_rows`, in layers that may start no process."""
    try:
        raw.seek(0)
        yield _Lines(b"".join(json_lines(io.BytesIO(raw.read()), request)))
    except RefusedFileError as error:
        raise CorpusError(str(error)) from None
