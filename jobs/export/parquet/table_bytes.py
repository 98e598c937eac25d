"""The bytes of a parquet file, as rows are added: nothing, but for the row that fills a row group.

Knows: pyarrow's writer. Does not know: results.
"""

from collections.abc import Sequence
from typing import Any

ROWS = 50_000  # of a row group, at most
CHARACTERS = 1 << 25  # of its texts, about: a group is in memory until it is written
PIECE_ROWS = 2_048  # rows that become Arrow's columns at a time: as Python values they take more


class _Written:
    """A file that is written from start to end; what was written can be taken away."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def take(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken


class TableBytes:
    """A parquet file that is being written."""

    def __init__(self, schema: Any) -> None:
        import pyarrow.parquet as pq

        self._schema = schema
        self._file = _Written()
        self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")
        self._rows: list[Sequence[Any]] = []
        self._batches: list[Any] = []
        self._num_rows = self._num_characters = 0

    def add(self, row: Sequence[Any]) -> bytes:
        """Add a row, a value a column; the bytes that are ready now."""
        self._rows.append(row)
        self._num_characters += sum([len(value) for value in row if isinstance(value, str)])
        if len(self._rows) >= PIECE_ROWS or self._num_characters >= CHARACTERS:
            self._close_piece()
        return self._flush_if_full()

    def add_batch(self, batch: Any) -> bytes:
        """Add the rows of an Arrow batch of this schema; the bytes that are ready now."""
        self._keep(batch)
        self._num_characters += batch.nbytes
        return self._flush_if_full()

    def end(self) -> bytes:
        """The rest of the file."""
        self._close_piece()
        self._flush()
        self._writer.close()
        return self._file.take()

    def _close_piece(self) -> None:
        import pyarrow as pa

        if self._rows:
            columns = list(zip(*self._rows, strict=True))
            arrays = [pa.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
            self._keep(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
            self._rows = []

    def _keep(self, batch: Any) -> None:
        self._batches.append(batch)
        self._num_rows += len(batch)

    def _flush_if_full(self) -> bytes:
        if self._num_rows < ROWS and self._num_characters < CHARACTERS:
            return b""
        self._flush()
        return self._file.take()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._num_rows:
            table = pa.Table.from_batches(self._batches, self._schema)
            self._writer.write_table(table, row_group_size=max(1, self._num_rows))
        self._batches, self._num_rows, self._num_characters = [], 0, 0
