"""Rows of a program as a corpus: written once to a temporary file, with flat memory, whatever they are.

a path or an address                     read as `kvjobs submit` reads it
several paths (pathlib.Path)             files that come back translated, in one folder
dicts, or texts                          JSON Lines
a DataFrame, an Arrow table or stream    parquet, so that the types of columns survive
"""

import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from jobs.corpus.corpus_format import Format
from jobs.errors import KvjobsError, SpecError
from jobs.system.private import make_folder
from kvjobs.field_types import JsonTypes, arrow_types
from kvjobs.files import gathered
from kvjobs.tables import require_pyarrow

CHUNK = 1 << 20  # bytes that are written at a time
BATCH_ROWS = 10_000  # of an iterable of a `datasets.Dataset`


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A corpus: a path, or an open temporary file with its format."""

    path: str = "-"
    is_copy: bool = False  # the path is gone afterwards
    stream: BinaryIO | None = None
    format: Format | None = None  # of the stream, or of copies
    field_types: Mapping[str, Any] | None = None  # of fields that JSON has no type for


@contextmanager
def spooled(rows: Any, folder: Path) -> Iterator[Rows]:
    """The rows as a corpus; a temporary file is in `folder` and disappears with the process, however that ends.

    Raises SpecError for rows that are none, KvjobsError where the folder cannot be written to.
    """
    if isinstance(rows, str | os.PathLike):
        yield Rows(path=os.fspath(rows))
        return
    if isinstance(rows, list | tuple) and rows and all(isinstance(row, Path) for row in rows):
        with gathered(rows, folder) as copies:
            yield Rows(path=os.fspath(copies), is_copy=True, format=Format.FILES)
        return
    try:
        make_folder(folder)
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  # closed below: this `try` is for the opening alone
    except OSError as error:
        raise KvjobsError(f"rows cannot be written to {folder}: {error.strerror}; set KVJOBS_HOME") from None
    with file:
        table = _arrow_stream(rows)
        try:
            if table is not None:
                found = _write_parquet(table, file)
            elif isinstance(rows, Iterable) and not isinstance(rows, bytes | Mapping):
                found = _write_lines(rows, file)
            else:
                raise SpecError(
                    f"rows is {type(rows).__name__}; give a path, an iterable of dicts or texts, a DataFrame, or an "
                    "Arrow table"
                )
            file.flush()
        except OSError as error:
            raise KvjobsError(f"rows cannot be written to {folder}: {error.strerror}; free some space there") from None
        file.seek(0)
        yield found


def line_of(row: Any, number: int, types: JsonTypes) -> bytes:
    """A row as a line of JSON. `number`: from 1, for messages. Raises SpecError for a row that has no JSON form."""
    if isinstance(row, str):
        return orjson.dumps({"text": row}) + b"\n"
    if not isinstance(row, Mapping):
        raise SpecError(f"row {number} is {type(row).__name__}, not a dict or a text")
    try:
        return types.dump(row if type(row) is dict else dict(row)) + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise SpecError(f"row {number} has no JSON form: {error}") from None


def _write_lines(rows: Iterable[Any], file: BinaryIO) -> Rows:
    types = JsonTypes()
    parts: list[bytes] = []
    size = 0
    for number, row in enumerate(rows, start=1):
        parts.append(line_of(row, number, types))
        size += len(parts[-1])
        if size >= CHUNK:
            file.write(b"".join(parts))
            parts, size = [], 0
    file.write(b"".join(parts))
    return Rows(stream=file, format=Format.JSONL, field_types=types.found)


def _arrow_stream(rows: Any) -> Any:
    """The rows as a reader of Arrow batches; None: they are no table."""
    kind = type(rows).__module__.partition(".")[0]
    if kind == "datasets" and hasattr(rows, "with_format"):
        require_pyarrow()
        return _of_dataset(rows)
    if not hasattr(rows, "__arrow_c_stream__"):
        return None
    require_pyarrow()
    import pyarrow as pa

    if kind == "pandas":  # the index is no column of a corpus
        return pa.Table.from_pandas(rows, preserve_index=False).to_reader()
    return pa.RecordBatchReader.from_stream(rows)


def _of_dataset(rows: Any) -> Any:
    """A `datasets.Dataset`, or an IterableDataset, batch by batch."""
    import pyarrow as pa

    batches = (batch for table in rows.with_format("arrow").iter(BATCH_ROWS) for batch in _tables(table))
    first = next(batches, None)
    if first is None:
        return pa.table({}).to_reader()
    return pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))


def _tables(table: Any) -> list[Any]:
    batches: list[Any] = table.to_batches()
    return batches


def _write_parquet(reader: Any, file: BinaryIO) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetWriter(file, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SpecError(f"the table cannot be written as parquet: {error}") from None
    return Rows(stream=file, format=Format.PARQUET, field_types=arrow_types(reader.schema))
