"""The rows of parquet files, for chosen line numbers, as Arrow batches with every type as it was.

Knows: batches, row numbers. Does not know: results, tables of the database.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jobs.corpus.parquet.rows import batches
from jobs.errors import SpecError


class CopiedRows:
    """The rows of files that have not changed, numbered on from file to file. Raises SpecError where their columns
    differ, as one table cannot hold them."""

    def __init__(self, paths: Sequence[Path]) -> None:
        import pyarrow.parquet as pq

        self._paths = paths
        self.schema = pq.read_schema(paths[0])
        for path in paths[1:]:
            if not pq.read_schema(path).equals(self.schema):
                raise SpecError(
                    f"{path} has other columns than {paths[0]}, and one file cannot hold the rows of both; leave "
                    "--format original out"
                )
        self._batches = self._read()
        self._start, self._batch = 0, next(self._batches, None)

    def batch_of(self, line: int) -> tuple[int, Any]:
        """The batch that holds a row, and the number of the row in it. Lines are asked for in ascending order."""
        while self._batch is not None and line > self._start + len(self._batch):
            self._start += len(self._batch)
            self._batch = next(self._batches, None)
        assert self._batch is not None, "the digest is that of the submit"
        return line - 1 - self._start, self._batch

    def _read(self) -> Iterator[Any]:
        import pyarrow.parquet as pq

        for path in self._paths:
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 18) as opened:
                yield from batches(opened)
